"""Finds, while a log is read step by step, the batches whose offsets contradict their neighbours'.

No checksum covers a batch's base offset. `verify` and `recover` judge by the same rule
(`logdex.kafka.scan.rising_batches`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from logdex import limits
from logdex.errors import OffsetOrderError
from logdex.io.env import DEFAULT_ENV, Env
from logdex.io.mapped.byte_array import ByteArray
from logdex.io.mapped.partly_loaded import load, looking_ahead
from logdex.kafka.scan.damaged_batch import DamagedBatch
from logdex.kafka.scan.rising_batches import CONTRADICTION, all_rise, expected_offset, rising
from logdex.kafka.scan.scanner import BatchScanner
from logdex.kernels.kafka.batch_columns import BatchColumns, Int64s
from logdex.layout.kafka import RECORD_BATCH

_AHEAD = 2
"""The number of following batches by which `rising` judges a batch."""


class OffsetRange(NamedTuple):
    """The offsets [`first`, `next`) that batches may have; `next` is None if there is no limit."""

    first: int
    next: int | None


class ReadOrder:
    """Judges the batches of one reading, in log order. Not thread-safe.

    If no batch of the first step has an offset of `offsets.first` or above, the file has the wrong
    name, and that limit does not count. With `empty_count`, empty batches are judged too: nothing
    is lost with one but itself.
    """

    def __init__(
        self, data: ByteArray, path: str, offsets: OffsetRange, env: Env = DEFAULT_ENV, *, empty_count: bool = False
    ) -> None:
        self._data = data
        self._path = path
        self._offsets = offsets
        self._env = env
        self._empty_count = empty_count
        self._before: tuple[int, int] | None = None  # the last offsets of the last two good batches

    def find_wrong(
        self, columns: BatchColumns, count: int, behind: int, stop: int
    ) -> list[tuple[int, OffsetOrderError]]:
        """Returns the places of the wrong ones of the first `count` batches, each with its error.
        An empty batch is among them only if empty ones count.

        The next batches begin at position `behind`. From `stop` on, none are read.
        """
        if not count:
            return []
        base, last = columns.base_offset[:count], _last_offsets(columns, count)
        if self._before is None:
            first = self._offsets.first if (base >= self._offsets.first).any() else 0
            self._before = (first - 1, first - 1)
        if self._rises(base, last, behind, stop):
            self._before = (int(last[-2]) if count > 1 else self._before[1], int(last[-1]))
            return []
        next_base, next_last = self._following(behind, stop)
        good = rising(np.append(base, next_base), np.append(last, next_last), self._before)[:count]
        wrong = []
        is_judged = (columns.count[:count] != 0) | self._empty_count
        for place in np.flatnonzero(~good & is_judged).tolist():
            before = last[:place][good[:place]]
            wrong.append((place, self._error(columns, place, int(before[-1]) if len(before) else self._before[1])))
        first, second = (*self._before, *last[good][-2:].tolist())[-2:]
        self._before = (first, second)
        return wrong

    def _rises(self, base: Int64s, last: Int64s, behind: int, stop: int) -> bool:
        """Whether the offsets rise, up to the header of the next batch, whose checksum is not
        checked, or to the limit."""
        assert self._before is not None
        if not all_rise(base, last, self._before[1]):
            return False
        limit = self._offsets.next
        if behind < stop and behind + RECORD_BATCH.size_bytes <= self._data.size:
            load(self._data, behind, behind + RECORD_BATCH.size_bytes)
            limit = DamagedBatch(self._data, behind).base_offset
        return limit is None or bool(last[-1] < limit)

    def _following(self, behind: int, stop: int) -> tuple[list[int], list[int]]:
        """Returns the first and the last offsets of the next whole batches, then the limit."""
        base, last = [], []
        if behind < stop:
            scanner = BatchScanner(window_batches=_AHEAD, env=self._env, unreadable_is_damage=True)
            with looking_ahead(self._data):  # the batches before are not decoded yet
                for window in scanner.scan_bytes(self._data, behind, stop, path=self._path):
                    base = window.columns.base_offset.tolist()
                    last = _last_offsets(window.columns, window.count).tolist()
                    break
        if len(base) < _AHEAD and self._offsets.next is not None:
            base, last = [*base, self._offsets.next], [*last, self._offsets.next]
        return base, last

    def _error(self, columns: BatchColumns, place: int, before: int) -> OffsetOrderError:
        position, base = int(columns.position[place]), int(columns.base_offset[place])
        error = OffsetOrderError(
            CONTRADICTION,
            path=self._path,
            position=position,
            field="base_offset",
            expected=expected_offset(base, before),
            found=base,
        )
        error.end_position = position + int(columns.size[place])
        return error


def _last_offsets(columns: BatchColumns, count: int) -> Int64s:
    """Returns the last offsets of batches. A batch that states more records than decoding takes is
    refused by it: its last offset, which depends on that number, tells nothing of the next one."""
    base, last = columns.base_offset[:count], columns.last_offset[:count]
    is_refused = columns.count[:count] > columns.size[:count].astype(np.int64) * limits.BATCH_RECORDS_PER_BYTE_MAX
    return np.where(is_refused, base, last) if is_refused.any() else last
