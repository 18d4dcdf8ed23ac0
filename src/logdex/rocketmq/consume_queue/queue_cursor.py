"""One queue's entries in the order of the log: those of the messages that begin in a part of it.

A `ConsumeQueue` answers by queue offset; this one by physical offset. It takes nothing on trust: a
queue whose entries do not rise gives no more of them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from logdex.errors import StorageError
from logdex.io.env import Env
from logdex.io.open_files import OpenFiles
from logdex.rocketmq.consume_queue.consume_queue import ENTRY_SIZE_BYTES, STORED_DTYPE, discover_queues
from logdex.rocketmq.files.offset_files import OffsetFile, list_offset_files

Int64s = npt.NDArray[np.int64]

BLOCK_ENTRIES_MIN, BLOCK_ENTRIES_MAX = 1 << 9, 1 << 12
"""A queue's entries are read in blocks of so many; of fewer where there are many queues."""
CACHED_ENTRIES = 1 << 20
"""Entries in the blocks of all cursors of a store together: 38 MB."""
SEARCH_BYTES_MIN = 64 << 20
"""Entries of a part that lies less far ahead in the log are read on to; of one farther ahead they
are searched for."""


@dataclass(frozen=True, slots=True)
class EntryRun:
    """Entries of one queue: what they point to (`offsets`, which do not fall, and `sizes`), their
    queue offsets, from `first` on or as `places` says, and `stored`, the entries as they are."""

    offsets: Int64s
    sizes: Int64s
    stored: npt.NDArray[np.void]
    first: int
    places: Int64s | None = None

    def __len__(self) -> int:
        return len(self.offsets)

    @property
    def queue_offsets(self) -> Int64s:
        """The queue offset of each entry."""
        return np.arange(self.first, self.first + len(self)) if self.places is None else self.places

    @property
    def tags_codes(self) -> Int64s:
        """The tagsCode of each entry."""
        return self.stored["tags_code"].astype(np.int64)

    def slice(self, start: int, stop: int) -> EntryRun:
        """The entries at places [start, stop)."""
        places = None if self.places is None else self.places[start:stop]
        part = slice(start, stop)
        return EntryRun(self.offsets[part], self.sizes[part], self.stored[part], self.first + start, places)

    def where(self, rows: npt.NDArray[np.bool_] | Int64s) -> EntryRun:
        """The entries at some places."""
        return EntryRun(self.offsets[rows], self.sizes[rows], self.stored[rows], 0, self.queue_offsets[rows])


_NOTHING = EntryRun(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, STORED_DTYPE), 0)


class QueueCursor:
    """One queue's entries. It keeps the block that it read last, so that asking in the order of the
    log reads each entry once. One thread at a time."""

    def __init__(
        self, topic: bytes, queue_id: int, files: tuple[OffsetFile, ...], open_files: OpenFiles, block_entries: int
    ) -> None:
        self.topic = topic
        self.queue_id = queue_id
        self._files = [file for file in files if file.size_bytes >= ENTRY_SIZE_BYTES]
        self._open = open_files
        self._block_entries = block_entries
        self._go_to(0, 0)
        self._behind = -1
        """Where the last answer ended in the log."""

    def _go_to(self, place: int, at: int) -> None:
        """The next block begins at entry `at` of a file."""
        self._place, self._at = place, at
        self._block = _NOTHING
        self._last = -1
        self._is_broken = False

    @property
    def size_bytes(self) -> int:
        """The length of its files, written or not."""
        return sum(file.size_bytes for file in self._files)

    def take(self, begin: int, end: int) -> list[EntryRun]:
        """The entries of messages that begin at physical offsets [begin, end), in order."""
        try:
            return self._take(begin, end)
        except StorageError:  # It vanished, or cannot be read: then it says nothing.
            self._is_broken = True
            return []

    def _take(self, begin: int, end: int) -> list[EntryRun]:
        is_next = self._behind <= begin <= self._behind + SEARCH_BYTES_MIN
        if not is_next and (self._behind >= 0 or self._begins_before(begin)):
            self._search(begin)
        self._behind = end
        runs = []
        while not self._is_broken:
            block = self._block
            if len(block):
                start, stop = np.searchsorted(block.offsets, (begin, end)).tolist()
                if stop > start:
                    runs.append(block.slice(start, stop))
                if stop < len(block):
                    self._block = block.slice(stop, len(block))
                    break
            if not self._read_block():
                break
        return runs

    def _read_block(self) -> bool:
        """Reads the next block that has entries; False at the end of the queue, and where entries
        do not rise."""
        self._block = _NOTHING
        while self._place < len(self._files):
            file, at = self._files[self._place], self._at
            stored = self._entries(file, at, self._block_entries)
            count = written_entries(stored)
            self._at += len(stored)
            if count < len(stored) or len(stored) < self._block_entries:  # The file was written, or goes, up to here.
                self._place, self._at = self._place + 1, 0
            if count:
                offsets = stored["physical_offset"][:count].astype(np.int64)
                self._is_broken = bool(offsets[0] < self._last or (offsets[1:] < offsets[:-1]).any())
                self._last = int(offsets[-1])
                if not self._is_broken:
                    sizes = stored["size"][:count].astype(np.int64)
                    self._block = EntryRun(offsets, sizes, stored[:count], file.start_offset // ENTRY_SIZE_BYTES + at)
                return not self._is_broken
        return False

    def _entries(self, file: OffsetFile, at: int, count: int) -> npt.NDArray[np.void]:
        """Up to `count` entries of a file from its entry `at` on."""
        count = min(count, file.size_bytes // ENTRY_SIZE_BYTES - at)
        data = self._open.read_at(file.path, at * ENTRY_SIZE_BYTES, count * ENTRY_SIZE_BYTES)
        return np.frombuffer(data[: len(data) // ENTRY_SIZE_BYTES * ENTRY_SIZE_BYTES], STORED_DTYPE)

    # -- searching --------------------------------------------------------------------------------
    def _begins_before(self, offset: int) -> bool:
        """Whether a search for an offset can find anything but the queue's start."""
        return bool(self._files) and self._is_before(self._files[0], 0, offset)

    def _is_before(self, file: OffsetFile, at: int, offset: int) -> bool:
        """Whether an entry is written and points before an offset."""
        entry = self._entries(file, at, 1)
        return len(entry) > 0 and bool(entry["size"][0] > 0) and bool(entry["physical_offset"][0] < offset)

    def _search(self, offset: int) -> None:
        """Goes to a place not far before the first entry that points to an offset or behind it. The
        entries rise."""
        low, high = 0, len(self._files)
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self._is_before(self._files[middle], 0, offset) else (low, middle)
        first = 0
        if self._files:
            file = self._files[low]
            behind = file.size_bytes // ENTRY_SIZE_BYTES
            while behind - first > BLOCK_ENTRIES_MIN // 2:
                middle = (first + behind) // 2
                first, behind = (middle, behind) if self._is_before(file, middle, offset) else (first, middle)
        self._go_to(low, first)


def written_entries(stored: npt.NDArray[np.void]) -> int:
    """How many entries come before the first that was never written."""
    sizes = stored["size"]
    if not len(sizes) or sizes[-1]:
        return len(sizes)
    return int(np.argmax(sizes == 0))


def open_cursors(root: str, env: Env, open_files: OpenFiles) -> list[QueueCursor]:
    """A cursor of every queue of the store at `root` that has a ConsumeQueue which can be
    listed."""
    found = []
    try:
        for topic, queue_id, directory in discover_queues(root, env=env):
            found.append((topic, queue_id, tuple(list_offset_files(env, directory).files)))
    except StorageError:
        pass  # Queues that are not named here vouch for nothing: their messages are found by a scan.
    block = min(max(CACHED_ENTRIES // max(len(found), 1), BLOCK_ENTRIES_MIN), BLOCK_ENTRIES_MAX)
    return [QueueCursor(*queue, open_files, block) for queue in found]
