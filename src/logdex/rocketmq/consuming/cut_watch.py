"""Where a consumer goes on after a broker that recovers has cut the log which it reads."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import NamedTuple

from logdex.errors import StoreError, UnreadableError
from logdex.jobs.look_again import LOOKS_MAX
from logdex.rocketmq.consuming.membership import Queue
from logdex.rocketmq.snapshot.read_mark import ReadMark, thinned
from logdex.rocketmq.snapshot.store_snapshot import StoreSnapshot

_MARKS_MAX = 64
"""The most marks that are kept of a queue: all of the newest, fewer and fewer of the older ones."""


class _Passed(NamedTuple):
    """A message that a reader has passed in its queue."""

    queue_offset: int
    mark: ReadMark


class CutWatch:
    """Knows, of each queue, some of the messages before the position of its reader, and the last
    message of the log. A cut takes the end of the log, and of each queue: if the last message is
    still there, all that was read since the look before is of one log, and if the newest of a
    queue's marks is there, so are all messages before it."""

    def __init__(self, snapshot: StoreSnapshot) -> None:
        self._snapshot = snapshot
        self._last: ReadMark | None = None
        self._end: int | None = None
        """Where the log ended at the last look."""
        self._marks: dict[Queue, list[_Passed]] = {}
        self._sure: dict[Queue, int] = {}
        """The positions at the last look: nothing before them was cut at that time."""

    def begin(self, queue: Queue, position: int) -> None:
        """Takes up a queue whose reader goes on at `position`. Cuts before that are noticed,
        too."""
        step, marks = 1, list[_Passed]()
        while position - step >= 0:
            mark = self._mark_before(queue, position - step + 1)
            if mark is None:
                break
            marks.append(mark)
            step *= 2
        self._marks[queue], self._sure[queue] = marks[::-1], position

    def look(self, positions: Mapping[Queue, int]) -> dict[Queue, int]:
        """Refreshes the snapshot. Returns where to go on in the queues that were cut before the
        position of their reader: behind the newest message that is known to be still there, so that
        some messages may come again. After an error the next look finds the same cut."""
        was_cut = self._has_refreshed()
        passed = {queue: self._mark_before(queue, at) for queue, at in positions.items() if at != self._sure[queue]}
        last = self._refreshed()
        is_cut = was_cut or self._is_last_gone()
        self._end = self._snapshot.valid_end_offset
        if not is_cut and not any(self._is_beyond(queue, at) for queue, at in positions.items()):
            for queue, mark in passed.items():
                self._add(queue, mark)
            self._last, self._sure = last or self._last, dict(positions)
            return {}
        kept = {queue: self._still_there(self._marks[queue]) for queue in positions}
        sure = dict[Queue, int]()
        for queue, at in positions.items():
            is_whole = kept[queue] == self._marks[queue]
            sure[queue] = min(self._sure[queue] if is_whole else _behind(kept[queue]), at)
        self._last, self._marks, self._sure = last, kept, sure
        return {queue: at for queue, at in sure.items() if at < positions[queue]}

    def _refreshed(self) -> ReadMark | None:
        """Refreshes the snapshot, and again where its last message is cut meanwhile. Returns the
        mark of that message, None if there is none."""
        last: ReadMark | None = None
        for _ in range(LOOKS_MAX):
            self._snapshot.refresh()
            last = self._snapshot.newest_mark()
            if last is not None or self._snapshot.valid_end_offset <= self._snapshot.commit_log.min_offset:
                break
        return last

    def _is_beyond(self, queue: Queue, position: int) -> bool:
        """Whether a reader has passed more than a queue has, because it was cut within a look."""
        with suppress(StoreError):
            return self._sure[queue] < position > self._snapshot.consume_queue(*queue).max_offset
        return False

    def is_cut(self) -> bool:
        """Whether the log was cut since the last look."""
        return self._has_refreshed() or self._is_last_gone()

    def _has_refreshed(self) -> bool:
        """Whether the snapshot has refreshed itself, as it does where it meets a cut."""
        return self._end is not None and self._snapshot.valid_end_offset != self._end

    def _is_last_gone(self) -> bool:
        return self._last is not None and not self._is_there(self._last)

    def _mark_before(self, queue: Queue, position: int) -> _Passed | None:
        """Returns the message before a position of a queue, None if it cannot be read."""
        if position <= 0:
            return None
        with suppress(StoreError):
            entry = self._snapshot.consume_queue(*queue).entry(position - 1)
            mark = ReadMark.at(self._snapshot.commit_log, entry.physical_offset) if entry.is_message else None
            return None if mark is None else _Passed(position - 1, mark)
        return None

    def _add(self, queue: Queue, newest: _Passed | None) -> None:
        marks = self._marks[queue]
        if newest is not None and (not marks or newest.queue_offset > marks[-1].queue_offset):
            self._marks[queue] = thinned([*marks, newest], _MARKS_MAX)

    def _still_there(self, marks: list[_Passed]) -> list[_Passed]:
        count = len(marks)
        while count and not self._is_there(marks[count - 1].mark):
            count -= 1
        return marks[:count]

    def _is_there(self, mark: ReadMark) -> bool:
        """Whether a message is as it was, or was removed with the oldest files. One that cannot be
        read is not, so that messages rather come again than are missing."""
        try:
            return mark.is_in(self._snapshot.commit_log)
        except UnreadableError:
            return False


def _behind(marks: list[_Passed]) -> int:
    return marks[-1].queue_offset + 1 if marks else 0
