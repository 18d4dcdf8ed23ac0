"""Reads the chain of one hash slot of an IndexFile. Iteration ends whatever bytes are on disk.

Source: ``docs/formats/index-file.md``; IndexFile.selectPhyOffset.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from logdex.rocketmq.index_file.index_header import IndexHeader


class IndexEntry(NamedTuple):
    """One entry: key hash, physical offset in bytes, seconds since the file's begin, link.

    The link `previous_index` is the number of the previous entry of the same slot.
    """

    key_hash: int
    phy_offset: int
    time_diff_s: int
    previous_index: int


class ChainSource(Protocol):
    """The methods of `IndexFile` that reading a chain needs."""

    max_index_num: int

    @property
    def header(self) -> IndexHeader:
        """The header as it was last read."""

    def read_slot(self, slot: int) -> int:
        """Returns the number of a slot's newest entry; 0 for an empty slot."""

    def read_entry(self, index: int) -> IndexEntry:
        """Returns the entry with number `index`."""


class ChainEnd(Enum):
    """Why a chain ended. `FIRST` is the regular end; the engine also stops at the others, which are
    damage."""

    FIRST = "no entry before it"
    ITSELF = "an entry that names itself"
    NEGATIVE = "a link below 0"
    BEYOND_COUNT = "a link beyond the file's index count"
    BEYOND_FILE = "a link beyond the end of the file"
    CYCLE = "a link to an entry that the chain has passed"


class IndexChain:
    """The entries of one slot, newest first, or from entry `start` of the slot on. Iterating yields
    (index, `IndexEntry`). For one thread.

    When the chain meets a link that points forward, which no engine writes, it remembers the
    entries that it has passed (`went_forward`), so that iteration ends even in a cycle. `end`
    states why it ended.
    """

    def __init__(self, file: ChainSource, slot: int, start: int | None = None) -> None:
        self.slot = slot
        self._start = start
        self.end: ChainEnd | None = None
        self.went_forward = False
        self._file = file

    def _step(self, index: int, current: int = 0) -> bool:
        """Returns whether the engine would read entry `index` after entry `current`; otherwise sets
        `end`."""
        if index <= 0:
            self.end = ChainEnd.FIRST if index == 0 else ChainEnd.NEGATIVE
        elif index > self._file.header.index_count:
            self.end = ChainEnd.BEYOND_COUNT
        elif index == current:
            self.end = ChainEnd.ITSELF
        elif index >= self._file.max_index_num:
            self.end = ChainEnd.BEYOND_FILE
        else:
            return True
        return False

    def __iter__(self) -> Iterator[tuple[int, IndexEntry]]:
        self.end, self.went_forward = None, False
        index = head = self._file.read_slot(self.slot) if self._start is None else self._start
        if self._file.header.index_count <= 1:  # like the engine, which reads nothing from a file without entries
            self.end = ChainEnd.FIRST
            return
        passed: npt.NDArray[np.bool_] | None = None
        go_on = self._step(index)
        while go_on:
            entry = self._file.read_entry(index)
            yield index, entry
            following = entry.previous_index
            if following > index and passed is None and following <= self._last:
                self.went_forward = True
                passed = self._walked(head, index)
            go_on = self._step(following, index)
            if go_on and passed is not None:
                if passed[following]:
                    self.end = ChainEnd.CYCLE
                    return
                passed[following] = True
            index = following

    @property
    def _last(self) -> int:
        return min(self._file.header.index_count, self._file.max_index_num - 1)

    def _walked(self, head: int, until: int) -> npt.NDArray[np.bool_]:
        """Marks the entries from `head` down to `until`, between which every link goes back."""
        passed = np.zeros(self._last + 1, np.bool_)
        while until < head <= self._last:
            passed[head] = True
            head = self._file.read_entry(head).previous_index
        passed[until] = True
        return passed
