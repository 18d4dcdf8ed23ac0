"""The base of a segment's offset index and time index: sorted slots of one size in a preallocated
file.

Source: Kafka's AbstractIndex; ``docs/formats/kafka-offset-index.md``. A new file is preallocated,
sparse, to the largest multiple of the slot size within its maximum; roll, close and recovery trim
it to its entries. Without trimming (a crash, a copy of a live partition) zeros follow the entries.
Kafka counts each such slot as an entry; this class finds the first one by bisection.

Reads use a mapping, writes use `pwrite` (docs/design/0005). Few files stay mapped
(`kept_mappings`): an index that was not used for long is unmapped, and mapped again by the next
look-up. Thread-safety: one writer; readers may share the object and see an entry once it is
complete.
"""

from __future__ import annotations

import struct
import threading
from abc import ABC, abstractmethod
from typing import Self

import numpy as np

from logdex import limits
from logdex.errors import CorruptError, IndexFullError, OffsetOverflowError, UnreadableError, UsageError
from logdex.io.env import DEFAULT_ENV, Env, ReadFile, WriteFile
from logdex.io.mapped.byte_array import ByteArray
from logdex.io.mapped.kept_mappings import KEPT_MAPPINGS
from logdex.io.mapped.mapping import any_faults, is_mapped, require_no_faults
from logdex.io.path_look import StrPath, path_text
from logdex.layout.base import Layout
from logdex.primitives.shown import counted, repr_of

WARM_SIZE_BYTES = 8192
"""The end of an index, which is searched first: reads near the log end offset touch only these
pages."""


class IndexFile(ABC):
    """One index file of the segment at `base_offset`, with `entries` entries. Close it after use.

    `writable`: a missing file is created and preallocated to `max_size_bytes`. Otherwise no byte is
    changed, and a missing file is an index without entries. `count_zero_slots`: count every slot as
    an entry, as Kafka does.
    """

    layout: Layout

    def __init__(
        self,
        path: StrPath,
        base_offset: int,
        *,
        max_size_bytes: int = 10 << 20,
        writable: bool = False,
        count_zero_slots: bool = False,
        env: Env = DEFAULT_ENV,
    ) -> None:
        self.path = path = path_text(path)
        self.base_offset = base_offset
        self.max_size_bytes = max_size_bytes
        self._env = env
        self._entry_size = self.layout.size_bytes
        self._struct: struct.Struct = self.layout.struct
        self._file: WriteFile | None = None
        self._writable = writable
        self._closed = False
        self._mapping = threading.Lock()
        """Held while the file is mapped or renamed, so that no thread maps it as it was before."""
        self._mapped: tuple[ByteArray, memoryview] | None = None
        self.was_used = False
        if max_size_bytes < self._entry_size:
            raise UsageError(
                f"{path}: an index of {max_size_bytes} bytes has no room for an entry", hint="use at least 24"
            )
        self.missing = not env.exists(path)
        """Whether the file was missing when this was opened."""
        try:
            if writable and self.missing:
                self._require_writable().truncate(self._rounded(max_size_bytes))
            self.entries = self._open_view(count_zero_slots)
            """The number of entries, without zeros at the end (but see `count_zero_slots`)."""
        except BaseException:
            self.release()
            raise
        self._load_last()

    def __repr__(self) -> str:
        return repr_of(self, repr(self.path), counted(self.entries, "entry", "entries"), is_closed=self._closed)

    # -- opening ----------------------------------------------------------------------------------
    def _open_view(self, count_zero_slots: bool) -> int:
        """Maps the file and returns its number of entries."""
        if self.missing and not self._writable:
            self._map(np.empty(0, np.uint8))
            self.size_bytes = 0
            return 0
        with self._env.open_read(self.path) as file:
            self._map_file(file)
            return 0 if self.missing else self._count_entries(file, count_zero_slots)

    def _map_file(self, file: ReadFile) -> None:
        size_bytes = file.size_bytes
        if size_bytes > limits.INDEX_SIZE_BYTES_MAX:
            raise CorruptError(
                "the file is too large for an index",
                path=self.path,
                position=limits.INDEX_SIZE_BYTES_MAX,
                field="file size",
                expected=f"at most {limits.INDEX_SIZE_BYTES_MAX}",
                found=size_bytes,
            )
        array, _ = self._map(file.map().array)
        self.size_bytes = len(array)
        """The size of the file."""

    def _map(self, array: ByteArray) -> tuple[ByteArray, memoryview]:
        mapped = self._mapped = array, memoryview(array)  # type: ignore[arg-type]  # stubs: arrays are buffers
        if is_mapped(array):
            KEPT_MAPPINGS.add(self)
        return mapped

    def unmap(self) -> None:
        """Unmaps the file, as soon as no thread reads its bytes. The next look-up maps it again."""
        self._mapped = None

    def _bytes(self) -> tuple[ByteArray, memoryview]:
        """The bytes of the file, which stay mapped as long as they are referred to."""
        self.was_used = True
        return self._mapped or self._map_unmapped()

    def _map_unmapped(self) -> tuple[ByteArray, memoryview]:
        with self._mapping:
            mapped = self._mapped
            if mapped is None:
                self._require_open()
                array = self._env.map_read(self.path).array
                used_bytes = self.entries * self._entry_size
                if len(array) < used_bytes:  # another process truncated or replaced it
                    found = len(array)
                    raise UnreadableError(path=self.path, position=found, end_position=used_bytes, size_bytes=found)
                mapped = self._map(array)
        return mapped

    def _rounded(self, size_bytes: int) -> int:
        return size_bytes // self._entry_size * self._entry_size

    # -- counting ---------------------------------------------------------------------------------
    @property
    def slots(self) -> int:
        """The number of slots in the file, which Kafka counts as entries on opening, zeros
        included."""
        return self.size_bytes // self._entry_size

    @property
    def is_full(self) -> bool:
        """Whether the segment must be rolled before another append."""
        return self.entries >= self.slots

    def _count_entries(self, file: ReadFile, count_zero_slots: bool) -> int:
        """Finds the first slot of zeros by reading the file.

        A broker may truncate the file at any time, and accessing mapped pages after its end would
        kill the process.
        """

        def is_zero(slot: int) -> bool:
            return not any(file.read_at(slot * self._entry_size, self._entry_size))

        slots = self.slots
        if count_zero_slots or slots == 0 or not is_zero(slots - 1):
            return slots
        low, high = 0, slots - 1  # Slot `high` is zero. Zero slots before the first entry are ignored.
        while low < high:
            middle = (low + high) // 2
            if is_zero(middle):
                high = middle
            else:
                low = middle + 1
        return low

    @property
    def used_bytes(self) -> ByteArray:
        """The bytes of the entries, as a view that is valid until the index is changed."""
        array, _ = self._bytes()
        return array[: self.entries * self._entry_size]

    # -- searching --------------------------------------------------------------------------------
    def _slot(self, slot: int) -> tuple[int, ...]:
        """The two numbers in a slot, as stored."""
        _, view = self._bytes()
        return self._struct.unpack_from(view, slot * self._entry_size)

    def _lower_bound(self, field: int, target: int) -> int:
        """The last slot whose number at place `field` is at most `target`, or -1."""
        return self._search(field, target, upper=False)

    def _upper_bound(self, field: int, target: int) -> int:
        """The first slot whose number at place `field` is at least `target`, or -1."""
        return self._search(field, target, upper=True)

    def _search(self, field: int, target: int, *, upper: bool) -> int:
        """Raises `UnreadableError` if bytes of the index could not be read."""
        entries = self.entries  # read before the bytes, which have at least as many
        if entries == 0:
            self._require_open()
            return -1
        array, view = self._bytes()
        slot = self._search_in(view, entries, field, target, upper)
        if any_faults():
            require_no_faults(array)
        return slot

    def _search_in(self, view: memoryview, entries: int, field: int, target: int, upper: bool) -> int:
        # Visits the same slots in the same order as Kafka, so that an unsorted index leads to the
        # same result.
        unpack_from, size = self._struct.unpack_from, self._entry_size

        def number(slot: int) -> int:
            found: int = unpack_from(view, slot * size)[field]
            return found

        warm = max(0, entries - 1 - WARM_SIZE_BYTES // self._entry_size)
        if number(warm) < target:
            low, high = warm, entries - 1
        elif number(0) > target:
            return 0 if upper else -1
        else:
            low, high = 0, warm
        while low < high:
            middle = (low + high + 1) // 2
            found = number(middle)
            if found == target:
                return middle
            if found > target:
                high = middle - 1
            else:
                low = middle
        if not upper or number(low) == target:
            return low
        return -1 if low == entries - 1 else low + 1

    def _check_slot(self, slot: int) -> None:
        if not 0 <= slot < self.entries:
            raise UsageError(f"{self.path}: there is no entry {slot}, the index has {self.entries}")

    def can_append_offset(self, offset: int) -> bool:
        """Whether an entry of this index can hold `offset`: 0 to 2^31-1 above the base offset."""
        return 0 <= offset - self.base_offset <= limits.RELATIVE_OFFSET_MAX

    # -- writing ----------------------------------------------------------------------------------
    def _require_open(self) -> None:
        if self._closed:
            raise UsageError(f"{self.path}: the index was closed", hint="open it again")

    def _require_writable(self) -> WriteFile:
        self._require_open()  # after closing, `entries` is 0, and an append would overwrite the first entry
        if not self._writable:
            raise UsageError(f"{self.path}: opened for reading only", hint="open it with writable=True")
        if self._file is None:
            self._file = self._env.open_write(self.path)
        return self._file

    def _require_room(self, count: int, room: int) -> None:
        if count and self.entries + count > room:
            raise IndexFullError(
                f"{count} more entries do not fit, {self.entries} of at most {room} are used",
                path=self.path,
                hint="roll the segment, or give it a larger segment_index_bytes",
            )

    def _require_in_range(self, offset: int) -> None:
        if not self.can_append_offset(offset):
            raise OffsetOverflowError(
                f"the offset does not fit the index of the segment at {self.base_offset}",
                path=self.path,
                position=self.entries * self._entry_size,
                field="relative_offset",
                expected=f"0 to {limits.RELATIVE_OFFSET_MAX}",
                found=offset - self.base_offset,
            )

    def _write(self, data: bytes) -> None:
        """Writes whole slots after the entries, and then counts them."""
        self._require_writable().write_at(self.entries * self._entry_size, data)
        self.entries += len(data) // self._entry_size

    def _truncate_to_entries(self, entries: int) -> None:
        file = self._require_writable()
        dropped, self.entries = self.entries - entries, entries
        if dropped > 0:  # zeroed, so that the entries can be counted even if the index is never trimmed
            file.write_at(entries * self._entry_size, bytes(dropped * self._entry_size))
        self._load_last()

    @abstractmethod
    def _load_last(self) -> None:
        """Updates the cached last entry."""

    @abstractmethod
    def truncate_to(self, offset: int) -> None:
        """Removes the entries at `offset` and above."""

    @abstractmethod
    def sanity_check(self) -> None:
        """Raises `CorruptError` where Kafka's sanity check on opening fails."""

    def truncate(self) -> None:
        """Removes all entries; the file keeps its size."""
        self._truncate_to_entries(0)

    def resize(self, size_bytes: int) -> bool:
        """Resizes the file to whole slots; entries that no longer fit are removed.

        Returns False if the file already has this size.
        """
        file = self._require_writable()
        rounded = self._rounded(size_bytes)
        if rounded == self.size_bytes:
            return False
        self.entries = min(self.entries, rounded // self._entry_size)
        file.truncate(rounded)
        self._map_again()
        return True

    def _map_again(self) -> None:
        with self._mapping, self._env.open_read(self.path) as file:
            self._map_file(file)
        self._load_last()

    def rewrite(self, data: bytes) -> None:
        """Replaces the file's content by whole slots from a recovery. No other thread may read
        meanwhile."""
        file = self._require_writable()
        self.entries = 0
        file.truncate(0)
        file.write_at(0, data)
        self.entries = len(data) // self._entry_size
        self._map_again()

    def release(self) -> None:
        """Closes the descriptor of an index that is no longer written. A later change opens it
        again."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def trim_to_valid_size(self) -> None:
        """Truncates the file to its entries."""
        self.resize(self.entries * self._entry_size)

    def reset(self) -> None:
        """Removes all entries and preallocates the file again."""
        self.truncate()
        self.resize(self.max_size_bytes)

    def flush(self) -> None:
        """Writes the file's data to disk (fsync)."""
        self._require_writable().sync()

    def rename(self, path: StrPath) -> None:
        """Renames the file; this object continues with the new name."""
        name = path_text(path)
        self.release()
        with self._mapping:
            self._env.rename(self.path, name)
            self.path = name

    def close(self) -> None:
        """Closes the file without changing it; trim it first if its segment is complete.

        Later use raises `UsageError`.
        """
        with self._mapping:
            self._closed = True
            self.entries = 0
            self._mapped = None
        KEPT_MAPPINGS.forget(self)
        self.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _require_whole_slots(self) -> None:
        torn = self.size_bytes % self._entry_size
        if torn:
            raise CorruptError(
                "the file size is not a multiple of the entry size",
                path=self.path,
                position=self.size_bytes - torn,
                field="file size",
                expected=f"a multiple of {self._entry_size}",
                found=self.size_bytes,
                hint="rebuild the index: logdex rebuild",
            )
