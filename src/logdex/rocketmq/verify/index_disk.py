"""One IndexFile as it lies on disk, mapped, and how many entries its bytes show, whatever its header says."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from logdex.io.env import Env
from logdex.layout.rocketmq import INDEX_ENTRY, INDEX_HEADER, INDEX_SLOT
from logdex.rocketmq.settings.store_config import StoreConfig

_CHUNK_ROWS = 1 << 16
_ENTRY = INDEX_ENTRY.size_bytes
_SLOT = INDEX_SLOT.size_bytes
_HEADER = INDEX_HEADER.size_bytes


class IndexRows(NamedTuple):
    """Consecutive entries as arrays; the first is entry `first`."""

    first: int
    key_hash: npt.NDArray[np.int32]
    phy_offset: npt.NDArray[np.int64]
    time_diff_s: npt.NDArray[np.int32]
    previous_index: npt.NDArray[np.int32]

    def part(self, start: int, end: int) -> IndexRows:
        """Rows [start, end) of these."""
        return IndexRows(
            self.first + start,
            self.key_hash[start:end],
            self.phy_offset[start:end],
            self.time_diff_s[start:end],
            self.previous_index[start:end],
        )


class IndexDisk:
    """One IndexFile whose size is right. One thread; `close` it."""

    def __init__(self, path: str, config: StoreConfig, env: Env) -> None:
        self.path = path
        self.slot_num = config.max_hash_slot_num
        self.max_index_num = config.max_index_num
        self._mapped = env.map_read(path)
        data = self._mapped.array
        self.header: tuple[int, ...] = INDEX_HEADER.struct.unpack(data[:_HEADER].tobytes())
        """The six fields as they stand."""
        self.slots = data[_HEADER : _HEADER + _SLOT * self.slot_num].view(">i4")
        self._entries_at = _HEADER + _SLOT * self.slot_num
        self._rows = data[self._entries_at : self._entries_at + _ENTRY * self.max_index_num].view(INDEX_ENTRY.dtype)
        self._bytes = data[self._entries_at : self._entries_at + _ENTRY * self.max_index_num].reshape(-1, _ENTRY)
        self.stray: int | None = None
        """An entry behind the last one that is not zero, and that no slot knows."""
        self.end = self._find_end()
        """Behind the last entry."""

    def position(self, index: int, field: str | None = None) -> int:
        """Byte of an entry, or of a field of it."""
        return self._entries_at + _ENTRY * index + (INDEX_ENTRY.offset_of(field) if field else 0)

    def slot_position(self, slot: int) -> int:
        """Byte of a slot."""
        return _HEADER + _SLOT * slot

    def rows(self, first: int, count: int) -> IndexRows:
        """Entries from `first` on, at most `count`, none behind the last one."""
        rows = self._rows[first : min(first + count, self.end)]
        return IndexRows(
            first,
            rows["key_hash"].astype(np.int32),
            rows["phy_offset"].astype(np.int64),
            rows["time_diff_s"].astype(np.int32),
            rows["previous_index"].astype(np.int32),
        )

    def _find_end(self) -> int:
        stated = self.header[5]
        if not 1 <= stated <= self.max_index_num or (stated > 1 and not self._bytes[stated - 1].any()):
            return self._back_from(min(max(stated, 1), self.max_index_num) if stated > 0 else self.max_index_num)
        if stated == self.max_index_num or not self._bytes[stated].any():
            return max(stated, 1)
        # More than the header counts: entries where a slot knows them, else bytes that do not belong there.
        slot = (int(self._rows["key_hash"][stated]) & 0x7FFFFFFF) % self.slot_num
        if int(self.slots[slot]) < stated:
            self.stray = stated
            return stated
        return self._forward_from(stated)

    def _back_from(self, end: int) -> int:
        """Behind the last entry before `end` that is not zero."""
        while end > 1:
            start = max(1, end - _CHUNK_ROWS)
            written = np.flatnonzero(self._bytes[start:end].any(axis=1))
            if len(written):
                return start + int(written[-1]) + 1
            end = start
        return 1

    def _forward_from(self, start: int) -> int:
        """The first entry from `start` on that is zero."""
        for at in range(start, self.max_index_num, _CHUNK_ROWS):
            written = self._bytes[at : at + _CHUNK_ROWS].any(axis=1)
            if not written.all():
                return at + int(np.argmin(written))
        return self.max_index_num

    def first_byte(self, index: int) -> int:
        """The first byte of an entry that is not zero."""
        return self.position(index) + int(np.argmax(self._bytes[index] != 0))

    def close(self) -> None:
        """Unmaps the file."""
        self.slots = np.empty(0, ">i4")
        self._rows, self._bytes = np.empty(0, INDEX_ENTRY.dtype), np.empty((0, _ENTRY), np.uint8)
        self._mapped.close()
