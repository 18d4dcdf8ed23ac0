"""`<base>.timeindex`: maps a timestamp to a nearby offset.

Source: Kafka's TimeIndex; ``docs/formats/kafka-time-index.md``. Slots of 12 bytes: the largest
timestamp up to that point of the .log, and the last offset (relative) of the earliest batch that
has it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from logdex.errors import CorruptError, OffsetOrderError
from logdex.io.env import ReadFile
from logdex.kafka.batch.record import NO_TIMESTAMP
from logdex.kafka.segment.derive_indexes import encode_time_entries
from logdex.kafka.segment.sparse_index import IndexFile
from logdex.kernels.kafka.batch_columns import Int64s
from logdex.kernels.kafka.sparse_lookup import lookup_times
from logdex.layout.kafka import TIME_INDEX_ENTRY

_TIMESTAMP, _RELATIVE_OFFSET = 0, 1
TRIMMED_SIZE_BYTES = TIME_INDEX_ENTRY.size_bytes
"""A file of this size was trimmed, because a preallocated one has room for two entries at least. So
its bytes are an entry, also if they are zeros: that of a record of time 0 at the base offset. In a
longer file, zeros at the end are none."""


class TimestampEntry(NamedTuple):
    """An entry: milliseconds since the epoch, and an offset."""

    timestamp_ms: int
    offset: int


class TimeIndex(IndexFile):
    """A time index; see `IndexFile` for opening, thread-safety and the number of entries."""

    layout = TIME_INDEX_ENTRY

    def _load_last(self) -> None:
        none = TimestampEntry(NO_TIMESTAMP, self.base_offset)
        self.last_entry = self.entry(self.entries - 1) if self.entries else none
        """The last entry, or (-1, base offset)."""

    def _count_entries(self, file: ReadFile, count_zero_slots: bool) -> int:
        return 1 if self.size_bytes == TRIMMED_SIZE_BYTES else super()._count_entries(file, count_zero_slots)

    @property
    def is_full(self) -> bool:
        """Whether the segment must be rolled: the last slot is reserved for the entry of the
        roll."""
        return self.entries >= self.slots - 1

    def entry(self, slot: int) -> TimestampEntry:
        """The entry in a slot. Raises `UsageError` for a slot without an entry."""
        self._check_slot(slot)
        timestamp, relative = self._slot(slot)
        return TimestampEntry(timestamp, self.base_offset + relative)

    def lookup(self, timestamp_ms: int) -> TimestampEntry:
        """The last entry with a timestamp of at most `timestamp_ms`, or (-1, base offset)."""
        slot = self._lower_bound(_TIMESTAMP, timestamp_ms)
        return TimestampEntry(NO_TIMESTAMP, self.base_offset) if slot < 0 else self.entry(slot)

    def lookup_many(self, timestamps_ms: npt.NDArray[np.int64]) -> Int64s:
        """`lookup` for many timestamps: (timestamp, offset)[n, 2]. In an unsorted index it may find
        any entry."""
        return lookup_times(self.used_bytes, self.base_offset, timestamps_ms)

    def require_room(self, count: int, *, on_roll: bool = False) -> None:
        """Raises `IndexFullError` unless `count` more entries fit.

        One slot stays reserved for the entry of the roll, unless `on_roll`.
        """
        self._require_room(count, self.slots if on_roll else self.slots - 1)

    def maybe_append(self, timestamp_ms: int, offset: int, *, on_roll: bool = False) -> bool:
        """Adds an entry if its timestamp is above the last one's, and returns whether it did.

        Raises `OffsetOrderError` for an offset or a timestamp below the last entry's,
        `OffsetOverflowError`, and `IndexFullError` if only the slot for the roll is left and
        `on_roll` is not set.
        """
        if not on_roll:
            self.require_room(1)
        if self.entries and (offset < self.last_entry.offset or timestamp_ms < self.last_entry.timestamp_ms):
            raise self._falls(timestamp_ms, offset)
        if timestamp_ms <= self.last_entry.timestamp_ms:
            return False
        self.require_room(1, on_roll=on_roll)
        self._require_in_range(offset)
        self._write(encode_time_entries(np.array([[timestamp_ms, offset]], np.int64), self.base_offset))
        self.last_entry = TimestampEntry(timestamp_ms, offset)
        return True

    def append_many(self, entries: npt.NDArray[np.int64], *, on_roll: bool = False) -> None:
        """Adds increasing entries (timestamp, offset)[n, 2], all or none. Raises as `maybe_append`
        does."""
        if not len(entries):
            return
        self.require_room(len(entries), on_roll=on_roll)
        last = self.last_entry
        for offset in (int(entries[0, 1]), int(entries[-1, 1])):
            self._require_in_range(offset)
        falls = np.diff(entries[:, 0], prepend=last.timestamp_ms) <= 0
        falls |= np.diff(entries[:, 1], prepend=last.offset if self.entries else self.base_offset) < 0
        if falls.any():
            raise self._falls(*map(int, entries[np.flatnonzero(falls)[0]]))
        self._write(encode_time_entries(entries, self.base_offset))
        self.last_entry = TimestampEntry(int(entries[-1, 0]), int(entries[-1, 1]))

    def _falls(self, timestamp_ms: int, offset: int) -> OffsetOrderError:
        last = self.last_entry
        return OffsetOrderError(
            "an offset or a timestamp below the last one cannot be added",
            path=self.path,
            position=self.entries * self._entry_size,
            field="timestamp_ms" if timestamp_ms < last.timestamp_ms else "relative_offset",
            expected=f"({last.timestamp_ms}, {last.offset}) or above",
            found=f"({timestamp_ms}, {offset})",
        )

    def truncate_to(self, offset: int) -> None:
        """Removes the entries at `offset` and above."""
        slot = self._lower_bound(_RELATIVE_OFFSET, offset - self.base_offset)
        keep = slot if slot >= 0 and self.entry(slot).offset == offset else slot + 1
        self._truncate_to_entries(keep)

    def sanity_check(self) -> None:
        """Raises `CorruptError` for an incomplete last slot and an invalid last entry.

        That is one below the first timestamp or the base offset.
        """
        if self.entries:
            first, last = self._slot(0)[_TIMESTAMP], self.last_entry
            if last.timestamp_ms < first or last.offset < self.base_offset:
                raise CorruptError(
                    "the last entry is below the first one or the base offset",
                    path=self.path,
                    position=(self.entries - 1) * self._entry_size,
                    field="timestamp_ms" if last.timestamp_ms < first else "relative_offset",
                    expected=f"({first}, {self.base_offset}) or above",
                    found=f"({last.timestamp_ms}, {last.offset})",
                    hint="rebuild the index: logdex rebuild",
                )
        self._require_whole_slots()
