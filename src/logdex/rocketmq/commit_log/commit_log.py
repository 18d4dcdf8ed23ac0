"""The CommitLog: files named by the physical offset of their first byte. Finds and reads them, and
follows their growth.

Source: ``docs/formats/commit-log.md``; MappedFileQueue, CommitLog.
"""

from __future__ import annotations

import posixpath
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from logdex.errors import CorruptError, MissingFileError, NotAStoreError, StorageError, UnusableFileError
from logdex.io.env import DEFAULT_ENV, Env
from logdex.io.open_files import OpenFiles
from logdex.io.path_look import StrPath, path_text
from logdex.layout.rocketmq import BLANK, HOST_V4_SIZE_BYTES, MESSAGE_HEAD, MESSAGE_MAGIC_V1, MESSAGE_MAGIC_V2
from logdex.primitives.shown import counted, repr_of
from logdex.rocketmq.commit_log.in_file import StatedPlace, message_in, read_in, stated_place
from logdex.rocketmq.commit_log.no_log import no_log
from logdex.rocketmq.files.offset_files import (
    OFFSET_MAX,
    OffsetFile,
    OffsetFiles,
    common_file_size,
    has_expired,
    infer_file_size,
    list_offset_files,
    offset_in_name,
    was_trimmed,
)
from logdex.rocketmq.files.store_files import StorePaths
from logdex.rocketmq.message.stored_message import StoredMessage, host_sizes
from logdex.rocketmq.settings.store_config import StoreConfig

AHEAD_BYTES = 2048
"""How much a look-up reads of a message at once, as most messages are smaller: a second read takes
longer."""
_STORE_TIMESTAMP_END = MESSAGE_HEAD.size_bytes + HOST_V4_SIZE_BYTES + 8


CommitLogFile = OffsetFile
"""A file of the CommitLog; `start_offset` is a physical offset."""


def begins_with_message(head: bytes) -> bool:
    """Whether `head`, the first bytes of a file, has a message's magic code at the position of a
    first message's."""
    at = MESSAGE_HEAD.offset_of("magic")
    return int.from_bytes(head[at : at + 4], "big") in (MESSAGE_MAGIC_V1, MESSAGE_MAGIC_V2)


def commit_log_file(path: str, *, env: Env = DEFAULT_ENV) -> OffsetFile:
    """Returns the CommitLog file at `path` with its start offset: from its name of 20 digits,
    otherwise from its first message. Raises `CorruptError` if neither states an offset."""
    size = env.size_bytes(path)
    start = offset_in_name(posixpath.basename(path))
    if start is None or start > OFFSET_MAX - size:
        with env.open_read(path) as file:
            head = file.read_at(0, MESSAGE_HEAD.size_bytes)
        at = MESSAGE_HEAD.offset_of("physical_offset")
        start = int.from_bytes(head[at : at + 8], "big", signed=True)
        if len(head) < at + 8 or not begins_with_message(head) or not 0 <= start <= OFFSET_MAX - size:
            raise CorruptError(
                "the first message does not say where in the log this file lies",
                path=path,
                position=at,
                field="physical_offset",
                expected=f"0 to {OFFSET_MAX - size}",
                found=start if len(head) >= at + 8 else f"{len(head)} bytes",
                hint="copy it to a name that says it: the offset of its first byte, in 20 digits",
            )
    return OffsetFile(path, start, size)


@dataclass(frozen=True, slots=True)
class _Listing:
    files: tuple[CommitLogFile, ...]
    starts: tuple[int, ...]
    foreign_paths: tuple[str, ...]
    file_size_bytes: int
    is_one_file: bool
    unusable: dict[int, UnusableFileError]


def _add(found: OffsetFiles, more: OffsetFiles) -> None:
    """Adds the files of another directory. Of two files with one name, the one that is there
    counts."""
    starts = {file.start_offset for file in found.files}
    found.foreign += [*more.foreign, *(each.path for each in more.files if each.start_offset in starts)]
    found.files = sorted(
        [*found.files, *(each for each in more.files if each.start_offset not in starts)],
        key=lambda file: file.start_offset,
    )
    found.unusable += more.unusable


def _unusable_places(found: OffsetFiles, file_size_bytes: int) -> dict[OffsetFile, UnusableFileError]:
    """Returns what is no file at the places where a log with these files has one, each as a file of
    size 0. It is then no other name."""
    places: dict[OffsetFile, UnusableFileError] = {}
    taken = {file.start_offset for file in found.files}
    for error in found.unusable:
        start = int(posixpath.basename(error.path))
        is_aligned = not found.files or (start - found.files[0].start_offset) % file_size_bytes == 0
        if is_aligned and start not in taken:
            places[OffsetFile(error.path, start, 0)] = error
            taken.add(start)
            found.foreign.remove(error.path)
    return places


class CommitLog:
    """The files of one CommitLog directory, or one file, which is then the whole log. Read-only,
    and safe to share between threads.

    The files are listed when the object is created and by `refresh`. `more_directories` hold files
    of the log too, where a broker has several store paths; one of those that is missing holds none.
    `file_size_bytes` is mappedFileSizeCommitLog; None infers it from the files. What is no file and
    has the name of one is listed with a size of 0; reading it raises `UnusableFileError`. Raises
    `MissingFileError` if the directory is missing, `NotAStoreError` if it holds no CommitLog file,
    and `CorruptError` if the offset of a single file follows neither from its name nor from its
    first message.
    """

    def __init__(
        self,
        directory: StrPath,
        *,
        more_directories: Sequence[StrPath] = (),
        file_size_bytes: int | None = None,
        env: Env = DEFAULT_ENV,
    ) -> None:
        self.directory = path_text(directory).rstrip("/") or "/"
        self._more = tuple(path_text(each).rstrip("/") or "/" for each in more_directories)
        self._env = env
        self._given_file_size = file_size_bytes
        self._open = OpenFiles(env)
        self._listing = self._list()

    def __repr__(self) -> str:
        return repr_of(
            self,
            repr(self.directory),
            counted(len(self.files), "file"),
            f"offsets {self.min_offset} to {self.end_offset}",
        )

    @staticmethod
    def of_store(
        root: StrPath,
        *,
        file_size_bytes: int | None = None,
        directories: Sequence[StrPath] = (),
        env: Env = DEFAULT_ENV,
    ) -> CommitLog:
        """Returns the log of the store at `root`, which may also be one CommitLog file.
        `directories` hold the log if it is not in ``commitlog/``."""
        root = path_text(root)
        given = [path_text(each) for each in directories] or [StorePaths(root).commit_log]
        first, *more = [root] if env.is_file(root) else given
        if first != root and env.is_file(first):
            hint = "look at what it is, and move it away: a store has the files of its log in this directory"
            raise NotAStoreError("this is not a directory", path=first, hint=hint)
        return CommitLog(first, more_directories=more, file_size_bytes=file_size_bytes, env=env)

    @staticmethod
    def of_config(root: StrPath, config: StoreConfig, *, env: Env = DEFAULT_ENV) -> CommitLog:
        """Returns the log of the store at `root`, or of one CommitLog file, with these settings."""
        size, directories = config.mapped_file_size_commit_log, config.commit_log_directories
        return CommitLog.of_store(root, file_size_bytes=size, directories=directories, env=env)

    def _list(self) -> _Listing:
        found, is_one_file = OffsetFiles(), self._env.is_file(self.directory)
        if is_one_file:
            found.files = [commit_log_file(self.directory, env=self._env)]
        elif self._env.is_dir(self.directory):
            found = list_offset_files(self._env, self.directory)
            for directory in filter(self._env.is_dir, self._more):
                _add(found, list_offset_files(self._env, directory))
        else:
            raise no_log(self.directory, self._env)
        if not found.files and not found.unusable:
            raise NotAStoreError(
                "holds no CommitLog file", path=self.directory, hint="its files are named by offsets of 20 digits"
            )
        size = self._given_file_size or self._infer_size(found.files)
        unusable = _unusable_places(found, size)
        files = sorted([*found.files, *unusable], key=lambda file: file.start_offset)
        return _Listing(
            tuple(files),
            tuple(file.start_offset for file in files),
            tuple(found.foreign),
            size,
            is_one_file,
            {file.start_offset: error for file, error in unusable.items()},
        )

    def _infer_size(self, files: Sequence[CommitLogFile]) -> int:
        """The file size that the files show. Where the names do not fit it, the places count that
        the messages state."""
        size = common_file_size(files)
        if size is None:
            places = [self._place_if_readable(file) for file in files]
            starts = [place.start for place in places if place is not None and place.is_sure]
            size = infer_file_size(files, starts=starts if len(starts) > 1 else None) or 0
        # truncated or still empty: no broker makes such a file
        return size if size >= BLANK.size_bytes else StoreConfig().mapped_file_size_commit_log

    def _place_if_readable(self, file: CommitLogFile) -> StatedPlace | None:
        try:
            return stated_place(self._open, file)
        except StorageError:  # whoever reads the file reports it
            return None

    def stated_place(self, file: CommitLogFile) -> StatedPlace | None:
        """Returns where a file lies by its first messages, which may be any file of the directory.
        Raises what `in_file.stated_place` raises."""
        return stated_place(self._open, file)

    def refresh(self) -> None:
        """Lists the directory again, for a log that a broker is still writing."""
        self._open.close()  # a recovering broker creates new files under the same names
        self._listing = self._list()

    @property
    def files(self) -> tuple[CommitLogFile, ...]:
        """The files in the order of their offsets."""
        return self._listing.files

    @property
    def size_bytes(self) -> int:
        """The size of all files together."""
        return sum(file.size_bytes for file in self.files)

    @property
    def foreign(self) -> tuple[str, ...]:
        """The names in the directory that are not those of CommitLog files."""
        return tuple(map(posixpath.basename, self.foreign_paths))

    @property
    def foreign_paths(self) -> tuple[str, ...]:
        """The paths in all directories of the log whose names are not those of its files."""
        return self._listing.foreign_paths

    @property
    def unusable(self) -> dict[int, UnusableFileError]:
        """What is at the places of some files, by start offset, where there is no file."""
        return self._listing.unusable

    def readable_from(self) -> int:
        """Returns the physical offset of the first byte that is in a file. Raises
        `UnusableFileError` if there is none."""
        for file in self.files:
            if file.start_offset not in self.unusable:
                return file.start_offset
        raise self.unusable[self.min_offset]

    @property
    def is_one_file(self) -> bool:
        """Whether this is one file given by itself. Then nothing is known about the store's other
        files."""
        return self._listing.is_one_file

    @property
    def file_size_bytes(self) -> int:
        """mappedFileSizeCommitLog, as given or inferred."""
        return self._listing.file_size_bytes

    @property
    def wrong_sizes(self) -> tuple[CommitLogFile, ...]:
        """The files that are not `file_size_bytes` long. A broker refuses such a store, unless only
        the last file differs and is empty."""
        return tuple(file for file in self.files if file.size_bytes != self.file_size_bytes)

    @property
    def min_offset(self) -> int:
        """The physical offset of the first byte."""
        return self.files[0].start_offset

    @property
    def end_offset(self) -> int:
        """The physical offset after the last byte of the last file. The last message may end long
        before it."""
        return self.files[-1].end_offset

    def file_of(self, offset: int) -> CommitLogFile | None:
        """Returns the file that holds the byte at a physical offset, or None."""
        listing = self._listing
        place = bisect_right(listing.starts, offset) - 1
        file = listing.files[place] if place >= 0 else None
        return file if file is not None and offset < file.start_offset + file.size_bytes else None

    def file_at_or_before(self, offset: int) -> CommitLogFile:
        """Returns the file that holds a physical offset, otherwise the last file before it,
        otherwise the first file."""
        listing = self._listing
        return listing.files[max(bisect_right(listing.starts, offset) - 1, 0)]

    def file_behind(self, file: CommitLogFile) -> CommitLogFile | None:
        """Returns the next file in the directory, even if files between are missing; None after the
        last file."""
        listing = self._listing
        place = bisect_right(listing.starts, file.start_offset)
        return listing.files[place] if place < len(listing.files) else None

    def was_trimmed(self, offset: int) -> bool:
        """Whether a broker has removed the file of a physical offset, or the last one before it,
        since the log was listed."""
        return not self.is_one_file and was_trimmed(self.file_at_or_before(offset), self._env, self._more)

    def has_expired(self, offset: int) -> bool:
        """Whether a broker has removed the file of a physical offset, or the last one before it,
        since the log was listed, and all files before it."""
        return not self.is_one_file and has_expired(self.file_at_or_before(offset), self._env, self._more)

    def place_of(self, offset: int) -> tuple[str, int]:
        """Returns the path of the file that holds the byte at a physical offset, and the byte's
        position in it. Raises `MissingFileError` if no file holds it."""
        file = self._file_or_raise(offset)
        return file.path, offset - file.start_offset

    def gaps(self) -> list[tuple[int, int]]:
        """Returns (expected offset, offset of the next file) per file that does not begin where the
        previous one ends."""
        listing = self._listing
        expected = ((before + listing.file_size_bytes, after) for before, after in pairwise(listing.starts))
        return [(want, found) for want, found in expected if want != found]

    def read(self, offset: int, size_bytes: int) -> bytes:
        """Returns exactly `size_bytes` bytes from a physical offset on, from several files if
        necessary.

        Raises `MissingFileError` if no file holds one of the bytes, and `TruncatedError` if a file
        has become shorter.
        """
        parts = []
        while size_bytes > 0:
            file = self._file_or_raise(offset)
            part = read_in(self._open, file, offset - file.start_offset, min(size_bytes, file.end_offset - offset))
            parts.append(part)
            offset += len(part)
            size_bytes -= len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def read_message(self, offset: int, *, check_crc: bool = True, ahead_bytes: int = 0) -> StoredMessage:
        """Returns the message at a physical offset. Reads only its bytes, or `ahead_bytes` at once
        and then what is missing, and never past the end of its file. Bytes after the message need
        not be readable.

        Raises `MissingFileError` if no file holds the offset, and `CorruptError` or a subclass,
        located in the file, if no whole message is there.
        """
        file = self._file_or_raise(offset)
        position = offset - file.start_offset
        return message_in(self._open, file, position, check_crc=check_crc, ahead_bytes=ahead_bytes)

    def pickup_store_timestamp_ms(self, offset: int, size_bytes: int) -> int:
        """Returns the storeTimestamp (ms) of the message of `size_bytes` bytes at a physical
        offset, without any check, as CommitLog.pickupStoreTimestamp does; -1 if no single file
        holds all the bytes."""
        file = self.file_of(offset)
        if file is None or size_bytes < _STORE_TIMESTAMP_END or offset + size_bytes > file.end_offset:
            return -1
        data = read_in(self._open, file, offset - file.start_offset, min(size_bytes, _STORE_TIMESTAMP_END + 12))
        at = MESSAGE_HEAD.offset_of("sys_flag")
        sys_flag = int.from_bytes(data[at : at + 4], "big")
        at = MESSAGE_HEAD.size_bytes + host_sizes(sys_flag)[0]
        return int.from_bytes(data[at : at + 8], "big", signed=True)

    def _file_or_raise(self, offset: int) -> CommitLogFile:
        file = self.file_of(offset)
        if file is None:
            raise MissingFileError(
                f"no file holds the offset {offset}",
                path=self.directory,
                hint=f"the log goes from {self.min_offset} to {self.end_offset}",
            )
        return file

    def close(self) -> None:
        """Closes the files that reads have opened. A later read opens them again."""
        self._open.close()

    def __enter__(self) -> CommitLog:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
