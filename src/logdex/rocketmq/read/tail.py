"""Reads the last messages of a queue, backwards from its end."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from logdex.errors import CorruptError
from logdex.rocketmq.commit_log.commit_log import CommitLog
from logdex.rocketmq.message.stored_message import StoredMessage
from logdex.rocketmq.read.get_message import QueueView, get_message, offset_behind

Placed = tuple[int, StoredMessage]
"""A message with its physical offset."""

WINDOW_ENTRIES_MAX = 1 << 16
AT_ONCE_BYTES = 16 << 20
"""The most entries and bytes of messages that are read at once, so that memory is bounded."""


@dataclass(slots=True)
class QueueTail:
    """The last messages of a queue in its order, and what could not be read on the way."""

    messages: list[Placed] = field(default_factory=list)
    problems: list[CorruptError] = field(default_factory=list)


def read_tail(
    view: QueueView,
    log: CommitLog,
    count: int,
    passes: Callable[[int, StoredMessage], bool] = lambda *_: True,
    first_offset: int = 0,
) -> QueueTail:
    """Returns the last `count` messages of a queue that pass, from queue offset `first_offset` on.

    Reads windows of entries, each twice as wide as the one after it, until there are enough
    messages. Damage is passed over and noted.
    """
    tail = QueueTail()
    low = max(view.min_offset, first_offset)
    end, step = view.max_offset, max(count, 1)
    while end > low and len(tail.messages) < count:
        begin = max(low, end - step)
        last: deque[Placed] = deque(maxlen=count - len(tail.messages))
        problems = _read_window(view, log, begin, end, passes, last)
        tail.messages[:0] = last
        known = {str(problem) for problem in tail.problems}  # one may reach over several windows
        tail.problems[:0] = [problem for problem in problems if str(problem) not in known]
        end, step = begin, min(2 * step, WINDOW_ENTRIES_MAX)
    return tail


def _read_window(
    view: QueueView,
    log: CommitLog,
    at: int,
    end: int,
    passes: Callable[[int, StoredMessage], bool],
    last: deque[Placed],
) -> list[CorruptError]:
    """Adds the messages of the entries [`at`, `end`) that pass to `last`. Returns what could not be
    read."""
    problems: list[CorruptError] = []
    while at < end:
        try:
            found = get_message(view, log, at, end - at, AT_ONCE_BYTES)
        except CorruptError as error:
            problems.append(error)
            at = offset_behind(view, log, at)
            continue
        for place, message in zip(found.phy_offsets, found.messages, strict=True):
            if passes(place, message):
                last.append((place, message))
        at = max(found.next_begin_offset, at + 1)
        if found.problem is not None:
            problems.append(found.problem)
            at = offset_behind(view, log, found.next_begin_offset)
    return problems
