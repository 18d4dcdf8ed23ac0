"""Do offsets rise from batch to batch, and stay within their segment?

No checksum covers a batch's base offset. Where two neighbours contradict each other, the one whose offset leaves it no
room between the others is the wrong one: [4, 13, 6, 7] has room for 5, none for 13.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from logdex import limits
from logdex.kafka.verify.checks import Collector
from logdex.kernels.batch_columns import BatchColumns

_FAR = 1 << 62


class _Seen(NamedTuple):
    """A batch that was seen: where it is, and its offsets."""

    position: int
    base_offset: int
    last_offset: int


class OffsetOrder:
    """The order of one segment's batches, given in windows. One thread."""

    def __init__(self, path: str, base_offset: int, next_base: int | None, out: Collector) -> None:
        self._path = path
        self._base_offset = base_offset
        self._next_base = next_base
        self._out = out
        self._before = [_Seen(-1, base_offset - 1, base_offset - 1)] * 2
        self._overlap: _Seen | None = None
        self._overflow: _Seen | None = None

    def add(self, columns: BatchColumns) -> npt.NDArray[np.bool_]:
        """Which batches of the window stand in order; findings for the others."""
        base, last = columns.base_offset, columns.last_offset
        good = np.ones(len(base), np.bool_)
        previous = np.concatenate(([self._before[-1].last_offset], last[:-1]))
        falls = np.flatnonzero((base <= previous) | (last < base))
        if len(falls):
            self._sort_out(columns, good)
        kept = np.flatnonzero(good)
        if len(kept):
            self._bounds(columns, kept)
            for place in kept[-2:].tolist():
                self._before.append(_seen(columns, place))
            del self._before[:-2]
        return good

    def _sort_out(self, columns: BatchColumns, good: npt.NDArray[np.bool_]) -> None:
        """Walks the window batch by batch: only where something falls."""
        kept: list[tuple[int, _Seen]] = [(-2, self._before[0]), (-1, self._before[1])]
        count = len(columns.position)
        for place in range(count):
            this = _seen(columns, place)
            before = kept[-1][1]
            if this.base_offset > before.last_offset:
                kept.append((place, this))
                continue
            behind = int(columns.base_offset[place + 1]) if place + 1 < count else _FAR
            room_here = behind - before.last_offset - 1
            room_before = this.base_offset - kept[-2][1].last_offset - 1
            fits_here = room_here >= _span(this) and behind < _FAR
            if kept[-1][0] >= 0 and not fits_here and room_before >= _span(before):
                wrong = kept.pop()
                good[wrong[0]] = False
                self._tell(wrong[1], f"above {kept[-1][1].last_offset} and below {this.base_offset}")
                kept.append((place, this))
            else:
                good[place] = False
                self._tell(this, f"above {before.last_offset}")

    def _tell(self, batch: _Seen, expected: str) -> None:
        check = "segment-base-offset" if expected == f"above {self._base_offset - 1}" else "batch-offset"
        message = (
            "a batch before the segment's base offset"
            if check == "segment-base-offset"
            else "the batch's offset contradicts its neighbours'"
        )
        self._out.find(
            check,
            self._path,
            batch.position,
            message,
            expected=expected,
            found=batch.base_offset,
            mend=self._out.recover,
        )

    def _bounds(self, columns: BatchColumns, kept: npt.NDArray[np.intp]) -> None:
        last = columns.last_offset[kept]
        if self._overlap is None and self._next_base is not None:
            over = np.flatnonzero(last >= self._next_base)
            if len(over):
                self._overlap = _seen(columns, int(kept[over[0]]))
        if self._overflow is None:
            over = np.flatnonzero(last - self._base_offset > limits.RELATIVE_OFFSET_MAX)
            if len(over):
                self._overflow = _seen(columns, int(kept[over[0]]))

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
    return _Seen(int(columns.position[place]), int(columns.base_offset[place]), int(columns.last_offset[place]))


def _span(batch: _Seen) -> int:
    return max(batch.last_offset - batch.base_offset + 1, 1)
