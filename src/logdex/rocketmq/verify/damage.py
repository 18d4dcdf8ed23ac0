"""The damaged byte ranges of the log, as physical offsets. Entries that point there are explained
by the damage."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

OFFSET_MAX = (1 << 63) - 1


class Damage:
    """Ranges [start, end) of physical offsets without readable messages, in rising order. Not
    thread-safe."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []
        self._arrays = np.zeros(0, np.int64), np.zeros(0, np.int64)

    def add(self, start: int, end: int) -> None:
        """Adds a range, which must begin after all ranges added before."""
        self._starts.append(start)
        self._ends.append(end)
        self._arrays = np.array(self._starts, np.int64), np.array(self._ends, np.int64)

    def __bool__(self) -> bool:
        return bool(self._starts)

    def covers(self, offsets: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Returns a mask of the physical offsets that lie in a range."""
        starts, ends = self._arrays
        if not len(starts):
            return np.zeros(len(offsets), np.bool_)
        place = np.searchsorted(starts, offsets, side="right") - 1
        return (place >= 0) & (offsets < ends[np.maximum(place, 0)])

    def has(self, offset: int) -> bool:
        """Whether one physical offset lies in a range."""
        return bool(self.covers(np.array([offset], np.int64))[0])
