"""Checks that offsets rise from batch to batch and stay within their segment."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from logdex import limits
from logdex.kafka.scan.rising_batches import CONTRADICTION, Judged, expected_offset
from logdex.kafka.verify.checks import Collector
from logdex.kernels.kafka.batch_columns import BatchColumns


class _Seen(NamedTuple):
    """A batch: its position in the file and its last offset."""

    position: int
    last_offset: int


class OffsetOrder:
    """Checks the order of one segment's batches, window by window. Not thread-safe."""

    def __init__(self, path: str, base_offset: int, next_base: int | None, out: Collector) -> None:
        self._path = path
        self._base_offset = base_offset
        self._next_base = next_base
        self._out = out
        self._overlap: _Seen | None = None
        self._overflow: _Seen | None = None

    def add(self, judged: Judged, before: int) -> npt.NDArray[np.bool_]:
        """Reports findings for the batches that are out of order. `before` is the last offset
        before the window. Returns a mask of the batches that are in order and whose offsets fit the
        segment's indexes."""
        columns, good = judged
        for place in np.flatnonzero(~good).tolist():
            kept = columns.last_offset[:place][good[:place]]
            self._tell(columns, place, int(kept[-1]) if len(kept) else before)
        places = np.flatnonzero(good)
        if len(places):
            self._bounds(columns, places)
        return good & (columns.last_offset - self._base_offset <= limits.RELATIVE_OFFSET_MAX)

    def _tell(self, columns: BatchColumns, place: int, before: int) -> None:
        base = int(columns.base_offset[place])
        is_early = base < self._base_offset
        self._out.find(
            "segment-base-offset" if is_early and before < self._base_offset else "batch-offset",
            self._path,
            int(columns.position[place]),
            CONTRADICTION,
            expected=expected_offset(base, before),
            found=base,
            mend=self._out.recover,
        )

    def _bounds(self, columns: BatchColumns, places: npt.NDArray[np.intp]) -> None:
        last = columns.last_offset[places]
        if self._overlap is None and self._next_base is not None:
            self._overlap = _first(columns, places[last >= self._next_base])
        if self._overflow is None:
            self._overflow = _first(columns, places[last - self._base_offset > limits.RELATIVE_OFFSET_MAX])

    def finish(self) -> None:
        """Reports a segment that reaches into the next one, or beyond the offsets that its indexes
        can hold."""
        within = f"below {self._next_base}"
        self._finish("segment-overlap", self._overlap, "the segment reaches into the next one", within)
        within = f"{self._base_offset} to {self._base_offset + limits.RELATIVE_OFFSET_MAX}"
        self._finish("offset-overflow", self._overflow, "offsets do not fit the segment's indexes", within)

    def _finish(self, check: str, seen: _Seen | None, what: str, expected: str) -> None:
        if seen is None:
            return
        text, found, mend = f"from this batch on {what}", seen.last_offset, self._out.recover
        self._out.find(check, self._path, seen.position, text, expected=expected, found=found, mend=mend)


def _first(columns: BatchColumns, places: npt.NDArray[np.intp]) -> _Seen | None:
    """Returns the first of the batches at `places`, or None without any."""
    if not len(places):
        return None
    return _Seen(int(columns.position[places[0]]), int(columns.last_offset[places[0]]))
