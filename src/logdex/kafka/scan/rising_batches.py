"""Decides which batches of a log are in the order of their offsets, and which contradict their
neighbours.

No checksum covers a batch's base offset. If two neighbours contradict each other, the wrong one is
the one whose offset leaves no room for the other between their neighbours: in [4, 13, 6, 7] there
is room for 5 before 6, so 13 is wrong.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from logdex.kernels.kafka.batch_columns import BatchColumns, Int64s, join_columns, pick_columns

CONTRADICTION = "the batch's offset contradicts its neighbours' or its segment's"
"""What readers and `verify` report of a batch that is not in order."""

_FAR = 1 << 62
_HELD = 2


class Judged(NamedTuple):
    """Batches in log order, and a mask of those that rise."""

    columns: BatchColumns
    good: npt.NDArray[np.bool_]


class RisingBatches:
    """Judges batches that are given in windows. A batch is judged once the next two are known, so
    results are up to two batches late. All offsets must be above `before`. Not thread-safe."""

    def __init__(self, before: int) -> None:
        self._before = (before, before)  # last offsets of the last two good batches that were returned
        self._held: BatchColumns | None = None

    @property
    def last_offset(self) -> int:
        """The last offset of the last good batch that was returned."""
        return self._before[1]

    def add(self, columns: BatchColumns) -> Judged | None:
        """Adds a window and returns the batches that can be judged now. What is kept of the window
        is copied."""
        joined = columns if self._held is None else join_columns((self._held, columns))
        ready = len(joined.position) - _HELD
        self._held = BatchColumns._make(column[max(ready, 0) :].copy() for column in joined)
        return self._judge(joined, ready) if ready > 0 else None

    def flush(self, behind: int | None = None) -> Judged | None:
        """Returns the remaining batches. `behind` is the offset of what follows, if that is
        known."""
        held, self._held = self._held, None
        return None if held is None or not len(held.position) else self._judge(held, len(held.position), behind)

    def _judge(self, columns: BatchColumns, ready: int, behind: int | None = None) -> Judged:
        base, last = columns.base_offset, columns.last_offset
        if behind is not None:
            base, last = np.append(base, behind), np.append(last, behind)
        good = rising(base, last, self._before)[:ready]
        part = pick_columns(columns, slice(ready))
        kept = part.last_offset[good][-_HELD:].tolist()
        first, second = (*self._before, *kept)[-_HELD:]
        self._before = (first, second)
        return Judged(part, good)


def all_rise(base: Int64s, last: Int64s, before: int) -> bool:
    """Whether all batches are in order. `before` is the last offset before them."""
    return bool(((base > np.append(before, last[:-1])) & (last >= base)).all())


def rising(base: Int64s, last: Int64s, before: tuple[int, int]) -> npt.NDArray[np.bool_]:
    """Returns a mask of the batches that are in order. `before` holds the last offsets of the two
    batches before them."""
    good = np.ones(len(base), np.bool_)
    if all_rise(base, last, before[1]):
        return good
    kept: list[tuple[int, int, int]] = [(-2, -1, before[0]), (-1, -1, before[1])]  # place, base, last
    bases, lasts = base.tolist(), last.tolist()
    for place, (this, its_last) in enumerate(zip(bases, lasts, strict=True)):
        at, its_base, before_last = kept[-1]
        if its_last < this:
            good[place] = False
        elif this > before_last:
            kept.append((place, this, its_last))
        elif (
            at >= 0 and not _fits(bases, lasts, place, before_last) and this - kept[-2][2] > before_last - its_base + 1
        ):
            kept.pop()
            good[at] = False
            kept.append((place, this, its_last))
        else:
            good[place] = False
    return good


def expected_offset(base: int, before: int) -> str:
    """Describes the offset that a batch with the wrong offset `base` should have. `before` is the
    last offset before it."""
    return f"above {before}" if base <= before else f"above {before} and below the next batch's"


def _fits(bases: list[int], lasts: list[int], place: int, before_last: int) -> bool:
    """Whether the batch at `place`, with another offset, would have room before the next batch."""
    behind = bases[place + 1] if place + 1 < len(bases) else _FAR
    return behind < _FAR and behind - before_last > lasts[place] - bases[place] + 1
