"""What a segment's two preallocated indexes share: slots of one size, rising, sparse file, binary search.

Source: Kafka's AbstractIndex; ``docs/formats/kafka-offset-index.md``. A new file gets the largest multiple of the slot
size that fits its maximum, sparse; roll, close and recovery trim it to its entries. Where that did not happen (a crash,
a copy of a live log) zeros follow the entries; Kafka counts each as an entry, here their beginning is found by
bisection.

Read through a mapping, written with `pwrite` (docs/design/0005). Thread-safety: one writer; readers may share an object
with it and see an entry once it is whole.
"""

from __future__ import annotations

import struct
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Self

from logdex import limits
from logdex.errors import CorruptError, IndexFullError, OffsetOverflowError, UsageError
from logdex.io.env import DEFAULT_ENV, ByteArray, Env, MappedBytes, ReadFile, WriteFile
from logdex.layout.base import Layout

WARM_SIZE_BYTES = 8192
"""The end of an index that is looked into first: reads near the end of the log touch only these pages."""


class IndexFile(ABC):
    """One index file. `base_offset` is its segment's; `entries` counts its entries; close it when done.

    `writable`: created and preallocated to `max_size_bytes` where missing; otherwise no byte is ever changed, and a
    missing file is an index without entries. `count_zero_slots`: count every slot as Kafka does.
    """

    layout: Layout

    def __init__(
        self,
        path: str,
        base_offset: int,
        *,
        max_size_bytes: int = 10 << 20,
        writable: bool = False,
        count_zero_slots: bool = False,
        env: Env = DEFAULT_ENV,
    ) -> None:
        self.path = path
        self.base_offset = base_offset
        self.max_size_bytes = max_size_bytes
        self._env = env
        self._entry_size = self.layout.size_bytes
        self._struct: struct.Struct = self.layout.struct
        self._file: WriteFile | None = None
        self._writable = writable
        self._closed = False
        if max_size_bytes < self._entry_size:
            raise UsageError(f"{path}: an index of {max_size_bytes} bytes holds no entry", hint="say at least 24")
        self.missing = not env.exists(path)
        """Whether there was no such file when this was opened."""
        try:
            if writable and self.missing:
                self._require_writable().truncate(self._rounded(max_size_bytes))
            self.entries = self._open_view(count_zero_slots)
            """Entries, without a tail of zeros (but see `count_zero_slots`)."""
        except BaseException:
            self.release()
            raise
        self._load_last()

    # -- opening -------------------------------------------------------------------------------------------------------
    def _open_view(self, count_zero_slots: bool) -> int:
        """Maps the file; how many entries it has."""
        if self.missing and not self._writable:
            self._map(MappedBytes(self._env, self.path, None))
            return 0
        with self._env.open_read(self.path) as file:
            self._map_file(file)
            return 0 if self.missing else self._count_entries(file, count_zero_slots)

    def _map_file(self, file: ReadFile) -> None:
        size_bytes = file.size_bytes
        if size_bytes > limits.INDEX_SIZE_BYTES_MAX:
            raise CorruptError(
                "too large for an index",
                path=self.path,
                position=limits.INDEX_SIZE_BYTES_MAX,
                field="file size",
                expected=f"at most {limits.INDEX_SIZE_BYTES_MAX}",
                found=size_bytes,
            )
        self._map(file.map())

    def _map(self, mapped: MappedBytes) -> None:
        self._mapped = mapped
        self.size_bytes = len(mapped.array)
        """Length of the file."""
        self._view = memoryview(mapped.array)  # type: ignore[arg-type]  # arrays are buffers; the stubs do not say so

    def _rounded(self, size_bytes: int) -> int:
        return size_bytes // self._entry_size * self._entry_size

    # -- counting ------------------------------------------------------------------------------------------------------
    @property
    def slots(self) -> int:
        """Entries that fit the file as it is now; so many Kafka counts when it opens it, zeros included."""
        return self.size_bytes // self._entry_size

    @property
    def is_full(self) -> bool:
        """Whether the segment must be rolled before another append."""
        return self.entries >= self.slots

    def _count_entries(self, file: ReadFile, count_zero_slots: bool) -> int:
        """Looks for the first slot of zeros with reads: a broker may cut the tail off at any time, and to touch mapped
        pages behind a file's end kills the process."""

        def is_zero(slot: int) -> bool:
            return not any(file.read_at(slot * self._entry_size, self._entry_size))

        slots = self.slots
        if count_zero_slots or slots == 0 or not is_zero(slots - 1):
            return slots
        low, high = 0, slots - 1  # slot `high` is zero; a slot of zeros before the first entry is passed over
        while low < high:
            middle = (low + high) // 2
            if is_zero(middle):
                high = middle
            else:
                low = middle + 1
        return low

    @property
    def used_bytes(self) -> ByteArray:
        """The bytes of the entries: a view, valid until the index changes or closes."""
        return self._mapped.array[: self.entries * self._entry_size]

    # -- searching -----------------------------------------------------------------------------------------------------
    def _slot(self, slot: int) -> tuple[int, ...]:
        """The two numbers in a slot, as stored."""
        return self._struct.unpack_from(self._view, slot * self._entry_size)

    def _lower_bound(self, number: Callable[[int], int], target: int) -> int:
        """The last slot whose `number` is at most `target`, -1 if there is none."""
        return self._search(number, target, upper=False)

    def _upper_bound(self, number: Callable[[int], int], target: int) -> int:
        """The first slot whose `number` is at least `target`, -1 if there is none."""
        return self._search(number, target, upper=True)

    def _search(self, number: Callable[[int], int], target: int, *, upper: bool) -> int:
        # the same slots in the same order as Kafka, so that an index that does not rise misleads both alike
        entries = self.entries
        if entries == 0:
            self._require_open()
            return -1
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
            raise UsageError(f"{self.path}: entry {slot} was asked for, there are {self.entries}")

    def can_append_offset(self, offset: int) -> bool:
        """Whether an entry of this index can hold `offset`: 0 to 2^31-1 above the base offset."""
        return 0 <= offset - self.base_offset <= limits.RELATIVE_OFFSET_MAX

    # -- writing -------------------------------------------------------------------------------------------------------
    def _require_open(self) -> None:
        if self._closed:
            raise UsageError(f"{self.path}: the index was closed", hint="open it again")

    def _require_writable(self) -> WriteFile:
        self._require_open()  # its entries are not known any more: an append would overwrite the first one
        if not self._writable:
            raise UsageError(f"{self.path}: opened for reading only", hint="open it with writable=True")
        if self._file is None:
            self._file = self._env.open_write(self.path)
        return self._file

    def _require_room(self, count: int, room: int) -> None:
        if count and self.entries + count > room:
            raise IndexFullError(
                f"has {self.entries} entries of at most {room}, {count} more do not fit",
                path=self.path,
                hint="roll the segment, or give it a larger segment_index_bytes",
            )

    def _require_in_range(self, offset: int) -> None:
        if not self.can_append_offset(offset):
            raise OffsetOverflowError(
                f"offset does not fit the index of the segment at {self.base_offset}",
                path=self.path,
                position=self.entries * self._entry_size,
                field="relative_offset",
                expected=f"0 to {limits.RELATIVE_OFFSET_MAX}",
                found=offset - self.base_offset,
            )

    def _write(self, data: bytes) -> None:
        """Puts whole slots behind the entries; they count once they are written."""
        self._require_writable().write_at(self.entries * self._entry_size, data)
        self.entries += len(data) // self._entry_size

    def _truncate_to_entries(self, entries: int) -> None:
        file = self._require_writable()
        dropped, self.entries = self.entries - entries, entries
        if dropped > 0:  # zeroed, so that what is left of an index that is never trimmed can be told
            file.write_at(entries * self._entry_size, bytes(dropped * self._entry_size))
        self._load_last()

    @abstractmethod
    def _load_last(self) -> None:
        """Sets what is known of the last entry."""

    @abstractmethod
    def truncate_to(self, offset: int) -> None:
        """Drops the entries at `offset` and above."""

    @abstractmethod
    def sanity_check(self) -> None:
        """Raises `CorruptError` where Kafka would on opening."""

    def truncate(self) -> None:
        """Drops all entries; the file keeps its size."""
        self._truncate_to_entries(0)

    def resize(self, size_bytes: int) -> bool:
        """Sets the file's size to whole slots; False if it has it. Entries that no longer fit are dropped."""
        file = self._require_writable()
        rounded = self._rounded(size_bytes)
        if rounded == self.size_bytes:
            return False
        self.entries = min(self.entries, rounded // self._entry_size)
        file.truncate(rounded)
        self._map_again()
        return True

    def _map_again(self) -> None:
        old = self._mapped
        with self._env.open_read(self.path) as file:
            self._map_file(file)
        old.close()
        self._load_last()

    def rewrite(self, data: bytes) -> None:
        """Makes whole slots the file's only content: what recovery derived. Nobody may read meanwhile."""
        file = self._require_writable()
        self.entries = 0
        file.truncate(0)
        file.write_at(0, data)
        self.entries = len(data) // self._entry_size
        self._map_again()

    def release(self) -> None:
        """Gives the descriptor back, for one that is not written any more; a later change opens the file again."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def trim_to_valid_size(self) -> None:
        """Cuts the file to its entries."""
        self.resize(self.entries * self._entry_size)

    def reset(self) -> None:
        """Drops all entries and preallocates anew."""
        self.truncate()
        self.resize(self.max_size_bytes)

    def flush(self) -> None:
        """fsync."""
        self._require_writable().sync()

    def rename(self, path: str) -> None:
        """Gives the file another name; this object goes on with it."""
        self.release()
        self._env.rename(self.path, path)
        self.path = path

    def close(self) -> None:
        """Closes without changing the file: trim it before where its segment is done. What is asked of it later is a
        `UsageError`."""
        self._closed = True
        self._view = memoryview(b"")
        self.entries = 0
        self._mapped.close()
        self.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _require_whole_slots(self) -> None:
        torn = self.size_bytes % self._entry_size
        if torn:
            raise CorruptError(
                "the length is no multiple of the entry size",
                path=self.path,
                position=self.size_bytes - torn,
                field="file size",
                expected=f"a multiple of {self._entry_size}",
                found=self.size_bytes,
                hint="rebuild the index: logdex rebuild",
            )
