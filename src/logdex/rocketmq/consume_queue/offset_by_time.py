"""The queue offset for a timestamp (getOffsetInQueueByTime), as each version of the engine computes
it.

Source: ``docs/formats/consume-queue.md``; ConsumeQueue.getOffsetInQueueByTime,
MappedFileQueue.getMappedFileByTime and getConsumeQueueMappedFileByTime,
ConsumeQueueStore.getOffsetInQueueByTime.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple

from logdex.errors import UsageError
from logdex.primitives.wrong_questions import require_given
from logdex.rocketmq.consume_queue.consume_queue import ENTRY_SIZE_BYTES, ConsumeQueue
from logdex.rocketmq.files.offset_files import OffsetFile
from logdex.rocketmq.settings.dialect import Dialect

Boundary = Literal["lower", "upper"]
ReadStoreTimestamp = Callable[[int, int], int]
"""(physical offset, size in bytes) → store time in ms, or -1 if the log does not hold the
message."""


class QueueBounds(NamedTuple):
    """The bounds of a queue as the engine knows them: its minimum and maximum queue offset, and the
    smallest physical offset of the log."""

    min_offset: int
    max_offset: int
    commit_log_min_offset: int


def require_boundary(boundary: object) -> None:
    """Raises `UsageError` for what is no boundary."""
    if boundary not in ("lower", "upper"):
        raise UsageError(f"boundary is {boundary!r}", hint="use 'lower' or 'upper'")


def offset_in_queue_by_time(
    queue: ConsumeQueue,
    timestamp_ms: int,
    read_store_timestamp: ReadStoreTimestamp,
    bounds: QueueBounds,
    *,
    boundary: Boundary = "lower",
    dialect: Dialect,
    modified_ms: Callable[[str], int],
) -> int:
    """Returns the queue offset that the engine of `dialect` returns for a timestamp.

    From 5.1.1 on, `boundary` decides: ``lower`` is the first message stored at or after the
    timestamp, ``upper`` the last one stored at or before it. Earlier engines return a message
    stored at exactly that time, otherwise the nearest one. They choose the file by its modification
    time, which `modified_ms` returns.
    """
    require_boundary(boundary)
    require_given(timestamp_ms=timestamp_ms)
    search = _Search(queue, timestamp_ms, read_store_timestamp, bounds)
    if dialect.time_has_boundaries:
        found = search.with_boundary(boundary)
    else:
        found = search.nearest(modified_ms)
    if dialect.time_is_clipped:
        found = min(max(found, bounds.min_offset), bounds.max_offset)
    return found


class _Search:
    """One search. Positions are counted in entries from the start of a file; -1 is the engine's
    "none"."""

    def __init__(
        self, queue: ConsumeQueue, timestamp_ms: int, read_store_timestamp: ReadStoreTimestamp, bounds: QueueBounds
    ) -> None:
        self.queue, self.wanted, self.bounds = queue, timestamp_ms, bounds
        self._read = read_store_timestamp
        # Files after the end were created ahead, or hold only truncated entries: the engine has
        # none of them.
        end = bounds.max_offset * ENTRY_SIZE_BYTES
        self.files = [file for file in queue.files if file.start_offset < end]

    def time_at(self, queue_offset: int) -> int:
        entry = self.queue.entry(queue_offset)
        return self._read(entry.physical_offset, entry.size_bytes)

    def span(self, file: OffsetFile) -> tuple[int, int, int]:
        """Returns the queue offset of the file's start, and the first and the last position to
        search."""
        start = file.start_offset // ENTRY_SIZE_BYTES
        count = min(file.size_bytes // ENTRY_SIZE_BYTES, self.bounds.max_offset - start)
        return start, max(self.bounds.min_offset - start, 0), count - 1

    def narrow(self, start: int, low: int, high: int) -> tuple[int, int, int, int, int] | None:
        """Binary search. Returns (position of a message stored at exactly that time, last position
        before it, its time, first position after it, its time), or None if the log does not hold a
        message that the search needs."""
        left = right = left_time = right_time = -1
        while high >= low:
            middle = (low + high) // 2
            entry = self.queue.entry(start + middle)
            if entry.physical_offset < self.bounds.commit_log_min_offset:
                low, left = middle + 1, middle
                continue
            time = self._read(entry.physical_offset, entry.size_bytes)
            if time < 0:
                return None
            if time == self.wanted:
                return middle, left, left_time, right, right_time
            if time > self.wanted:
                high, right, right_time = middle - 1, middle, time
            else:
                low, left, left_time = middle + 1, middle, time
        return -1, left, left_time, right, right_time

    def nearest(self, modified_ms: Callable[[str], int]) -> int:
        """Returns what the engines before 5.1.1 return."""
        if not self.files:
            return 0
        file = next((file for file in self.files if modified_ms(file.path) >= self.wanted), self.files[-1])
        start, low, high = self.span(file)
        found = self.narrow(start, low, high)
        if found is None:
            return 0
        target, left, left_time, right, right_time = found
        if target >= 0:
            return start + target
        if left_time == -1:
            return _plus(start, right)
        if right_time == -1 or abs(self.wanted - left_time) <= abs(self.wanted - right_time):
            return start + left
        return start + right

    def with_boundary(self, boundary: Boundary) -> int:
        """Returns what the engines from 5.1.1 on return."""
        lower = boundary == "lower"
        file = self._lower_file() if lower else self._upper_file()
        if file is None:
            return 0
        start, low, high = self.span(file)
        if self.time_at(start + high) < self.wanted:
            return start + high + (1 if lower else 0)
        if self.time_at(start + min(low, high)) > self.wanted:
            return start if lower else 0
        found = self.narrow(start, low, high)
        if found is None:
            return 0
        target, left, _, right, _ = found
        if target < 0:
            return _plus(start, right if lower else left)
        step, stop = (-1, low - 1) if lower else (1, high + 1)
        while target + step != stop and self.time_at(start + target + step) == self.wanted:
            target += step
        return start + target

    def _lower_file(self) -> OffsetFile | None:
        for file in self.files[:-1]:
            if self.time_at(file.end_offset // ENTRY_SIZE_BYTES - 1) >= self.wanted:
                return file
        return self.files[-1] if self.files else None

    def _upper_file(self) -> OffsetFile | None:
        for file in reversed(self.files):
            if self.time_at(file.start_offset // ENTRY_SIZE_BYTES) <= self.wanted:
                return file
        return None


def _plus(start: int, place: int) -> int:
    """Returns start + place. For the position "none" the result is one byte, not one entry, before
    the file's start, as in the engine."""
    return max(start + place, 0)
