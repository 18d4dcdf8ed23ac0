"""ConsumeQueues that are missing or lack their last file, as far as few reads show it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice

from logdex.errors import StoreError
from logdex.io.env import Env
from logdex.layout.rocketmq import CONSUME_QUEUE_ENTRY
from logdex.rocketmq.commit_log.commit_log import CommitLog
from logdex.rocketmq.consume_queue.consume_queue import ConsumeQueue
from logdex.rocketmq.files.known_topics import KnownTopics
from logdex.rocketmq.message.message_json import to_text
from logdex.rocketmq.message.stored_message import StoredMessage
from logdex.rocketmq.scan.log_walk import walk
from logdex.rocketmq.settings.store_config import StoreConfig

_STARTS_MAX = 64
_AT_STARTS, _BEHIND_FULL = 256, 1024
_BYTES_MAX = 1 << 20

Queue = tuple[bytes, int]
"""A topic and a queue id."""


@dataclass(frozen=True, slots=True)
class QueueEnd:
    """The physical offsets of a queue's first and last message, -1 without any; the queue offset
    behind the last one; and whether its files have no room for another one."""

    first: int
    last: int
    max_offset: int
    is_full: bool

    @staticmethod
    def of(queue: ConsumeQueue, max_offset: int) -> QueueEnd | None:
        """Returns the end of a queue that ends at `max_offset` as far as the log goes, None if its
        last entry is of no message."""
        if max_offset == queue.start_offset:
            return QueueEnd(-1, -1, max_offset, is_full=False)
        first, last = queue.entry(queue.start_offset), queue.entry(max_offset - 1)
        file, at = queue.place_of(max_offset - 1)
        is_full = file.size_bytes - at < 2 * CONSUME_QUEUE_ENTRY.size_bytes
        begin = first.physical_offset if first.is_message else last.physical_offset
        return QueueEnd(begin, last.physical_offset, max_offset, is_full) if last.is_message else None


def lost_queues(
    root: str, log: CommitLog, ends: Mapping[Queue, QueueEnd | None], newest: int | None, config: StoreConfig, env: Env
) -> list[str]:
    """Returns a line per topic without a ConsumeQueue, and per queue that is missing or ends too
    early, although a message was looked at that must have an entry. `ends` has the queues that are
    there; nothing is said of one whose end is None. `newest` is the physical offset of the log's
    last message, if it is known.

    Looked at are the last message of the log, about 256 messages at the starts of the CommitLog
    files, and about 1,000 behind the ends of queues whose last file is full. What they miss,
    `verify` finds."""
    begins: dict[bytes, int] = {}
    for (topic, _), end in ends.items():
        if end is None or end.last >= 0:
            begins[topic] = min(begins.get(topic, log.end_offset), 0 if end is None else end.first)
    known = KnownTopics.read(root, env=env)
    topics, queues = dict[bytes, int](), dict[Queue, StoredMessage]()
    for message in _looked_at(log, ends, newest, config, env):
        topic, queue = message.topic, (message.topic, message.queue_id)
        if not message.is_queued or known.is_deleted(topic):
            continue
        if topic not in begins:
            topics.setdefault(topic, message.physical_offset)
        elif _lacks(ends, queue, begins[topic], message):
            queues.setdefault(queue, message)
    unless = ", unless it was deleted" if known.topics is None else ""
    return [
        *(
            f"the topic {to_text(topic)} has messages, one at offset {at}, and no ConsumeQueue: "
            f"logdex rebuild derives it{unless}"
            for topic, at in sorted(topics.items())
        ),
        *(
            _line(queue, ends.get(queue), message)
            for queue, message in sorted(queues.items(), key=lambda each: each[0])
        ),
    ]


def _looked_at(
    log: CommitLog, ends: Mapping[Queue, QueueEnd | None], newest: int | None, config: StoreConfig, env: Env
) -> Iterator[StoredMessage]:
    starts = [file.start_offset for file in log.files[:: -(-len(log.files) // _STARTS_MAX)]]
    full = [end.last for end in ends.values() if end is not None and end.is_full and end.last >= log.min_offset]
    yield from _behind(log, starts, _AT_STARTS, config, env)
    yield from _behind(log, [] if newest is None else [newest], 1, config, env)
    yield from _behind(log, full[:_STARTS_MAX], _BEHIND_FULL, config, env)


def _behind(log: CommitLog, starts: list[int], messages: int, config: StoreConfig, env: Env) -> Iterator[StoredMessage]:
    """Yields `messages` messages in all from some places on, or fewer if they are long."""
    for start in starts:
        left = _BYTES_MAX // len(starts)
        with suppress(StoreError):
            for _, message in islice(walk(log, start, config, env), -(-messages // len(starts))):
                yield message
                left -= message.size_bytes
                if left < 0:
                    break


def _lacks(ends: Mapping[Queue, QueueEnd | None], queue: Queue, begin: int, message: StoredMessage) -> bool:
    """Whether the queue of a message must have an entry of it and has none. Messages before those
    of the queue, or before the first one of the topic at `begin`, may be of a topic of this name
    that was deleted."""
    end = ends.get(queue, QueueEnd(-1, -1, 0, is_full=False))
    if end is None:
        return False
    return message.queue_offset >= end.max_offset and message.physical_offset > max(end.last, begin)


def _line(queue: Queue, end: QueueEnd | None, message: StoredMessage) -> str:
    name = f"the topic {to_text(queue[0])} has messages in queue {queue[1]}"
    if end is None or end.last < 0:
        return f"{name}, one at offset {message.physical_offset}, and no ConsumeQueue of it: logdex rebuild derives it"
    what = f"{name} that its ConsumeQueue lacks, which ends at queue offset {end.max_offset}"
    return (
        f"{what}: queue offset {message.queue_offset} is at offset {message.physical_offset}: logdex rebuild derives it"
    )
