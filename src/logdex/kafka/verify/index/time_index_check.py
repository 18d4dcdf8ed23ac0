"""Compares a `.timeindex` with its log: each entry must hold the last offset of a batch and the
largest timestamp of that batch, which must be above those of all batches before it.

Older brokers store the offset of the record itself, the first of the batch with that timestamp.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from logdex.io.env import Env
from logdex.kafka.scan.scanner import BatchWindow
from logdex.kafka.segment.time_index import TRIMMED_SIZE_BYTES
from logdex.kafka.verify.checks import Collector
from logdex.kafka.verify.index.index_entries import IndexEntries, lost_offsets
from logdex.kafka.verify.segment.record_check import offsets_of_largest_times
from logdex.kafka.verify.segment.segment_pass import SegmentPass
from logdex.kernels.kafka.batch_columns import Int64s
from logdex.layout.kafka import TIME_INDEX_ENTRY

_NONE_MS = -(1 << 63)


class TimeIndexEntries(IndexEntries):
    """The entries of a `.timeindex`; see `IndexEntries`."""

    layout = TIME_INDEX_ENTRY
    prefix = "time-index"

    def __init__(self, path: str, base_offset: int, out: Collector, env: Env) -> None:
        super().__init__(path, base_offset, out, env)
        self._offsets = self.offsets()
        self._order = np.argsort(self._offsets, kind="stable")
        self._sorted = self._offsets[self._order]
        self._largest_ms = _NONE_MS
        self._next_offset = base_offset

    def _entries_in(self, slots: npt.NDArray[Any]) -> int:
        return 1 if slots.nbytes == TRIMMED_SIZE_BYTES else super()._entries_in(slots)

    def add(self, window: BatchWindow) -> None:
        """Judges the entries whose offset lies in the window, or between it and the previous
        window."""
        columns = window.columns
        largest = np.maximum.accumulate(np.append(self._largest_ms, columns.max_timestamp_ms))
        self._largest_ms = int(largest[-1])
        low, high = np.searchsorted(self._sorted, [self._next_offset, int(columns.last_offset[-1]) + 1])
        self._next_offset = int(columns.last_offset[-1]) + 1
        if low == high:
            return
        places = self._order[low:high]
        offsets = self._offsets[places]
        batch = np.searchsorted(columns.last_offset, offsets)
        inside = offsets >= columns.base_offset[batch]
        places, batch, offsets = places[inside], batch[inside], offsets[inside]  # the others are judged at the end
        is_last = columns.last_offset[batch] == offsets
        stated = self._raw["timestamp_ms"][places].astype(np.int64)
        is_right = columns.max_timestamp_ms[batch] == stated
        is_first = largest[batch] < stated
        may_be_older = is_right & is_first & ~is_last
        if may_be_older.any():
            is_older = may_be_older.copy()
            is_older[may_be_older] = offsets_of_largest_times(window, batch[may_be_older]) == offsets[may_be_older]
            self._older[places] = is_older
            is_last |= is_older
        is_right &= is_last
        self._judge(places, is_right & is_first)
        for index in self._some("offset", np.flatnonzero(~is_last)):
            expected = f"relative offset {int(columns.last_offset[batch[index]]) - self.base_offset}"
            self._find_entry("offset", int(places[index]), "no batch ends at its offset", expected)
        for index in self._some("timestamp", np.flatnonzero(is_last & ~is_right)):
            expected = f"timestamp {int(columns.max_timestamp_ms[batch[index]])}"
            self._find_entry("timestamp", int(places[index]), "not the largest timestamp of its batch", expected)
        for index in self._some("order", np.flatnonzero(is_right & ~is_first)):
            expected = f"above {int(largest[batch[index]])}"
            self._find_entry("order", int(places[index]), "a batch before it has a timestamp as large", expected)

    @property
    def is_right(self) -> bool:
        """Whether all entries were found right so far."""
        return bool(self._true.all())

    def right_entries(self) -> tuple[Int64s, Int64s]:
        """Returns the timestamps and the offsets of the entries that were found right so far, in
        the order of their offsets."""
        places = self._order[self._true[self._order]]
        return self._raw["timestamp_ms"][places].astype(np.int64), self._offsets[places]

    def _rising(self) -> npt.NDArray[np.int64]:
        return self._raw["timestamp_ms"].astype(np.int64)

    def _judge_rest(self, rest: npt.NDArray[np.intp], scanned: SegmentPass) -> None:
        offsets = self._offsets[rest]
        beyond = (offsets >= scanned.next_offset) | (offsets < self.base_offset)
        lost = lost_offsets(offsets, scanned)
        for place in self._some("beyond-end", rest[beyond & ~lost]):
            expected = f"an offset from {self.base_offset} to {scanned.next_offset - 1}"
            self._find_entry("beyond-end", place, "its offset is not within the log", expected)
        for place in self._some("offset", rest[~beyond & ~lost]):
            self._find_entry("offset", place, "no batch has its offset", "the last offset of a batch")

    @property
    def last_entry(self) -> tuple[int, int] | None:
        """(timestamp in milliseconds, offset) of the last entry; None without entries."""
        return (int(self._raw["timestamp_ms"][-1]), int(self._offsets[-1])) if len(self._raw) else None

    @property
    def last_is_judged_true(self) -> bool:
        """Whether the last entry was found right, or there are no entries. If False, a finding
        about the entry exists already."""
        return not len(self._true) or bool(self._true[-1])
