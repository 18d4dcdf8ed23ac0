"""Finds places in a CommitLog where a message begins, without reading the bytes before them.

The places come from the ConsumeQueues: an entry states where a message begins, and the message is
read to check that it is the entry's. Only the few queues with the most entries are used.
"""

from __future__ import annotations

from functools import cached_property

from logdex.errors import CorruptError, MissingFileError
from logdex.io.env import Env
from logdex.io.open_files import OpenFiles
from logdex.rocketmq.commit_log.commit_log import CommitLog
from logdex.rocketmq.consume_queue.queue_coverage import PieceEntries
from logdex.rocketmq.consume_queue.queue_cursor import QueueCursor, open_cursors
from logdex.rocketmq.message.stored_message import StoredMessage

QUEUES_MAX = 8
"""The number of queues that are used."""
LOOK_BYTES = 8 << 20
"""The distance in bytes within which a boundary is searched."""
_TRIES_MAX = 4


class Boundaries:
    """Finds boundaries in one store. `store` is its directory, None if it has no ConsumeQueues. One
    thread at a time. The owner must call `close`."""

    def __init__(self, log: CommitLog, store: str | None, env: Env) -> None:
        self._log = log
        self._store = store
        self._env = env
        self._open = OpenFiles(env)

    @cached_property
    def _cursors(self) -> list[QueueCursor]:
        cursors = [] if self._store is None else open_cursors(self._store, self._env, self._open)
        return sorted(cursors, key=lambda cursor: -cursor.size_bytes)[:QUEUES_MAX]

    def close(self) -> None:
        """Closes the ConsumeQueue files."""
        self._open.close()

    def at_or_behind(self, offset: int, end: int) -> tuple[int, StoredMessage] | None:
        """Returns the first known boundary in physical offsets [offset, end), near its start, and
        its message."""
        end = min(end, offset + LOOK_BYTES)
        found = [self._first(cursor, offset, end, newest=False) for cursor in self._cursors]
        return min((one for one in found if one is not None), key=lambda one: one[0], default=None)

    def at_or_before(self, offset: int, begin: int) -> tuple[int, StoredMessage] | None:
        """Returns the last known boundary in physical offsets [begin, offset], near its end, and
        its message."""
        begin = max(begin, offset - LOOK_BYTES)
        found = [self._first(cursor, begin, offset + 1, newest=True) for cursor in self._cursors]
        return max((one for one in found if one is not None), key=lambda one: one[0], default=None)

    def _first(self, cursor: QueueCursor, begin: int, end: int, *, newest: bool) -> tuple[int, StoredMessage] | None:
        """Returns the first correct one of a queue's entries for a range of the log, from its end
        or its begin."""
        for offset, size, queue_offset in _some(cursor, begin, end, newest):
            try:
                message = self._log.read_message(offset, check_crc=False)
            except (CorruptError, MissingFileError):
                continue
            says = (message.topic, message.queue_id, message.queue_offset, message.size_bytes, message.physical_offset)
            if says == (cursor.topic, cursor.queue_id, queue_offset, size, offset):
                return offset, message
        return None


def _some(cursor: QueueCursor, begin: int, end: int, newest: bool) -> list[tuple[int, int, int]]:
    """Returns (physical offset, size, queue offset) of a few entries for a range of the log, from
    its end or its begin."""
    runs = PieceEntries([(0, run) for run in cursor.take(begin, end)]).runs((0,))
    if not runs:
        return []
    run = runs[-1][1] if newest else runs[0][1]
    few = run.slice(max(len(run) - _TRIES_MAX, 0), len(run)) if newest else run.slice(0, _TRIES_MAX)
    found = list(zip(few.offsets.tolist(), few.sizes.tolist(), few.queue_offsets.tolist(), strict=True))
    return found[::-1] if newest else found
