"""The ConsumeQueue: one 20-byte entry per message of a topic's queue, at byte queue offset * 20.

Source: ``docs/formats/consume-queue.md``; ConsumeQueue.
"""

from __future__ import annotations

import os
import posixpath
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from logdex.errors import MissingFileError, TruncatedError, VanishedError
from logdex.io.env import DEFAULT_ENV, Env
from logdex.io.open_files import OpenFiles
from logdex.io.path_look import StrPath, path_text
from logdex.layout.rocketmq import CONSUME_QUEUE_ENTRY, PRE_BLANK_SIZE
from logdex.primitives.shown import counted, repr_of
from logdex.rocketmq.files.offset_files import OffsetFile, infer_file_size, list_offset_files, offset_in_name
from logdex.rocketmq.files.store_files import CONSUME_QUEUE_DIR
from logdex.rocketmq.settings.store_config import StoreConfig

ENTRY_SIZE_BYTES = CONSUME_QUEUE_ENTRY.size_bytes
ENTRY_DTYPE = np.dtype([("physical_offset", "<i8"), ("size", "<i4"), ("tags_code", "<i8")])
STORED_DTYPE = ENTRY_DTYPE.newbyteorder(">")
EntryArray = npt.NDArray[np.void]
"""Many entries: a structured array of `ENTRY_DTYPE`, in native byte order."""

EXT_ADDRESS_MAX = -(1 << 31) - 1
"""A tagsCode up to this value is an address in the queue's ConsumeQueueExt, not a hash."""

LOOKS_MAX = 10
"""How often a reader looks again at a queue that a broker keeps changing."""
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ConsumeQueueEntry:
    """One entry: the physical offset of the message in the CommitLog (bytes), its size, and the
    hash of its tag."""

    physical_offset: int
    size_bytes: int
    tags_code: int

    @property
    def is_written(self) -> bool:
        """Whether the engine counts the entry as written; this includes pre-blank entries."""
        return self.physical_offset >= 0 and self.size_bytes > 0

    @property
    def is_pre_blank(self) -> bool:
        """Whether the entry only fills a position before a queue's first message."""
        return self.size_bytes == PRE_BLANK_SIZE and self.physical_offset == 0 and self.tags_code == 0

    @property
    def is_message(self) -> bool:
        """Whether the entry points to a message."""
        return self.is_written and not self.is_pre_blank

    @property
    def is_ext_address(self) -> bool:
        """Whether `tags_code` is an address in ConsumeQueueExt, which Logdex recognises and does
        not read."""
        return self.tags_code <= EXT_ADDRESS_MAX


class ConsumeQueue:
    """The files of one queue. Read-only, and safe to share between threads.

    The files are listed when the object is created and by `refresh`. `directory` may also be one of
    the files, which is then the whole queue. `file_size_bytes` is mappedFileSizeConsumeQueue as the
    broker rounds it; None infers it from the files. Many queues can share `open_files`, so that
    they do not use up the process's descriptors. A queue without files has no entries. Raises
    `MissingFileError` if the directory is missing, and `UnusableFileError` if something else has
    the name of one of its files.
    """

    def __init__(
        self,
        directory: StrPath,
        topic: bytes,
        queue_id: int,
        *,
        file_size_bytes: int | None = None,
        env: Env = DEFAULT_ENV,
        open_files: OpenFiles | None = None,
    ) -> None:
        self.directory = path_text(directory)
        self.topic = topic
        self.queue_id = queue_id
        self.foreign: tuple[str, ...] = ()
        self.files: tuple[OffsetFile, ...] = ()
        self.max_offset = 0
        self._env = env
        self._given_file_size = file_size_bytes
        self._open = open_files if open_files is not None else OpenFiles(env, 4)
        try:
            self.refresh()
        except BaseException:
            self.close()
            raise

    def __repr__(self) -> str:
        return repr_of(
            self,
            repr(self.directory),
            counted(len(self.files), "file"),
            f"offsets {self.start_offset} to {self.max_offset}",
        )

    def refresh(self) -> None:
        """Lists the directory again and searches for the end again, for a queue that a broker is
        still writing. Does so once more where the queue was cut, or files went away, meanwhile."""
        for _ in range(LOOKS_MAX):
            with suppress(VanishedError):
                self._look()
                if self._is_end_still():
                    return
        self._look()

    def _look(self) -> None:
        self._open.close()  # a recovering broker creates new files under the same names
        self.files, self.foreign = self._list()
        inferred = infer_file_size(self.files, unit_bytes=ENTRY_SIZE_BYTES)
        self.file_size_bytes = self._given_file_size or inferred or StoreConfig().consume_queue_file_size_bytes
        self.max_offset = self._find_end()

    def steadily(self, act: Callable[[], T]) -> T:
        """Returns the result of `act`, which reads the queue. Where a broker has removed files
        since they were listed, they are listed again, and `act` is called once more."""
        for _ in range(LOOKS_MAX):
            try:
                return act()
            except VanishedError:
                self.refresh()
        return act()

    def _list(self) -> tuple[tuple[OffsetFile, ...], tuple[str, ...]]:
        if self._env.is_dir(self.directory):
            found = list_offset_files(self._env, self.directory)
            for error in found.unusable:
                raise error
            return tuple(found.files), tuple(map(posixpath.basename, found.foreign))
        start = offset_in_name(posixpath.basename(self.directory))
        if start is None or not self._env.is_file(self.directory):
            raise MissingFileError("no such queue directory", path=self.directory)
        return (OffsetFile(self.directory, start, self._env.size_bytes(self.directory)),), ()

    @property
    def wrong_sizes(self) -> tuple[OffsetFile, ...]:
        """The files that are not `file_size_bytes` long."""
        return tuple(file for file in self.files if file.size_bytes != self.file_size_bytes)

    @property
    def cut_files(self) -> tuple[OffsetFile, ...]:
        """The files that are shorter than `file_size_bytes` and end before the next one begins."""
        return tuple(
            file
            for file, following in pairwise(self.files)
            if file.size_bytes < self.file_size_bytes and file.end_offset < following.start_offset
        )

    @property
    def start_offset(self) -> int:
        """The queue offset of the first position in the first file, which may hold no message (see
        `min_offset`)."""
        return self.files[0].start_offset // ENTRY_SIZE_BYTES if self.files else 0

    def gaps(self) -> list[tuple[int, int]]:
        """Returns (expected, found) byte offsets per file that does not begin where the previous
        one ends."""
        pairs = zip(self.files, self.files[1:], strict=False)
        wanted = ((before.start_offset + self.file_size_bytes, after.start_offset) for before, after in pairs)
        return [(want, found) for want, found in wanted if want != found]

    def place_of(self, queue_offset: int) -> tuple[OffsetFile, int]:
        """Returns the file that holds the entry of a queue offset, and the entry's byte in it.
        Raises `MissingFileError` if no file holds it."""
        at = queue_offset * ENTRY_SIZE_BYTES
        for file in reversed(self.files):
            if file.start_offset <= at:
                if at + ENTRY_SIZE_BYTES <= file.end_offset:
                    return file, at - file.start_offset
                break
        raise MissingFileError(
            f"no file holds the queue offset {queue_offset}",
            path=self.directory,
            hint=f"the queue goes from {self.start_offset} to {self.max_offset}",
        )

    def cut_file_at(self, queue_offset: int) -> OffsetFile | None:
        """Returns the file that has or had the entry of a queue offset, if it is cut short."""
        at = queue_offset * ENTRY_SIZE_BYTES
        held = (file for file in self.cut_files if file.start_offset <= at < file.start_offset + self.file_size_bytes)
        return next(held, None)

    def entry(self, queue_offset: int) -> ConsumeQueueEntry:
        """Returns the entry at a queue offset, written or not. Raises `MissingFileError` if no file
        holds it."""
        file, position = self.place_of(queue_offset)
        return ConsumeQueueEntry(*CONSUME_QUEUE_ENTRY.struct.unpack(self._read(file, position, ENTRY_SIZE_BYTES)))

    def entries(self, start: int, count: int) -> EntryArray:
        """Returns up to `count` entries from queue offset `start` on, at most up to `max_offset`.
        Raises `MissingFileError` if a file between them is missing."""
        count = min(count, self.max_offset - start)
        if count <= 0:
            return np.empty(0, ENTRY_DTYPE)
        parts = []
        while count > 0:
            file, position = self.place_of(start)
            here = min(count, (file.size_bytes - position) // ENTRY_SIZE_BYTES)
            data = self._read(file, position, here * ENTRY_SIZE_BYTES)
            parts.append(np.frombuffer(data, STORED_DTYPE).astype(ENTRY_DTYPE))
            start, count = start + here, count - here
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def _read(self, file: OffsetFile, position: int, size_bytes: int) -> bytes:
        """Reads the bytes of whole entries. Raises `TruncatedError` if the file has become
        shorter."""
        data = self._open.read_at(file.path, position, size_bytes)
        if len(data) < size_bytes:
            raise TruncatedError("the file has become shorter", path=file.path, position=position + len(data))
        return data

    def min_offset(self, commit_log_min_offset: int) -> int:
        """Returns the queue's minimum offset as the engine computes it at start (correctMinOffset)
        from the smallest physical offset of the CommitLog.

        It is `max_offset` if the log no longer holds any message of the queue. Otherwise it is the
        first entry of the *first file* that points into the log, or 0 if that file has none. See
        also `first_available_offset`.
        """
        if self.max_offset == self.start_offset:
            return 0
        if self.entry(self.max_offset - 1).physical_offset < commit_log_min_offset:
            return self.max_offset
        start = self.start_offset
        if start == 0 and self.entry(0).physical_offset >= commit_log_min_offset:
            return 0
        low, high = start, min(self.files[0].end_offset // ENTRY_SIZE_BYTES, self.max_offset) - 1
        while high - low > 1:
            middle = start + (low + high - 2 * start) // 2
            found = self.entry(middle).physical_offset
            low = low if found > commit_log_min_offset else middle
            high = high if found < commit_log_min_offset else middle
        wanted = (place for place in (low, high) if self.entry(place).physical_offset >= commit_log_min_offset)
        return next(wanted, 0)

    def first_available_offset(self, commit_log_min_offset: int) -> int:
        """Returns the queue offset of the first message that the CommitLog still holds, or
        `max_offset` if it holds none. Unlike the engine, it searches all files and skips pre-blank
        entries. A binary search."""

        def is_gone(queue_offset: int) -> bool:
            entry = self._entry_if_there(queue_offset)
            return entry is not None and (entry.is_pre_blank or entry.physical_offset < commit_log_min_offset)

        return self._search(is_gone, self.start_offset, self.max_offset)

    def max_offset_in(self, commit_log_end_offset: int) -> int:
        """Returns the queue offset after the last entry that points into the CommitLog before its
        end. After an unclean shutdown the engine truncates the queue there, but leaves the bytes of
        the truncated entries in the file. A binary search."""

        def is_inside(queue_offset: int) -> bool:
            entry = self._entry_if_there(queue_offset)
            return entry is None or entry.is_pre_blank or entry.physical_offset < commit_log_end_offset

        return self._search(is_inside, self.start_offset, self.max_offset)

    def _entry_if_there(self, queue_offset: int) -> ConsumeQueueEntry | None:
        """Returns an entry, or None if it lay in a file that is missing or cut short."""
        try:
            return self.entry(queue_offset)
        except VanishedError:
            raise
        except MissingFileError:
            return None

    @staticmethod
    def _search(holds: Callable[[int], bool], low: int, high: int) -> int:
        """Returns the first offset in [low, high) for which `holds` is false; `high` if it is true
        for all."""
        while low < high:
            middle = (low + high) // 2
            if holds(middle):
                low = middle + 1
            else:
                high = middle
        return low

    def _find_end(self) -> int:
        """Returns the queue offset after the last written entry. Files that were created ahead have
        none."""
        for file in reversed(self.files):
            # Only positions that lie entirely in the file count, whatever its name and length are.
            first = -(-file.start_offset // ENTRY_SIZE_BYTES)
            behind = max(file.end_offset // ENTRY_SIZE_BYTES, first)
            end = self._search(lambda queue_offset: self.entry(queue_offset).is_written, first, behind)
            if end > first:
                return end
        return self.start_offset

    def _is_end_still(self) -> bool:
        """Whether the entry before the end is written, and the next one is not, in the files that
        are there by now."""
        for file in self.files:
            self._open.forget(file.path)
        end = self.max_offset
        return (end == self.start_offset or self._is_written(end - 1)) and not self._is_written(end)

    def _is_written(self, queue_offset: int) -> bool:
        try:
            return self.entry(queue_offset).is_written
        except VanishedError:
            raise
        except (MissingFileError, TruncatedError):  # no file reaches so far
            return False

    def close(self) -> None:
        """Closes the files that reads have opened. A later read opens them again."""
        self._open.close()


def discover_queues(store: str, *, env: Env = DEFAULT_ENV) -> Iterator[tuple[bytes, int, str]]:
    """Yields (topic, queue id, directory) per queue below `consumequeue/`, ordered by the bytes of
    the topic, then by queue id.

    A topic is the bytes of its folder's name. Other names are skipped. A store without the
    directory has no queues.
    """
    root = f"{store}/{CONSUME_QUEUE_DIR}"
    if not env.is_dir(root):
        return
    for topic in sorted(env.list_dir(root), key=os.fsencode):
        for queue_id, directory in queues_of_topic(store, topic, env=env):
            yield os.fsencode(topic), queue_id, directory


def queues_of_topic(store: str, folder: str, *, env: Env = DEFAULT_ENV) -> list[tuple[int, str]]:
    """Returns (queue id, directory) per queue of the topic with this folder, ordered by queue id.
    There are none if the folder is not there, or a broker has deleted the topic meanwhile."""
    root = f"{store}/{CONSUME_QUEUE_DIR}/{folder}"
    if not env.is_dir(root):
        return []
    try:
        names = sorted((name for name in env.list_dir(root) if is_queue_id(name)), key=int)
    except VanishedError:
        return []
    return [(int(name), f"{root}/{name}") for name in names if env.is_dir(f"{root}/{name}")]


def is_queue_id(name: str) -> bool:
    """Whether a folder's name is a queue id: a signed 32-bit number in canonical form."""
    digits = name.removeprefix("-")
    return digits.isascii() and digits.isdigit() and str(int(name)) == name and -(1 << 31) <= int(name) < 1 << 31
