"""Places in a CommitLog where a message is known to begin, found without reading what lies before
them.

They come from the ConsumeQueues: an entry says where a message begins, and the message says whether
it is the one that the entry stands for. Few queues are asked, those with the most entries.
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
"""Queues that are asked."""
LOOK_BYTES = 8 << 20
"""How far from a place a boundary is looked for."""
_TRIES_MAX = 4


class Boundaries:
    """Finds them in one store. `store` is its directory, None where it has no ConsumeQueues. One
    thread at a time; close it."""

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
        """Closes the files of queues."""
        self._open.close()

    def at_or_behind(self, offset: int, end: int) -> tuple[int, StoredMessage] | None:
        """The first known boundary in physical offsets [offset, end), not far from its start, and
        its message."""
        end = min(end, offset + LOOK_BYTES)
        found = [self._first(cursor, offset, end, newest=False) for cursor in self._cursors]
        return min((one for one in found if one is not None), key=lambda one: one[0], default=None)

    def at_or_before(self, offset: int, begin: int) -> tuple[int, StoredMessage] | None:
        """The last known boundary in physical offsets [begin, offset], not far from its end, and
        its message."""
        begin = max(begin, offset - LOOK_BYTES)
        found = [self._first(cursor, begin, offset + 1, newest=True) for cursor in self._cursors]
        return max((one for one in found if one is not None), key=lambda one: one[0], default=None)

    def _first(self, cursor: QueueCursor, begin: int, end: int, *, newest: bool) -> tuple[int, StoredMessage] | None:
        """The first of a queue's entries for a range of the log, from its end or its begin, that
        says what is true."""
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
    """(physical offset, size, queue offset) of a few entries for a range of the log, from its end
    or its begin."""
    runs = PieceEntries([(0, run) for run in cursor.take(begin, end)]).runs((0,))
    if not runs:
        return []
    run = runs[-1][1] if newest else runs[0][1]
    few = run.slice(max(len(run) - _TRIES_MAX, 0), len(run)) if newest else run.slice(0, _TRIES_MAX)
    found = list(zip(few.offsets.tolist(), few.sizes.tolist(), few.queue_offsets.tolist(), strict=True))
    return found[::-1] if newest else found
