"""Writes IndexFiles: adds the keys of windows of messages, and rolls to a new file as the engine
does.

Source: ``docs/formats/index-file.md``; IndexService.buildIndex,
IndexService.retryGetAndCreateIndexFile.
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
"""Disk space is allocated this far ahead of the entries."""
BLOCK_ENTRIES = 50_000
"""The number of entries that are made at once. In memory such a block (1 MB) stays in the
processor's cache: with the slots in memory as well, 20 million entries take 0.4 s, while writing
them into new pages of a mapping took 0.5 s or more."""
_PAGE_SIZE = 4096


class IndexTarget:
    """An IndexFile that is being written: a sparse file of full size. For one writer.

    `array` holds the header and the slots, `block` the next entries. Both are in memory, and
    `write_entries` and `close` write them; or the file is `mapped`, and both are its own bytes, so
    that a reader finds an entry as soon as a slot leads to it. Raises `StorageError` if the disk is
    full, and never causes a signal, because space is allocated before a mapping is written to.
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
        self._env = env
        self._config = config
        self._sync = sync
        self._file = env.open_write(path, exclusive=exclusive)
        try:
            self._entries_at = INDEX_HEADER.size_bytes + INDEX_SLOT.size_bytes * config.max_hash_slot_num
            self._file.truncate(config.index_file_size_bytes)
            self._file.reserve(0, self._entries_at)
            self._reserved = self._entries_at
            self._written_back = self._entries_at
            self._mapped = self._file.map(config.index_file_size_bytes) if mapped else None
        except BaseException:
            self._file.close()
            raise
        block_size_bytes = INDEX_ENTRY.size_bytes * min(BLOCK_ENTRIES, config.max_index_num)
        if self._mapped is None:
            self.array = np.zeros(self._entries_at, np.uint8)
            self.block = np.empty(block_size_bytes, np.uint8)
        else:
            self.array = self._mapped.array[: self._entries_at]
            self.block = self._mapped.array[self._entries_at :][:block_size_bytes]

    @property
    def is_there(self) -> bool:
        """Whether the path still leads to this file."""
        return self._env.identity(self.path) == self._file.identity

    def reserve(self, index_count: int) -> int:
        """Allocates space for entries from `index_count` on, which `block` is for from now on.
        Returns the count (exclusive) up to which there is room, both in the file and in `block`."""
        entry = INDEX_ENTRY.size_bytes
        full = self._config.index_file_size_bytes
        if self._reserved < min(self._entries_at + entry * (index_count + 1), full):
            if self._sync:
                self._write_back(self._entries_at + entry * index_count)
            until = min(self._entries_at + entry * index_count + max(RESERVE_SIZE_BYTES, entry), full)
            self._file.reserve(self._reserved, until - self._reserved)
            self._reserved = until
        if self._mapped is not None:
            self.block = self._mapped.array[self._entries_at + entry * index_count :][: entry * BLOCK_ENTRIES]
        return min((self._reserved - self._entries_at) // entry, index_count + len(self.block) // entry)

    def write_entries(self, first: int, end: int) -> None:
        """Writes the entries `first` to `end` (exclusive), which are at the beginning of `block`,
        unless they are in the file by now."""
        entry = INDEX_ENTRY.size_bytes
        if self._mapped is None:
            self._file.write_at(self._entries_at + entry * first, self.block[: entry * (end - first)])

    def _write_back(self, until: int) -> None:
        """Starts writing the entries before byte `until` to disk. Slots change until the end, so
        they are not written yet."""
        until -= until % _PAGE_SIZE  # an incomplete page would be written twice
        if until > self._written_back:
            self._file.begin_writeback(self._written_back, until - self._written_back)
            self._written_back = until

    def write_header(self, header: IndexHeader) -> None:
        """Puts the header into `array`. A file without entries gets the dialect's count."""
        data = header.pack(self._config.dialect.empty_index_count)
        self.array[: INDEX_HEADER.size_bytes] = np.frombuffer(data, np.uint8)

    def sync(self) -> None:
        """Writes everything so far to disk."""
        self._file.sync()  # fsync also writes the changed pages of the mapping

    def close(self) -> None:
        """Writes what is left and closes the file, after an fsync if `sync` was given."""
        try:
            if self._mapped is None:
                self._file.write_at(0, self.array)
            if self._sync:
                self.sync()
        finally:
            self.abandon()

    def abandon(self) -> None:
        """Closes the file without completing it."""
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
    """Adds entries from `state.place` on until the window ends or the file is full. `plain` uses
    the plain twin instead of the kernel."""
    while True:
        first = int(state.values[5])
        limit = target.reserve(first)
        derive_index(target.array, target.block, config, window, state, limit, skip_known=skip_known, plain=plain)
        target.write_entries(first, int(state.values[5]))
        if state.place[0] >= len(window.physical_offset) or state.values[5] >= config.max_index_num:
            return


class IndexFilesWriter:
    """Writes windows of messages to IndexFiles and rolls to new files as the engine does. For one
    thread.

    `target` returns the file to write, given the store time (ms) of its first entry. A file without
    entries is named by the message that made the engine roll. `previous` is the (end timestamp, end
    physical offset) of the file before the first one. With `max_files`, writing stops where another
    file would be needed. Use the object as a context manager, or call `finish`.
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
        """Headers of the finished files, in order."""
        self._config = config
        self._make_target = target
        self._previous = previous
        self._files_left = max_files
        self._plain = plain
        self._state: IndexState | None = None  # of the current file; None before the first message
        self._target: IndexTarget | None = None  # None while that file has no entry, so no name
        self._rolled_by_ms = 0

    def resume(self, target: IndexTarget, header: IndexHeader) -> None:
        """Goes on with a file that has room, before anything is put."""
        self._target, self._state = target, IndexState(header)

    @property
    def current(self) -> IndexTarget | None:
        """The file that is being written; None while there is none with an entry."""
        return self._target

    def put(self, window: IndexWindow, first_message: int = 0, first_key: int = 0) -> tuple[int, int]:
        """Adds the window's messages from (`first_message`, `first_key`) on. Returns the (message,
        key) where it stopped.

        That is (number of messages, number of keys), or the place where a file beyond `max_files`
        would begin.
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
        """Finishes the current file and begins the next one in memory. Returns False if `max_files`
        is reached."""
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
        """Opens the target at the next message that has an entry. Returns False if the window has
        none."""
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
        """Finishes the current file, if there is one: writes its header and closes it. A file
        without entries is created here."""
        if self._state is None:
            return
        target = self._target if self._target is not None else self._make_target(self._rolled_by_ms)
        header, self._target, self._state = self._state.header, None, None
        self._previous = header.end_timestamp_ms, header.end_phy_offset
        self.headers.append(header)
        target.write_header(header)
        target.close()

    def finish(self) -> tuple[int, int] | None:
        """Finishes the last file. Returns its (end timestamp, end physical offset), or None if
        there was no message."""
        self._end_file()
        return self._previous

    def __enter__(self) -> IndexFilesWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.finish()
        else:
            self.abandon()

    def abandon(self) -> None:
        """Closes the current file without completing it."""
        if self._target is not None:
            self._target.abandon()


def derive_index_files(
    windows: Iterable[IndexWindow], config: StoreConfig, target: Callable[[int], IndexTarget]
) -> list[IndexHeader]:
    """Writes the IndexFiles of a whole log with an `IndexFilesWriter`, given all windows in order.
    Returns the headers.

    `target` opens a file, given the store time (ms) of its first entry.
    """
    with IndexFilesWriter(config, target) as writer:
        for window in windows:
            writer.put(window)
    return writer.headers
