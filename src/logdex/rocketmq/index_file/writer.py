"""Writes IndexFiles: puts the keys of windows of messages into them, and rolls from file to file as the engine does.

Source: ``docs/formats/index-file.md``; IndexService.buildIndex, IndexService.retryGetAndCreateIndexFile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import TracebackType

import numpy as np

from logdex.io.env import DEFAULT_ENV, Env
from logdex.layout.rocketmq import INDEX_ENTRY, INDEX_HEADER, INDEX_SLOT
from logdex.rocketmq.index_file.derive import IndexState, IndexWindow, derive_index
from logdex.rocketmq.index_file.index_header import IndexHeader
from logdex.rocketmq.settings.store_config import StoreConfig

RESERVE_SIZE_BYTES = 16 << 20
"""Disk space is claimed this far ahead of the entries."""
BLOCK_ENTRIES = 50_000
"""Entries that are made in memory before they are written: a block (1 MB) stays in the processor's cache. With slots in
memory as well, 20 million entries take 0.4 s; stored into the fresh pages of a map they took 0.5 s and more."""
_PAGE_SIZE = 4096


class IndexTarget:
    """One IndexFile being written, a sparse file of full size. One writer.

    `array` is its header and slots: `mapped`, or made in memory and written at the end; `block` the entries that come
    next, which `write_entries` writes. Raises `StorageError` where the disk is full, never a signal: space is claimed
    before a map is written to.
    """

    def __init__(
        self,
        path: str,
        config: StoreConfig,
        *,
        env: Env = DEFAULT_ENV,
        sync: bool = False,
        exclusive: bool = True,
        mapped: bool = False,
    ) -> None:
        self.path = path
        self._config = config
        self._sync = sync
        self._file = env.open_write(path, exclusive=exclusive)
        try:
            self._entries_at = INDEX_HEADER.size_bytes + INDEX_SLOT.size_bytes * config.max_hash_slot_num
            self._file.truncate(config.index_file_size_bytes)
            self._file.reserve(0, self._entries_at)
            self._reserved = self._entries_at
            self._written_back = self._entries_at
            self._mapped = self._file.map(self._entries_at) if mapped else None
        except BaseException:
            self._file.close()
            raise
        self.array = np.zeros(self._entries_at, np.uint8) if self._mapped is None else self._mapped.array
        self.block = np.empty(INDEX_ENTRY.size_bytes * min(BLOCK_ENTRIES, config.max_index_num), np.uint8)

    def reserve(self, index_count: int) -> int:
        """Claims space for entries from `index_count` on; gives the count up to which there is room, in the file and
        in `block` (exclusive)."""
        entry = INDEX_ENTRY.size_bytes
        full = self._config.index_file_size_bytes
        if self._reserved < min(self._entries_at + entry * (index_count + 1), full):
            if self._sync:
                self._write_back(self._entries_at + entry * index_count)
            until = min(self._entries_at + entry * index_count + max(RESERVE_SIZE_BYTES, entry), full)
            self._file.reserve(self._reserved, until - self._reserved)
            self._reserved = until
        return min((self._reserved - self._entries_at) // entry, index_count + len(self.block) // entry)

    def write_entries(self, first: int, end: int) -> None:
        """Writes entries `first` to `end` (exclusive), with which `block` begins."""
        entry = INDEX_ENTRY.size_bytes
        self._file.write_at(self._entries_at + entry * first, self.block[: entry * (end - first)])

    def _write_back(self, until: int) -> None:
        """Has the disk begin with the entries before byte `until`; slots are written to until the end."""
        until -= until % _PAGE_SIZE  # a page that is not full would be written twice
        if until > self._written_back:
            self._file.begin_writeback(self._written_back, until - self._written_back)
            self._written_back = until

    def write_header(self, header: IndexHeader) -> None:
        """Puts the header in place; a file without entries gets the dialect's count."""
        data = header.pack(self._config.dialect.empty_index_count)
        self.array[: INDEX_HEADER.size_bytes] = np.frombuffer(data, np.uint8)

    def close(self) -> None:
        """Ends the file and closes it, after an fsync where the target was opened with `sync`."""
        try:
            if self._mapped is None:
                self._file.write_at(0, self.array)
            if self._sync:
                self._file.sync()  # which writes through what was changed in the mapping as well
        finally:
            self.abandon()

    def abandon(self) -> None:
        """Closes the file as it is."""
        self.array = self.block = np.empty(0, np.uint8)
        if self._mapped is not None:
            self._mapped.close()
        self._file.close()


def put_window(
    target: IndexTarget,
    config: StoreConfig,
    window: IndexWindow,
    state: IndexState,
    *,
    skip_known: bool = True,
    plain: bool = False,
) -> None:
    """Puts from `state.place` on until the window ends or the file is full; `plain` takes the twin, not the kernel."""
    while True:
        first = int(state.values[5])
        limit = target.reserve(first)
        derive_index(target.array, target.block, config, window, state, limit, skip_known=skip_known, plain=plain)
        target.write_entries(first, int(state.values[5]))
        if state.place[0] >= len(window.physical_offset) or state.values[5] >= config.max_index_num:
            return


class IndexFilesWriter:
    """Turns windows of messages into IndexFiles, rolling them as the engine does. One thread.

    `target` gives the file to write for a first entry's store time (ms); a file that gets no entry is named by the
    message that made the engine roll. `previous` is (end timestamp, end physical offset) of the file before the first.
    With `max_files` it stops where one more file would be needed. Use it as a context manager, or call `finish`.
    """

    def __init__(
        self,
        config: StoreConfig,
        target: Callable[[int], IndexTarget],
        *,
        previous: tuple[int, int] | None = None,
        max_files: int | None = None,
        plain: bool = False,
    ) -> None:
        self.headers: list[IndexHeader] = []
        """Headers of the files that are done, in order."""
        self._config = config
        self._make_target = target
        self._previous = previous
        self._files_left = max_files
        self._plain = plain
        self._state: IndexState | None = None  # of the last file; None before the first message
        self._target: IndexTarget | None = None  # None while that file has no entry: its name is not known yet
        self._rolled_by_ms = 0

    def put(self, window: IndexWindow, first_message: int = 0, first_key: int = 0) -> tuple[int, int]:
        """Takes the window's messages from (`first_message`, `first_key`) on; gives the place where it stopped.

        That is (n, m), or where a file beyond `max_files` would begin.
        """
        place = (first_message, first_key)
        size = len(window.physical_offset)
        while place[0] < size:
            if (self._state is None or self._is_full) and not self._roll(int(window.store_timestamp_ms[place[0]])):
                return place
            state = self._state
            assert state is not None
            state.place = place
            if self._target is None and not self._open_at_first_entry(window, state):
                return size, len(window.key_hash)
            assert self._target is not None
            put_window(self._target, self._config, window, state, plain=self._plain)
            place = state.place
        if self._target is not None and self._state is not None:
            self._target.write_header(self._state.header)
        return place

    @property
    def _is_full(self) -> bool:
        return self._state is not None and int(self._state.values[5]) >= self._config.max_index_num

    def _roll(self, rolled_by_ms: int) -> bool:
        """Begins a file in memory, after ending the one before; False where no more may be begun."""
        if self._files_left == 0:
            return False
        if self._files_left is not None:
            self._files_left -= 1
        self._end_file()
        end_ms, end_phy = self._previous or (0, 0)
        self._state = IndexState(IndexHeader(max(end_ms, 0), max(end_ms, 0), max(end_phy, 0), max(end_phy, 0)))
        self._rolled_by_ms = rolled_by_ms
        return True

    def _open_at_first_entry(self, window: IndexWindow, state: IndexState) -> bool:
        """Opens the target at the next message that has an entry; False where the window has none."""
        message, key = state.place
        end_phy = int(state.values[3])
        while True:
            message += int(np.searchsorted(window.key_end[message:], key, side="right"))
            if message >= len(window.physical_offset):
                return False
            if window.physical_offset[message] >= end_phy:
                break
            key = int(window.key_end[message])
        state.place = message, key
        self._target = self._make_target(int(window.store_timestamp_ms[message]))
        return True

    def _end_file(self) -> None:
        """Ends the last file, if there is one: header, close; an entryless one is made here."""
        if self._state is None:
            return
        target = self._target if self._target is not None else self._make_target(self._rolled_by_ms)
        header, self._target, self._state = self._state.header, None, None
        self._previous = header.end_timestamp_ms, header.end_phy_offset
        self.headers.append(header)
        target.write_header(header)
        target.close()

    def finish(self) -> tuple[int, int] | None:
        """Ends the last file; gives its (end timestamp, end physical offset), None where there was no message."""
        self._end_file()
        return self._previous

    def __enter__(self) -> IndexFilesWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.finish()
        elif self._target is not None:
            self._target.abandon()


def derive_index_files(
    windows: Iterable[IndexWindow], config: StoreConfig, target: Callable[[int], IndexTarget]
) -> list[IndexHeader]:
    """Writes the IndexFiles of a whole log, given window after window in order; gives their headers.

    `target` opens the file for a first entry's store time (ms). What `IndexFilesWriter` does step by step.
    """
    with IndexFilesWriter(config, target) as writer:
        for window in windows:
            writer.put(window)
    return writer.headers
