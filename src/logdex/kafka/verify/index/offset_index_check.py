"""Compares an `.index` with its log: each entry must hold the position of a batch's first byte and
the last offset of that batch, or of the append that begins with it.

An append has one entry at most, so it ends before the batch that the next entry names. And the
broker updates its largest timestamp for the whole append before it makes the entries of both
indexes. So the `.timeindex` has an entry for that timestamp, and none for a smaller one that tells
of the append.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from logdex.io.env import Env
from logdex.kafka.scan.scanner import BatchWindow
from logdex.kafka.verify.checks import Collector
from logdex.kafka.verify.index.index_entries import IndexEntries, lost_offsets
from logdex.kafka.verify.index.time_index_check import TimeIndexEntries
from logdex.kafka.verify.segment.segment_pass import SegmentPass
from logdex.kernels.kafka.batch_columns import BatchColumns, Int64s
from logdex.layout.kafka import OFFSET_INDEX_ENTRY

_NO_BATCH = np.int64(-1 << 63)


class OffsetIndexEntries(IndexEntries):
    """The entries of an `.index`; see `IndexEntries`."""

    layout = OFFSET_INDEX_ENTRY
    prefix = "offset-index"

    def __init__(self, path: str, base_offset: int, out: Collector, env: Env) -> None:
        super().__init__(path, base_offset, out, env)
        self._positions = self._raw["position"].astype(np.int64)
        self._order = np.argsort(self._positions, kind="stable")
        self._sorted = self._positions[self._order]
        self._batch_end = np.full(len(self._raw), _NO_BATCH)
        """The last offset of the batch that begins at an entry's position."""
        self._open = np.empty(0, np.intp)
        """The entries that name a later offset than that of their batch, and are not judged yet."""
        self._largest_ms = _NO_BATCH
        self._append_largest_ms = np.full(len(self._raw), _NO_BATCH)
        """The largest timestamp up to the end of an entry's append, if that has several batches."""

    def add(self, window: BatchWindow) -> None:
        """Judges the entries whose position lies in the window, and those before it that name an
        offset in it."""
        columns = window.columns
        self._judge_positions(columns)
        if len(self._open):
            self._judge_appends(columns)
            self._open = self._open[-1:]  # the others end before the batch of the next entry, or are wrong
        self._largest_ms = max(self._largest_ms, columns.max_timestamp_ms.max())

    def _judge_positions(self, columns: BatchColumns) -> None:
        end = int(columns.position[-1]) + int(columns.size[-1])
        low, high = np.searchsorted(self._sorted, [int(columns.position[0]), end])
        if low == high:
            return
        places = self._order[low:high]
        batch = np.searchsorted(columns.position, self._positions[places], "right") - 1
        inside = self._positions[places] < columns.position[batch] + columns.size[batch]
        places, batch = places[inside], batch[inside]  # the others point into a hole and are judged at the end
        is_start = columns.position[batch] == self._positions[places]
        offsets = self.offsets()[places]
        is_last = columns.last_offset[batch] == offsets
        is_later = is_start & (offsets > columns.last_offset[batch])
        self._batch_end[places[is_start]] = columns.last_offset[batch[is_start]]
        self._open = np.append(self._open, places[is_later])
        self._judge(places[~is_later], (is_start & is_last)[~is_later])
        for index in self._some("position", np.flatnonzero(~is_start)):
            expected = (
                f"position {int(columns.position[batch[index]])} at offset {int(columns.last_offset[batch[index]])}"
            )
            self._find_entry("position", int(places[index]), "no batch begins at its position", expected)
        self._find_offsets(places[is_start & ~is_last & ~is_later])

    def _judge_appends(self, columns: BatchColumns) -> None:
        """Judges the open entries whose offset is in the window. One that is the last of no batch
        is judged at the end, when it is known which offsets were lost."""
        offsets = self.offsets()[self._open]
        at = np.searchsorted(columns.last_offset, offsets)
        is_here = at < len(columns.last_offset)
        self._open, here, at = self._open[~is_here], self._open[is_here], at[is_here]
        is_last = columns.last_offset[at] == offsets[is_here]
        here, at = here[is_last], at[is_last]
        self._older[here] = True
        self._judge(here, self._older[here])
        largest = np.maximum.accumulate(np.maximum(columns.max_timestamp_ms, self._largest_ms))
        self._append_largest_ms[here] = largest[at]

    def compare_times(self, times: TimeIndexEntries) -> None:
        """Reports the entries of appends that contradict the right entries of the `.timeindex`."""
        places = np.flatnonzero(self._older)
        if not len(places):
            return
        stamps, offsets = times.right_entries()
        largest = self._append_largest_ms[places]
        at = np.searchsorted(offsets, self._batch_end[places])
        is_wrong = at < np.searchsorted(offsets, self.offsets()[places], "right")
        is_wrong[is_wrong] = stamps[at[is_wrong]] != largest[is_wrong]
        if times.is_right:
            at = np.searchsorted(stamps, largest)
            is_within = (at > 0) & (at < len(stamps))  # an index may have been lost, and begun anew, or cut
            is_wrong[is_within] |= stamps[at[is_within]] != largest[is_within]
        self._find_offsets(places[is_wrong])
        self._true[places[is_wrong]] = False

    def _find_offsets(self, places: npt.NDArray[np.intp]) -> None:
        """Reports entries whose offset is neither that of their batch nor that of an append."""
        for place in self._some("offset", places):
            expected = f"relative offset {int(self._batch_end[place]) - self.base_offset}"
            self._find_entry("offset", place, "not the last offset of the batch at its position", expected)

    def _check_order(self) -> None:
        """Reports an entry whose append would have the batch of the next one, then those that do
        not rise."""
        true = np.flatnonzero(self._true)
        ends, offsets = self._batch_end[true], self.offsets()[true]
        reaches_next = true[:-1][(ends[:-1] < ends[1:]) & (ends[1:] <= offsets[:-1])]
        self._find_offsets(reaches_next)
        self._true[reaches_next] = False
        super()._check_order()

    def _rising(self) -> Int64s:
        return self._batch_end

    def _judge_rest(self, rest: npt.NDArray[np.intp], scanned: SegmentPass) -> None:
        positions = self._positions[rest]
        lost = lost_offsets(self.offsets()[rest], scanned)
        for hole in scanned.holes:
            lost |= (positions >= hole.start) & (positions < hole.end)
        if scanned.has_bad_tail:
            lost |= positions >= scanned.end_position
        has_batch = self._batch_end[rest] != _NO_BATCH
        self._find_offsets(rest[~lost & has_batch])
        wrong = rest[~lost & ~has_batch]
        for place in self._some("beyond-end", wrong):
            expected = f"a position below {scanned.end_position}"
            self._find_entry("beyond-end", place, "its position is not within the log", expected)
