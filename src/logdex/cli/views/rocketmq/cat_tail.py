"""Prints the last messages of each queue."""

from __future__ import annotations

import shlex
from collections import defaultdict, deque
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from logdex.cli.output import hint, note
from logdex.cli.views.rocketmq.messages import MessagePrinter, tell_deleted
from logdex.errors import StoreError

if TYPE_CHECKING:
    from logdex.rocketmq.message.stored_message import StoredMessage
    from logdex.rocketmq.read.message_scan import LogScan
    from logdex.rocketmq.read.results import QueueInfo
    from logdex.rocketmq.snapshot.read_mark import SeenMessages
    from logdex.rocketmq.snapshot.store_snapshot import StoreSnapshot

Bounds = tuple[str | None, int | None, int | None, int | None]
"""Topic, queue, and the first and last store time."""


class PrintedTail(NamedTuple):
    """What is known behind the last messages of each queue."""

    is_good: bool
    """Whether all could be read."""
    problems: list[str]
    deleted: list[str]
    """The files that the broker removed meanwhile."""
    newest: int | None
    """The physical offset of the newest message of all queues: what is new is found from there."""
    printed: dict[int, StoredMessage]
    """The messages by their offsets."""


def print_tail(
    snapshot: StoreSnapshot,
    bounds: Bounds,
    queue_offset: int | None,
    physical_offset: int | None,
    count: int,
    printer: MessagePrinter,
) -> PrintedTail:
    """Prints the last `count` messages of each queue that are wanted, in log order."""
    topic, queue_id, begin_ms, end_ms = bounds
    snapshot.require_known(topic, queue_id)

    def passes(at: int, message: StoredMessage) -> bool:
        time_ms = message.store_timestamp_ms
        is_late = (begin_ms is None or time_ms >= begin_ms) and (physical_offset is None or at >= physical_offset)
        return is_late and (end_ms is None or time_ms <= end_ms) and printer.wants(message, at)

    found: list[tuple[int, StoredMessage]] = []
    problems, deleted = list[str](), list[str]()
    newest, is_there = physical_offset, False
    for queue in snapshot.queues():
        newest = _later(newest, _last_of(snapshot, queue))
        if not _is_wanted(queue, bounds):
            continue
        is_there = True
        tail = snapshot.get_tail(queue.topic, queue.queue_id, count, passes, queue_offset or 0)
        found += tail.messages
        problems += [problem.message for problem in tail.problems]
    for problem in problems:
        note(problem)
    is_good = not problems
    if not is_there:
        of_queue = "" if queue_id is None else f", queue {queue_id},"
        whose = snapshot.root if topic is None else f"the topic {topic}{of_queue}"
        problems.append(f"{whose} has no ConsumeQueue: the log is read, and logdex rebuild derives it")
        note(problems[-1])
        scan = snapshot.scan(*bounds, start_offset=physical_offset, queue_offset=queue_offset)
        found = _last_of_log(scan, count, printer)
        newest = _later(newest, max((at for at, _ in found), default=None))
        deleted = tell_deleted(scan)
        if scan.end is not None and not scan.end.is_clean:
            is_good = False
            problems.append(scan.end.description)
            note(problems[-1])
    if not is_good:
        hint(f"logdex verify {shlex.quote(snapshot.root)} lists all damage")
    printed = dict(sorted(found, key=lambda pair: pair[0]))
    for at, message in printed.items():
        printer.print(message, at)
    return PrintedTail(is_good, problems, deleted, newest, printed)


def _last_of_log(scan: LogScan, count: int, printer: MessagePrinter) -> list[tuple[int, StoredMessage]]:
    """Returns the last `count` wanted messages of each queue, from a scan."""
    last: dict[tuple[bytes, int], deque[tuple[int, StoredMessage]]] = defaultdict(partial(deque, maxlen=count))
    for at, message in scan.items():
        if message.is_queued and printer.wants(message, at):
            last[message.topic, message.queue_id].append((at, message))
    return [each for tail in last.values() for each in tail]


def seen_before_tail(snapshot: StoreSnapshot, bounds: Bounds) -> SeenMessages:
    """Returns messages by which a cut of the log is noticed that begins before what a tail prints:
    of each queue that is wanted the last one, and fewer and fewer of those before it."""
    from logdex.rocketmq.snapshot.read_mark import SeenMessages

    while True:
        seen = SeenMessages(snapshot.commit_log)
        seen.look(snapshot.valid_end)
        for queue in snapshot.queues():
            if _is_wanted(queue, bounds):
                _add_some(snapshot, queue, seen)
        if not seen.is_cut():
            return seen
        snapshot.refresh()


def _add_some(snapshot: StoreSnapshot, queue: QueueInfo, seen: SeenMessages) -> None:
    at, step = queue.max_offset - 1, 1
    with suppress(StoreError):  # who prints it reports it
        while at >= queue.min_offset:
            page = snapshot.get_message(queue.topic, queue.queue_id, at, 1)
            for physical_offset, message in zip(page.phy_offsets, page.messages, strict=True):
                seen.add(physical_offset, message)
            at, step = at - step, 2 * step


def _is_wanted(queue: QueueInfo, bounds: Bounds) -> bool:
    topic, queue_id, *_ = bounds
    return topic in (None, _text(queue.topic)) and queue_id in (None, queue.queue_id)


def _text(topic: bytes) -> str:
    return topic.decode("utf-8", "surrogateescape")


def _last_of(snapshot: StoreSnapshot, queue: QueueInfo) -> int | None:
    """Returns the physical offset of a queue's last message, None if there is none."""
    if queue.max_offset <= queue.min_offset:
        return None
    try:
        return snapshot.consume_queue(queue.topic, queue.queue_id).entry(queue.max_offset - 1).physical_offset
    except StoreError:
        return None


def _later(one: int | None, other: int | None) -> int | None:
    return max((each for each in (one, other) if each is not None), default=None)
