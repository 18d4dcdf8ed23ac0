"""Do offsets rise from batch to batch, and stay within their segment?"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from logdex import limits
from logdex.kafka.rising_batches import Judged
from logdex.kafka.verify.checks import Collector
from logdex.kernels.batch_columns import BatchColumns


class _Seen(NamedTuple):
    """A batch that was seen: where it is, and its last offset."""

    position: int
    last_offset: int


class OffsetOrder:
    """The order of one segment's batches, judged in windows. One thread."""

    def __init__(self, path: str, base_offset: int, next_base: int | None, out: Collector) -> None:
        self._path = path
        self._base_offset = base_offset
        self._next_base = next_base
        self._out = out
        self._overlap: _Seen | None = None
        self._overflow: _Seen | None = None

    def add(self, judged: Judged, before: int) -> npt.NDArray[np.bool_]:
        """Findings for the batches that do not stand in order; `before` is the last offset before the window. Which
        ones do, and fit the segment's indexes."""
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
            "the batch's offset contradicts its neighbours' or its segment's",
            expected=f"above {before}" if base <= before else f"above {before} and below the next batch's",
            found=base,
            mend=self._out.recover,
        )

    def _bounds(self, columns: BatchColumns, places: npt.NDArray[np.intp]) -> None:
        last = columns.last_offset[places]
        if self._overlap is None and self._next_base is not None:
            over = np.flatnonzero(last >= self._next_base)
            if len(over):
                self._overlap = _seen(columns, int(places[over[0]]))
        if self._overflow is None:
            over = np.flatnonzero(last - self._base_offset > limits.RELATIVE_OFFSET_MAX)
            if len(over):
                self._overflow = _seen(columns, int(places[over[0]]))

    def finish(self) -> None:
        """Tells of a segment that reaches into the next, or beyond what its indexes can hold."""
        if self._overlap is not None:
            self._out.find(
                "segment-overlap",
                self._path,
                self._overlap.position,
                "from this batch on the segment reaches into the next one",
                expected=f"below {self._next_base}",
                found=self._overlap.last_offset,
                mend=self._out.recover,
            )
        if self._overflow is not None:
            self._out.find(
                "offset-overflow",
                self._path,
                self._overflow.position,
                "from this batch on offsets do not fit the segment's indexes",
                expected=f"{self._base_offset} to {self._base_offset + limits.RELATIVE_OFFSET_MAX}",
                found=self._overflow.last_offset,
                mend=self._out.recover,
            )


def _seen(columns: BatchColumns, place: int) -> _Seen:
    return _Seen(int(columns.position[place]), int(columns.last_offset[place]))
