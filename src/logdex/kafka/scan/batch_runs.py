"""Finds runs of whole batches anywhere in a file, in the log itself or in a value. A run is a
sequence of adjacent batches with right checksums and rising offsets.

`BatchRuns` only finds the runs. `logdex.kafka.scan.resume` decides whether a run after damage
belongs to the log.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

import numpy as np

from logdex.io.mapped.byte_array import ByteArray
from logdex.io.mapped.mapping import readable_end
from logdex.kafka.scan.scanner import BatchScanner
from logdex.kernels.common.crc32c import crc_sources
from logdex.kernels.kafka import batch_scan as kernel
from logdex.kernels.kafka.batch_columns import BatchColumns

_crc_sources = cache(crc_sources)
_FIND_WORK = 32
_BELOW_ALL = -(1 << 63)


class BatchRun(NamedTuple):
    """Whole batches in bytes [`start`, `end`) with offsets from `first_offset` to `last_offset`."""

    start: int
    end: int
    first_offset: int
    last_offset: int


def is_whole_batch(data: ByteArray, position: int) -> bool:
    """Whether a whole batch with a right checksum begins at `position`."""
    if not 0 <= position < data.size:
        return False
    base = int(data.ctypes.data)
    at, end = base + position, base + data.size
    return bool(kernel.head_problem(at, end) < 0 and kernel.batch_crc(at, _crc_sources()) == kernel.stored_crc(at))


class BatchRuns:
    """The runs of the log `data`, found once, from front to back. Not thread-safe.

    At most 32 times the bytes of the log are read; after that no more runs are found. Without this
    limit, bytes crafted to look like a large batch at every position would take quadratic time.
    Memory depends on the number of runs after the last `forget_before`.
    """

    def __init__(self, data: ByteArray) -> None:
        self._data = data
        self._budget = _FIND_WORK * data.size
        self._scanner: BatchScanner | None = None
        self._runs: list[BatchRun] = []
        self._to = 0
        """All runs that begin before this position, except forgotten ones, are known."""
        self._next: int | None = None
        """The start of the first run after them; -1 if there is none, None before a search."""

    def forget_before(self, position: int) -> None:
        """Drops the runs before `position`. Later calls must not ask for positions before it."""
        del self._runs[: bisect_right(self._runs, position, key=lambda run: run.end)]
        if self._runs and self._runs[0].start <= position:  # damage is in no run of the log
            self._runs, self._to, self._next = [], position + 1, None
        if self._to <= position:
            self._to = position + 1
            if self._next is not None and 0 <= self._next <= position:
                self._next = None

    def start_behind(self, position: int) -> int:
        """Returns the start of the first run after `position`, or -1 if there is none."""
        at = bisect_right(self._runs, position, key=lambda run: run.start)
        if at < len(self._runs):
            return self._runs[at].start
        while 0 <= (start := self._next_start()) <= position:
            self._walk_next()
        return start

    def first_behind(self, position: int) -> BatchRun | None:
        """Returns the first run after `position`. This may scan up to the end of the log."""
        start = self.start_behind(position)
        if start < 0:
            return None
        if start >= self._to:
            self._walk_next()
        return self._runs[bisect_left(self._runs, start, key=lambda run: run.start)]

    def all_behind(self, position: int) -> Iterator[BatchRun]:
        """Yields the runs after `position`, up to the end of the log."""
        run = self.first_behind(position)
        while run is not None:
            yield run
            run = self.first_behind(run.end - 1)

    def over(self, position: int) -> BatchRun | None:
        """Returns the run that begins before `position` and ends after it."""
        self.start_behind(position)
        at = bisect_left(self._runs, position, key=lambda run: run.start)
        return self._runs[at - 1] if at > 0 and self._runs[at - 1].end > position else None

    def at(self, position: int) -> BatchRun | None:
        """Returns the run that begins at `position`, which may lie within a longer one; None if no
        whole batch begins there."""
        if not is_whole_batch(self._data, position):
            return None
        if self.over(position) is not None:
            return self._walk(position)
        return self.first_behind(position - 1)

    def _next_start(self) -> int:
        while self._next is None:
            size, found = self._data.size, -1
            if self._budget > 0:
                base = int(self._data.ctypes.data)
                found, self._budget = kernel.find_batch(base, self._to, size, self._budget, _crc_sources())
                self._budget -= (size if found < 0 else found) - self._to
            if found >= 0 and readable_end(self._data, found, found + 1) == found:
                self._to = int(found) + 1  # no CRC covers its first bytes, which read as zeros
            else:
                self._next = int(found)
        return self._next

    def _walk_next(self) -> None:
        run = self._walk(self._next_start())
        self._runs.append(run)
        self._to, self._next = run.end, None

    def _walk(self, start: int) -> BatchRun:
        if self._scanner is None:
            self._scanner = BatchScanner(unreadable_is_damage=True)
        first, end, before = -1, start, (-1, -1)
        for window in self._scanner.scan_bytes(self._data, start):
            columns = window.columns
            if end == start:
                first = int(columns.base_offset[0])
                before = (_BELOW_ALL, first - 1)
            rising = _rising_count(columns, before)
            if not rising:
                break
            before = (before[1], int(columns.last_offset[rising - 1]))
            end = int(columns.position[rising - 1]) + int(columns.size[rising - 1])
            if rising < window.count:
                break
        end = max(end, start + 1)  # the file may have been truncated since then
        self._budget -= end - start
        return BatchRun(start, end, first, before[1])


def _rising_count(columns: BatchColumns, before: tuple[int, int]) -> int:
    """Returns how many batches come before the first one that ends the run. A batch ends it if its
    offset is not above those of the two batches before it, and the next batch's offset is not
    either; a single batch with a wrong offset does not end a run. `before` holds the last offsets
    of the two batches before the window.
    """
    bases, lasts = columns.base_offset, columns.last_offset
    previous = np.concatenate((before[1:], lasts[:-1]))
    if (bases > previous).all():
        return len(bases)
    earlier = np.concatenate((before, lasts[:-2]))[: len(bases)]
    following = np.append(bases[1:], _BELOW_ALL)
    falls = np.flatnonzero((bases <= previous) & (bases <= earlier) & (following <= previous))
    return int(falls[0]) if len(falls) else len(bases)
