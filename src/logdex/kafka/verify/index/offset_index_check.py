"""Compares an `.index` with its log: each entry must hold the position of a batch's first byte and
the last offset of that batch."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from logdex.io.env import Env
from logdex.kafka.verify.checks import Collector
from logdex.kafka.verify.index.index_entries import IndexEntries, lost_offsets
from logdex.kafka.verify.segment.segment_pass import SegmentPass
from logdex.kernels.kafka.batch_columns import BatchColumns
from logdex.layout.kafka import OFFSET_INDEX_ENTRY


class OffsetIndexEntries(IndexEntries):
    """The entries of an `.index`; see `IndexEntries`."""

    layout = OFFSET_INDEX_ENTRY
    prefix = "offset-index"

    def __init__(self, path: str, base_offset: int, is_exact: bool, out: Collector, env: Env) -> None:
        super().__init__(path, base_offset, is_exact, out, env)
        self._positions = self._raw["position"].astype(np.int64)
        self._order = np.argsort(self._positions, kind="stable")
        self._sorted = self._positions[self._order]

    def add(self, columns: BatchColumns) -> None:
        """Judges the entries whose position lies in the window."""
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
        if not self._is_exact:
            is_last |= offsets >= columns.last_offset[batch]  # whether they rise is checked at the end
        self._judge(places, is_start & is_last)
        for index in self._some("position", np.flatnonzero(~is_start)):
            expected = (
                f"position {int(columns.position[batch[index]])} at offset {int(columns.last_offset[batch[index]])}"
            )
            self._find_entry("position", int(places[index]), "no batch begins at its position", expected)
        for index in self._some("offset", np.flatnonzero(is_start & ~is_last)):
            expected = f"relative offset {int(columns.last_offset[batch[index]]) - self.base_offset}"
            self._find_entry("offset", int(places[index]), "not the last offset of the batch at its position", expected)

    def _judge_rest(self, rest: npt.NDArray[np.intp], scanned: SegmentPass) -> None:
        positions = self._positions[rest]
        lost = lost_offsets(self.offsets()[rest], scanned)
        for hole in scanned.holes:
            lost |= (positions >= hole.start) & (positions < hole.end)
        if scanned.has_bad_tail:
            lost |= positions >= scanned.end_position
        wrong = rest[~lost]
        for place in self._some("beyond-end", wrong):
            expected = f"a position below {scanned.end_position}"
            self._find_entry("beyond-end", place, "its position is not within the log", expected)
