"""Reads the entries of one IndexFile for a walk along a chain, many at a time where the chain is
dense, and finds the place in a chain where a walk goes on."""

from __future__ import annotations

import numpy as np

from logdex.layout.rocketmq import INDEX_ENTRY
from logdex.rocketmq.index_file.index_chain import IndexEntry
from logdex.rocketmq.index_file.index_file import IndexFile
from logdex.rocketmq.index_file.index_header import IndexHeader

BLOCK_ENTRIES_MAX = 4096
SINGLE_READS = 64
"""The number of entries that are read one by one before blocks are read."""
SEARCH_BLOCK_ENTRIES = 1 << 16
SEARCH_ENTRIES_MAX = 1 << 20
"""How many entries are searched for one of the chain before the chain is walked from its newest."""

_ENTRY = INDEX_ENTRY.size_bytes


class EntryBlocks:
    """The entries of a file, as `IndexChain` reads them. Entries do not change once they are
    counted, so those that were read are kept until others are needed. For one thread."""

    def __init__(self, file: IndexFile) -> None:
        self._file = file
        self.max_index_num = file.max_index_num
        self._low = self._high = 0
        self._data = b""
        self._size = 1
        self._reads = 0

    @property
    def header(self) -> IndexHeader:
        """The header as it was last read."""
        return self._file.header

    def read_slot(self, slot: int) -> int:
        """Returns the number of a slot's newest entry; 0 for an empty slot."""
        return self._file.read_slot(slot)

    def read_entry(self, index: int) -> IndexEntry:
        """Returns the entry with number `index`."""
        if not self._low <= index < self._high:
            self._read_block(index)
        return IndexEntry._make(INDEX_ENTRY.struct.unpack_from(self._data, _ENTRY * (index - self._low)))

    def _read_block(self, index: int) -> None:
        """Reads an entry and those before it. The block grows while one after the other is needed
        and shrinks where the chain leads far away."""
        self._reads += 1
        if self._reads > SINGLE_READS:
            is_near = 0 <= self._low - index <= 4 * self._size
            self._size = min(2 * self._size, BLOCK_ENTRIES_MAX) if is_near else max(self._size // 4, 1)
        self._low = max(index - self._size + 1, 1)
        self._high = index + 1
        self._data = self._file.read_entries(self._low, self._high)

    # -- going on ---------------------------------------------------------------------------------
    def place_in_chain(self, key_hash: int, below: int) -> int | None:
        """Returns an entry of the chain of `key_hash` with no entry for an offset below `below`
        after it in the file; 0 if no entry follows. None if the chain is to be walked from its
        newest entry.

        Offsets rise from entry to entry, so the place is found by a binary search. If the message
        at `below` has the hash, its own entry is in the chain. Else the entries before it are
        searched for one of the slot; all of these are in the chain.
        """
        count = min(self.header.index_count, self.max_index_num) - 1
        if count < 1 or below > self.header.end_phy_offset or self._file.read_entry(count).phy_offset < below:
            return None
        low, high = 1, count
        while low < high:
            middle = (low + high) // 2
            low, high = (middle + 1, high) if self._file.read_entry(middle).phy_offset < below else (low, middle)
        return self._at_offset(key_hash, below, low, count) or self._newest_before(key_hash, low)

    def _at_offset(self, key_hash: int, offset: int, place: int, count: int) -> int | None:
        """Returns the entry with a hash among those for an offset, the first of which is at
        `place`."""
        while place <= count:
            entry = self._file.read_entry(place)
            if entry.phy_offset != offset:
                return None
            if entry.key_hash == key_hash:
                return place
            place += 1
        return None

    def _newest_before(self, key_hash: int, end: int) -> int | None:
        """Returns the newest entry before entry `end` that is of the slot of a hash, 0 if there is
        none, or None if there is none among the next million."""
        slot_num = self._file.max_hash_slot_num
        stop = max(end - SEARCH_ENTRIES_MAX, 1)
        while end > stop:
            start = max(end - SEARCH_BLOCK_ENTRIES, stop)
            rows = np.frombuffer(self._file.read_entries(start, end), INDEX_ENTRY.dtype)
            found = np.flatnonzero(rows["key_hash"].astype(np.int64) % slot_num == key_hash % slot_num)
            if len(found):
                return start + int(found[-1])
            end = start
        return 0 if stop == 1 else None
