"""One mapped IndexFile, and the number of entries that its bytes hold, whatever its header
states."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from logdex.errors import UnreadableError
from logdex.io.env import Env
from logdex.io.mapped.mapping import require_no_faults
from logdex.layout.rocketmq import INDEX_ENTRY, INDEX_HEADER, INDEX_SLOT
from logdex.rocketmq.settings.store_config import StoreConfig

_CHUNK_ROWS = 1 << 16
_ENTRY = INDEX_ENTRY.size_bytes
_SLOT = INDEX_SLOT.size_bytes
_HEADER = INDEX_HEADER.size_bytes


class IndexRows(NamedTuple):
    """Consecutive entries as arrays, one element per entry. `first` is the number of the first
    entry."""

    first: int
    key_hash: npt.NDArray[np.int32]
    phy_offset: npt.NDArray[np.int64]
    time_diff_s: npt.NDArray[np.int32]
    previous_index: npt.NDArray[np.int32]

    def part(self, start: int, end: int) -> IndexRows:
        """Returns rows [start, end) of these rows."""
        return IndexRows(
            self.first + start,
            self.key_hash[start:end],
            self.phy_offset[start:end],
            self.time_diff_s[start:end],
            self.previous_index[start:end],
        )


class IndexDisk:
    """One IndexFile of the right size. Not thread-safe. The owner must call `close`."""

    def __init__(self, path: str, config: StoreConfig, env: Env) -> None:
        self.path = path
        self.slot_num = config.max_hash_slot_num
        self.max_index_num = config.max_index_num
        self._mapped = env.map_read(path)
        data = self._mapped.array
        size = _HEADER + _SLOT * self.slot_num + _ENTRY * self.max_index_num
        if data.size < size:
            raise UnreadableError(path=path, position=data.size, end_position=size, size_bytes=data.size)
        self.header: tuple[int, ...] = INDEX_HEADER.struct.unpack(data[:_HEADER].tobytes())
        """The six header fields as stored."""
        self.slots = data[_HEADER : _HEADER + _SLOT * self.slot_num].view(">i4")
        self._entries_at = _HEADER + _SLOT * self.slot_num
        self._rows = data[self._entries_at : self._entries_at + _ENTRY * self.max_index_num].view(INDEX_ENTRY.dtype)
        self._bytes = data[self._entries_at : self._entries_at + _ENTRY * self.max_index_num].reshape(-1, _ENTRY)
        self.stray: int | None = None
        """The number of an entry after the last one that is not zero and that no slot points to."""
        self.end = self._find_end()
        """The number after that of the last entry."""
        require_no_faults(data)

    def header_now(self) -> tuple[int, ...]:
        """Returns the header fields as they are now."""
        return INDEX_HEADER.struct.unpack(self._mapped.array[:_HEADER].tobytes())

    def rows_now(self, index: int) -> np.void:
        """Returns one entry as it is now."""
        row: np.void = self._rows[index]
        return row

    def offset_of(self, index: int) -> int:
        """Returns the physical offset in one entry."""
        return int(self._rows[index]["phy_offset"])

    def require_readable(self) -> None:
        """Raises `UnreadableError` if bytes that were used so far cannot be read."""
        require_no_faults(self._mapped.array)

    def position(self, index: int, field: str | None = None) -> int:
        """Returns the position in bytes of an entry, or of one of its fields."""
        return self._entries_at + _ENTRY * index + (INDEX_ENTRY.offset_of(field) if field else 0)

    def slot_position(self, slot: int) -> int:
        """Returns the position of a slot in bytes."""
        return _HEADER + _SLOT * slot

    def rows(self, first: int, count: int) -> IndexRows:
        """Returns at most `count` entries from `first` on, up to the last one."""
        rows = self._rows[first : min(first + count, self.end)]
        found = IndexRows(
            first,
            rows["key_hash"].astype(np.int32),
            rows["phy_offset"].astype(np.int64),
            rows["time_diff_s"].astype(np.int32),
            rows["previous_index"].astype(np.int32),
        )
        require_no_faults(rows)
        return found

    def _find_end(self) -> int:
        stated = self.header[5]
        if not 1 <= stated <= self.max_index_num or (stated > 1 and not self._bytes[stated - 1].any()):
            return self._back_from(min(max(stated, 1), self.max_index_num) if stated > 0 else self.max_index_num)
        if stated == self.max_index_num or not self._bytes[stated].any():
            return max(stated, 1)
        # There is an entry beyond the header's count: it is valid if a slot points to it, else it
        # is stray bytes.
        slot = (int(self._rows["key_hash"][stated]) & 0x7FFFFFFF) % self.slot_num
        if int(self.slots[slot]) < stated:
            self.stray = stated
            return stated
        return self._forward_from(stated)

    def _back_from(self, end: int) -> int:
        """Returns the number after that of the last entry before `end` that is not zero."""
        while end > 1:
            start = max(1, end - _CHUNK_ROWS)
            written = np.flatnonzero(self._bytes[start:end].any(axis=1))
            if len(written):
                return start + int(written[-1]) + 1
            end = start
        return 1

    def _forward_from(self, start: int) -> int:
        """Returns the number of the first entry from `start` on that is zero."""
        for at in range(start, self.max_index_num, _CHUNK_ROWS):
            written = self._bytes[at : at + _CHUNK_ROWS].any(axis=1)
            if not written.all():
                return at + int(np.argmin(written))
        return self.max_index_num

    def first_byte(self, index: int) -> int:
        """Returns the position of the first byte of an entry that is not zero."""
        return self.position(index) + int(np.argmax(self._bytes[index] != 0))

    def close(self) -> None:
        """Unmaps the file."""
        self.slots = np.empty(0, ">i4")
        self._rows, self._bytes = np.empty(0, INDEX_ENTRY.dtype), np.empty((0, _ENTRY), np.uint8)
        self._mapped.close()
