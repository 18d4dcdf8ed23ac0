"""`<base>.index`: maps an offset to a nearby position in the segment's .log.

Source: Kafka's OffsetIndex; ``docs/formats/kafka-offset-index.md``. Slots of 8 bytes: relative
offset, position. The offset is the last offset of the batch at that position.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from logdex.errors import CorruptError, OffsetOrderError, UsageError
from logdex.kafka.segment.derive_indexes import encode_offset_entries
from logdex.kafka.segment.sparse_index import IndexFile
from logdex.kernels.kafka.batch_columns import Int64s
from logdex.kernels.kafka.sparse_lookup import lookup_offsets
from logdex.layout.kafka import OFFSET_INDEX_ENTRY

_INT = 1 << 31
_RELATIVE_OFFSET, _POSITION = 0, 1


class OffsetPosition(NamedTuple):
    """An entry: an offset, and a byte position in the .log."""

    offset: int
    position: int


class OffsetIndex(IndexFile):
    """An offset index; see `IndexFile` for opening, thread-safety and the number of entries."""

    layout = OFFSET_INDEX_ENTRY

    def _load_last(self) -> None:
        self.last_offset = self.entry(self.entries - 1).offset if self.entries else self.base_offset
        """The offset of the last entry, or the base offset."""

    def entry(self, slot: int) -> OffsetPosition:
        """The entry in a slot. Raises `UsageError` for a slot without an entry."""
        self._check_slot(slot)
        relative, position = self._slot(slot)
        return OffsetPosition(self.base_offset + relative, position)

    def lookup(self, offset: int) -> OffsetPosition:
        """The last entry with an offset of at most `offset`, or (base offset, 0)."""
        slot = self._lower_bound(_RELATIVE_OFFSET, offset - self.base_offset)
        return OffsetPosition(self.base_offset, 0) if slot < 0 else self.entry(slot)

    def lookup_many(self, offsets: npt.NDArray[np.int64]) -> Int64s:
        """`lookup` for many offsets: (offset, position)[n, 2]. In an unsorted index it may find any
        entry."""
        return lookup_offsets(self.used_bytes, self.base_offset, offsets)

    def fetch_upper_bound_offset(self, position: int, fetch_size_bytes: int) -> OffsetPosition | None:
        """The first entry with a position of at least `position` + `fetch_size_bytes`, or None.

        Kafka's int overflows if the sum reaches 2^31; this method then returns None.
        """
        if position + fetch_size_bytes >= _INT:
            return None
        slot = self._upper_bound(_POSITION, position + fetch_size_bytes)
        return None if slot < 0 else self.entry(slot)

    def require_room(self, count: int) -> None:
        """Raises `IndexFullError` unless `count` more entries fit."""
        self._require_room(count, self.slots)

    def append(self, offset: int, position: int) -> None:
        """Adds an entry.

        Raises `IndexFullError`, `OffsetOverflowError`, `OffsetOrderError` (an offset that is not
        above the last one), and `UsageError` for a position that no .log has.
        """
        self.append_many(np.array([[offset, position]], np.int64))

    def append_many(self, entries: npt.NDArray[np.int64]) -> None:
        """Adds entries (offset, position)[n, 2], all or none. Raises as `append` does."""
        if not len(entries):
            return
        self.require_room(len(entries))
        before = self.last_offset if self.entries else self.base_offset - 1
        for offset in (int(entries[0, 0]), int(entries[-1, 0])):
            self._require_in_range(offset)
        falls = np.flatnonzero(np.diff(entries[:, 0], prepend=before) <= 0)
        if len(falls):
            raise OffsetOrderError(
                "an offset that is not above the last one cannot be added",
                path=self.path,
                position=(self.entries + int(falls[0])) * self._entry_size,
                field="relative_offset",
                expected=f"above {before - self.base_offset}",
                found=int(entries[falls[0], 0]) - self.base_offset,
            )
        outside = np.flatnonzero((entries[:, 1] < 0) | (entries[:, 1] >= _INT))
        if len(outside):
            found = int(entries[outside[0], 1])
            raise UsageError(f"{self.path}: {found} is not a position in a .log", hint=f"use 0 to {_INT - 1}")
        self._write(encode_offset_entries(entries, self.base_offset))
        self.last_offset = int(entries[-1, 0])

    def truncate_to(self, offset: int) -> None:
        """Removes the entries at `offset` and above."""
        slot = self._lower_bound(_RELATIVE_OFFSET, offset - self.base_offset)
        keep = slot if slot >= 0 and self.entry(slot).offset == offset else slot + 1
        self._truncate_to_entries(keep)

    def sanity_check(self) -> None:
        """Raises `CorruptError` for a last offset below the base offset, and for an incomplete last
        slot."""
        if self.entries and self.last_offset < self.base_offset:
            raise CorruptError(
                "the last entry's offset is below the base offset",
                path=self.path,
                position=(self.entries - 1) * self._entry_size,
                field="relative_offset",
                expected="0 or above",
                found=self.last_offset - self.base_offset,
                hint="rebuild the index: logdex rebuild",
            )
        self._require_whole_slots()
