"""Where the log is damaged: byte ranges by physical offset. What points there is explained by the damage."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

OFFSET_MAX = (1 << 63) - 1


class Damage:
    """Ranges [start, end) that hold no messages that can be read, in rising order. One thread."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []
        self._arrays = np.zeros(0, np.int64), np.zeros(0, np.int64)

    def add(self, start: int, end: int) -> None:
        """Takes a range that begins behind all others."""
        self._starts.append(start)
        self._ends.append(end)
        self._arrays = np.array(self._starts, np.int64), np.array(self._ends, np.int64)

    def __bool__(self) -> bool:
        return bool(self._starts)

    def covers(self, offsets: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Which of the physical offsets lie in a range."""
        starts, ends = self._arrays
        if not len(starts):
            return np.zeros(len(offsets), np.bool_)
        place = np.searchsorted(starts, offsets, side="right") - 1
        return (place >= 0) & (offsets < ends[np.maximum(place, 0)])

    def has(self, offset: int) -> bool:
        """Whether one physical offset lies in a range."""
        return bool(self.covers(np.array([offset], np.int64))[0])
