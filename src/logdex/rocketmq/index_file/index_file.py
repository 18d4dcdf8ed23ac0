"""IndexFile: a hash table on disk from the hash of `topic#key` to physical offsets. Reads it, looks
up keys and adds keys.

Source: ``docs/formats/index-file.md``; IndexFile, IndexHeader.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from logdex.errors import GeometryError, TruncatedError, UsageError
from logdex.io.env import DEFAULT_ENV, Env, MappedBytes, ReadFile
from logdex.io.mapped.mapping import require_readable
from logdex.io.open_files import OpenFiles
from logdex.io.path_look import StrPath, path_text
from logdex.layout.rocketmq import INDEX_ENTRY, INDEX_HEADER, INDEX_SLOT
from logdex.primitives.java_hash import index_key_hash
from logdex.primitives.shown import counted, repr_of
from logdex.primitives.text import to_bytes
from logdex.rocketmq.index_file.derive import IndexState, IndexWindow
from logdex.rocketmq.index_file.index_chain import ChainEnd, IndexChain, IndexEntry
from logdex.rocketmq.index_file.index_header import IndexHeader
from logdex.rocketmq.index_file.index_keys import Keys, hash_keys
from logdex.rocketmq.index_file.writer import IndexTarget, put_window
from logdex.rocketmq.settings.store_config import StoreConfig

__all__ = ["ChainEnd", "IndexChain", "IndexEntries", "IndexEntry", "IndexFile", "IndexHeader", "IndexSelection"]

_SLOTS_AT, _SLOT_SIZE, _ENTRY_SIZE = INDEX_HEADER.size_bytes, INDEX_SLOT.size_bytes, INDEX_ENTRY.size_bytes
_unpack_slot, _unpack_entry = INDEX_SLOT.struct.unpack, INDEX_ENTRY.struct.unpack
OWN_DESCRIPTORS_MAX = 64
"""The number of IndexFiles of a store that keep a descriptor each; a store may have thousands."""


class IndexEntries(NamedTuple):
    """Consecutive entries as arrays."""

    key_hash: npt.NDArray[np.int32]
    phy_offset: npt.NDArray[np.int64]
    time_diff_s: npt.NDArray[np.int32]
    previous_index: npt.NDArray[np.int32]


class IndexSelection(NamedTuple):
    """The results of a look-up of many keys: those of row i are `phy_offsets[row_ends[i - 1] :
    row_ends[i]]`, newest entry first.

    `damaged` are the rows whose chain has a link that points forward, which no engine writes.
    """

    phy_offsets: npt.NDArray[np.int64]
    row_ends: npt.NDArray[np.int64]
    damaged: npt.NDArray[np.int64]

    def row(self, number: int) -> list[int]:
        """Returns the offsets of one row."""
        start = int(self.row_ends[number - 1]) if number else 0
        return [int(offset) for offset in self.phy_offsets[start : int(self.row_ends[number])]]


def _clip(time_ms: int) -> int:
    return min(max(time_ms, -(1 << 63)), (1 << 63) - 1)


def _selection(rows: list[list[int]], damaged: list[int]) -> IndexSelection:
    ends = np.cumsum(np.array([len(row) for row in rows], np.int64), dtype=np.int64)
    flat = np.array([offset for row in rows for offset in row], np.int64)
    return IndexSelection(flat, ends, np.array(damaged, np.int64))


class IndexFile:
    """One IndexFile. Opening it reads the header only; by default nothing is ever written.

    The file does not state its geometry: `config` gives `max_hash_slot_num` and `max_index_num`.
    With `writable` the file is created if it is missing, and `put_key` and `put_keys` can be
    called; `previous` is the (end timestamp, end physical offset) of the previous file, for a new
    one. The file keeps a descriptor of its own, unless `open_files` lends one for each read.
    Threads may share the object for reading, as each entry is read by one `pread`. While one thread
    writes, no other may use it. Raises `GeometryError` if the file has another size than its
    geometry requires.
    """

    def __init__(
        self,
        path: StrPath,
        config: StoreConfig,
        *,
        env: Env = DEFAULT_ENV,
        writable: bool = False,
        previous: tuple[int, int] = (0, 0),
        open_files: OpenFiles | None = None,
    ) -> None:
        self.path = path = path_text(path)
        self.config = config
        self.max_hash_slot_num = config.max_hash_slot_num
        self.max_index_num = config.max_index_num
        self._env = env
        self._entries_at = _SLOTS_AT + _SLOT_SIZE * config.max_hash_slot_num
        self._target: IndexTarget | None = None
        self._closed = False
        self._mapped: MappedBytes | None = None
        fresh = writable and not env.exists(path)
        if fresh:
            self._target = IndexTarget(path, config, env=env, mapped=True)
        self._open_files = open_files
        if open_files is None:
            self._file = env.open_read(path)
        self._read_at = self._file.read_at if open_files is None else partial(open_files.read_at, path)
        try:
            with self._lend() as file:
                self._check_size(file.size_bytes)
                self.header = IndexHeader.unpack(file.read_at(0, INDEX_HEADER.size_bytes), path=path)
            if writable and not fresh:
                self._target = IndexTarget(path, config, env=env, exclusive=False, mapped=True)
        except BaseException:
            self.close()
            raise
        if fresh:
            end_ms, end_phy = max(previous[0], 0), max(previous[1], 0)
            self.header = IndexHeader(end_ms, end_ms, end_phy, end_phy)

    def __repr__(self) -> str:
        return repr_of(
            self, repr(self.path), counted(self.header.entry_count, "entry", "entries"), is_closed=self._closed
        )

    def _lend(self) -> AbstractContextManager[ReadFile]:
        return nullcontext(self._file) if self._open_files is None else self._open_files.lend(self.path)

    def _check_size(self, size: int) -> None:
        expected = self.config.index_file_size_bytes
        if size != expected:
            raise GeometryError(
                f"{size} bytes; {self.max_hash_slot_num} hash slots and {self.max_index_num} entries take {expected}",
                path=self.path,
                hint="state the broker's max_hash_slot_num and max_index_num (--max-hash-slot-num, --max-index-num)",
            )

    # -- reading ----------------------------------------------------------------------------------
    def reload(self) -> None:
        """Reads the header again, for a file opened for reading to which a broker may have added
        entries."""
        if self._target is None:
            with self._lend() as file:
                self.header = IndexHeader.unpack(file.read_at(0, INDEX_HEADER.size_bytes), path=self.path)

    @property
    def is_write_full(self) -> bool:
        """Whether the file has no room for another entry."""
        return self.header.index_count >= self.max_index_num

    def is_time_matched(self, begin_ms: int, end_ms: int) -> bool:
        """Whether the engine searches this file for the times from `begin_ms` to `end_ms`."""
        first, last = self.header.begin_timestamp_ms, self.header.end_timestamp_ms
        return (begin_ms < first and end_ms > last) or first <= begin_ms <= last or first <= end_ms <= last

    def slot_position(self, slot: int) -> int:
        """Returns the byte position of a slot in the file."""
        return _SLOTS_AT + _SLOT_SIZE * slot

    def entry_position(self, index: int) -> int:
        """Returns the byte position of an entry in the file."""
        return self._entries_at + _ENTRY_SIZE * index

    def _read(self, position: int, size_bytes: int, field: str) -> bytes:
        data = self._read_at(position, size_bytes)
        if len(data) < size_bytes:
            raise TruncatedError(
                "the file ends here",
                path=self.path,
                position=position,
                field=field,
                expected=f"{size_bytes} bytes",
                found=len(data),
            )
        return data

    def read_slot(self, slot: int) -> int:
        """Returns the number of a slot's newest entry as it is on disk; 0 for an empty slot."""
        index: int = _unpack_slot(self._read(_SLOTS_AT + _SLOT_SIZE * slot, _SLOT_SIZE, "slot"))[0]
        return index

    def read_entry(self, index: int) -> IndexEntry:
        """Returns one entry; `index` is from 0 to `max_index_num - 1`."""
        return IndexEntry(*_unpack_entry(self._read(self._entries_at + _ENTRY_SIZE * index, _ENTRY_SIZE, "entry")))

    def read_entries(self, start: int, end: int) -> bytes:
        """Returns the bytes of entries `start` to before `end`."""
        return self._read(self.entry_position(start), _ENTRY_SIZE * (end - start), "entry")

    def slots(self, start: int = 0, count: int | None = None) -> npt.NDArray[np.int32]:
        """Returns `count` slots from `start` on (by default all) as an array."""
        count = max(min(count if count is not None else self.max_hash_slot_num, self.max_hash_slot_num - start), 0)
        data = self._read(self.slot_position(start), _SLOT_SIZE * count, "slot")
        return np.frombuffer(data, ">i4").astype(np.int32)

    def entries(self, start: int = 1, count: int | None = None) -> IndexEntries:
        """Returns `count` entries from `start` on (by default all that the header counts) as
        arrays."""
        end = min(self.header.index_count, self.max_index_num)
        end = end if count is None else min(start + count, end)
        rows = np.frombuffer(self.read_entries(start, max(start, end)), INDEX_ENTRY.dtype)
        return IndexEntries(
            rows["key_hash"].astype(np.int32),
            rows["phy_offset"].astype(np.int64),
            rows["time_diff_s"].astype(np.int32),
            rows["previous_index"].astype(np.int32),
        )

    def chain(self, key_hash: int) -> IndexChain:
        """Returns the chain of the slot of `key_hash`, as an iterable."""
        return IndexChain(self, key_hash % self.max_hash_slot_num)

    def select_phy_offset(
        self, key: bytes | str | int, max_num: int | None = None, begin_ms: int = 0, end_ms: int = (1 << 63) - 1
    ) -> list[int]:
        """Returns the physical offsets of a key's entries, newest first, as the engine's
        selectPhyOffset does.

        `key` is `topic#key` or its index hash. Hashes are compared, and times in whole seconds
        since the file's begin timestamp; the search ends at the first entry before `begin_ms`.
        There is no limit if `max_num` is None. If links form a cycle, each entry counts once.
        """
        key_hash = key if isinstance(key, int) else index_key_hash(to_bytes(key))
        return self._select(key_hash, (1 << 62) if max_num is None else max_num, begin_ms, end_ms)[0]

    def _select(self, key_hash: int, room: int, begin_ms: int, end_ms: int) -> tuple[list[int], bool]:
        """Returns the offsets of `select_phy_offset`, and whether the chain has a link that points
        forward."""
        found: list[int] = []
        if room <= 0:
            return found, False
        chain = self.chain(key_hash)
        for _, entry in chain:
            if entry.time_diff_s < 0:
                break
            read_ms = self.entry_time_ms(entry)
            if entry.key_hash == key_hash and begin_ms <= read_ms <= end_ms:
                found.append(entry.phy_offset)
            if read_ms < begin_ms or len(found) >= room:
                break
        return found, chain.went_forward

    def select_many(
        self,
        keys: Keys,
        max_num: int | npt.NDArray[np.int64] | None = None,
        begin_ms: int = 0,
        end_ms: int = (1 << 63) - 1,
        *,
        plain: bool = False,
    ) -> IndexSelection:
        """Like `select_phy_offset`, for many keys at once over the mapped file. `max_num` is one
        limit for all rows or one per row.

        `plain` uses the plain twin instead of the kernel. Raises `UsageError` if a hash is
        negative.
        """
        hashes = hash_keys(keys, plain=plain)
        if len(hashes) and int(hashes.min()) < 0:
            raise UsageError("index hashes are 0 to 2^31 - 1")
        room = np.empty(len(hashes), np.int64)
        room[:] = (1 << 62) if max_num is None else max_num
        if plain:
            answers = [self._select(int(hashes[i]), int(room[i]), begin_ms, end_ms) for i in range(len(hashes))]
            return _selection([row for row, _ in answers], [i for i, (_, damaged) in enumerate(answers) if damaged])
        selection = self._select_mapped(hashes, room, _clip(begin_ms), _clip(end_ms))
        if not len(selection.damaged):
            return selection
        rows = [selection.row(i) for i in range(len(hashes))]
        for i in selection.damaged:
            rows[i] = self.select_phy_offset(int(hashes[i]), int(room[i]), begin_ms, end_ms)
        return _selection(rows, selection.damaged.tolist())

    def _select_mapped(
        self, hashes: npt.NDArray[np.int32], room: npt.NDArray[np.int64], begin_ms: int, end_ms: int
    ) -> IndexSelection:
        from logdex.kernels.rocketmq.index_select import WALKS, index_select

        row_end, wild = np.zeros(len(hashes), np.int64), np.zeros(len(hashes), np.bool_)
        found_row, found_offset = np.empty(16 * WALKS, np.int64), np.empty(16 * WALKS, np.int64)
        out = np.empty(max(2 * len(hashes), 16 * WALKS), np.int64)
        done = filled = 0
        mapped = self._map()
        while done < len(hashes):
            before = done
            done, filled = index_select(
                mapped.ctypes.data,
                self.max_hash_slot_num,
                self.max_index_num,
                self.header.index_count,
                self.header.begin_timestamp_ms,
                begin_ms,
                end_ms,
                hashes,
                room,
                done,
                filled,
                found_row,
                found_offset,
                out,
                row_end,
                wild,
            )
            if done < len(hashes):
                out = np.tile(out, 2)
                if done == before:
                    found_row, found_offset = np.tile(found_row, 2), np.tile(found_offset, 2)
        require_readable(mapped)
        return IndexSelection(out[:filled], row_end, np.flatnonzero(wild))

    def _map(self) -> npt.NDArray[np.uint8]:
        """Returns the whole file, mapped. The mapping is made at the first look-up of many keys and
        kept, because page faults cost more than the look-ups."""
        if self._mapped is None:
            with self._lend() as file:
                mapped = file.map()
            self._check_size(len(mapped.array))  # it may have been truncated meanwhile
            self._mapped = mapped
        return self._mapped.array

    def entry_time_ms(self, entry: IndexEntry) -> int:
        """Returns an entry's time (ms) as the engine computes it: whole seconds since the file's
        begin timestamp, which wrap as a Java long does."""
        time_ms = self.header.begin_timestamp_ms + entry.time_diff_s * 1000
        return (time_ms + (1 << 63)) % (1 << 64) - (1 << 63)

    # -- writing ----------------------------------------------------------------------------------
    def put_key(self, key: bytes | str | int, phy_offset: int, store_timestamp_ms: int) -> bool:
        """Adds an entry for `topic#key` (or its index hash). Returns False if the file is full."""
        key_hash = key if isinstance(key, int) else index_key_hash(to_bytes(key))
        one = np.array([key_hash], np.int32)
        return self._put(one, np.array([phy_offset], np.int64), np.array([store_timestamp_ms], np.int64), True) == 1

    def put_keys(
        self, keys: Keys, phy_offsets: npt.NDArray[np.int64], store_timestamps_ms: npt.NDArray[np.int64]
    ) -> int:
        """Adds one entry per key, in order, until the file is full. Returns the number of entries
        added."""
        hashes = hash_keys(keys)
        offsets = np.ascontiguousarray(phy_offsets, np.int64)
        times = np.ascontiguousarray(store_timestamps_ms, np.int64)
        if not len(hashes) == len(offsets) == len(times):
            raise UsageError(f"{len(hashes)} keys, {len(offsets)} offsets and {len(times)} times: one of each a key")
        if len(hashes) and int(hashes.min()) < 0:
            raise UsageError("index hashes are 0 to 2^31 - 1")
        return self._put(hashes, offsets, times, False)

    def _put(
        self, hashes: npt.NDArray[np.int32], offsets: npt.NDArray[np.int64], times: npt.NDArray[np.int64], plain: bool
    ) -> int:
        if self._target is None:
            raise UsageError(f"{self.path}: opened for reading", hint="open it with writable=True")
        state = IndexState(self.header)
        if self.is_write_full:
            return 0
        window = IndexWindow(offsets, times, np.arange(1, len(hashes) + 1, dtype=np.int32), hashes)
        put_window(self._target, self.config, window, state, skip_known=False, plain=plain)
        self.header = state.header
        self._target.write_header(self.header)
        return state.place[1]

    def close(self) -> None:
        """Closes the file. Writes the header of a writable one first, as the engine does at
        shutdown."""
        self._closed = True
        if self._target is not None:
            if hasattr(self, "header"):
                self._target.write_header(self.header)
            self._target.close()
            self._target = None
        if self._mapped is not None:
            self._mapped.close()
            self._mapped = None
        if self._open_files is not None:
            self._open_files.forget(self.path)
        elif hasattr(self, "_file"):
            self._file.close()

    def __enter__(self) -> IndexFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
