"""Directories whose files are named by the offset of their first byte: CommitLog and ConsumeQueue.

Source: ``docs/formats/commit-log.md``; MappedFileQueue.
"""

from __future__ import annotations

import posixpath
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from logdex.errors import UnusableFileError, VanishedError
from logdex.io.env import Env
from logdex.layout.rocketmq import FILE_NAME_DIGITS

OFFSET_MAX = (1 << 63) - 1
_LISTINGS_MAX = 10


@dataclass(frozen=True, slots=True)
class OffsetFile:
    """One file. `start_offset` is its name, `size_bytes` its size when it was listed."""

    path: str
    start_offset: int
    size_bytes: int

    @property
    def end_offset(self) -> int:
        """The offset after its last byte."""
        return self.start_offset + self.size_bytes


def offset_in_name(name: str) -> int | None:
    """The offset in a file name of 20 digits; None for any other name, and beyond the largest
    offset."""
    is_offset = len(name) == FILE_NAME_DIGITS and name.isascii() and name.isdigit()
    return int(name) if is_offset and int(name) <= OFFSET_MAX else None


@dataclass(slots=True)
class OffsetFiles:
    """The listing of a directory: the files whose names are offsets, in order, and the paths of all
    else, those of files that would extend beyond the largest offset included. `unusable` says what
    is there instead of a file whose name is an offset; these paths are in `foreign` too."""

    files: list[OffsetFile] = field(default_factory=list)
    foreign: list[str] = field(default_factory=list)
    unusable: list[UnusableFileError] = field(default_factory=list)


def list_offset_files(env: Env, directory: str) -> OffsetFiles:
    """Lists a directory whose files are named by offsets. Where a broker removes files meanwhile,
    it is listed again."""
    for _ in range(_LISTINGS_MAX):
        found, is_whole = _list(env, directory)
        if is_whole:
            break
    return found


def has_offset_files(env: Env, directory: str) -> bool:
    """Whether there is a directory with a file, or anything else, whose name is an offset."""
    found = list_offset_files(env, directory) if env.is_dir(directory) else OffsetFiles()
    return bool(found.files or found.unusable)


def _list(env: Env, directory: str) -> tuple[OffsetFiles, bool]:
    """Returns what is there, and whether no file was removed meanwhile."""
    found, is_whole = OffsetFiles(), True
    for name in env.list_dir(directory):
        path = f"{directory}/{name}"
        start = offset_in_name(name)
        if start is not None:
            try:
                if not env.is_file(path):
                    env.open_read(path).close()  # says what it is
                file = OffsetFile(path, start, env.size_bytes(path))
            except UnusableFileError as error:
                found.unusable.append(error)
            except VanishedError:
                is_whole = False
                continue
            else:
                if file.end_offset <= OFFSET_MAX:
                    found.files.append(file)
                    continue
        found.foreign.append(path)
    return found, is_whole


def was_trimmed(file: OffsetFile, env: Env, more_directories: Sequence[str] = ()) -> bool:
    """Whether a broker has removed a listed file: an old one, so that all that are left begin
    behind it, or, as a recovery does that cuts the end, one behind all that are left.
    `more_directories` hold files of the same log."""
    starts = [start for start in _starts_left(file, env, more_directories) if start is not None]
    return bool(starts) and not min(starts) <= file.start_offset <= max(starts)


def has_expired(file: OffsetFile, env: Env, more_directories: Sequence[str] = ()) -> bool:
    """Whether a broker has removed a listed file because it was old: all that are left begin behind
    it. A name that is no offset may be a copy of it, or what somebody has called it: then it is
    False. `more_directories` hold files of the same log."""
    starts = _starts_left(file, env, more_directories)
    known = [start for start in starts if start is not None]
    return len(known) == len(starts) and file.start_offset < min(known, default=-1)


def _starts_left(file: OffsetFile, env: Env, more_directories: Sequence[str]) -> list[int | None]:
    directories = dict.fromkeys([posixpath.dirname(file.path), *filter(env.is_dir, more_directories)])
    return [offset_in_name(name) for directory in directories for name in env.list_dir(directory)]


def common_file_size(files: Sequence[OffsetFile], *, unit_bytes: int = 1) -> int | None:
    """The commonest size of the files that have bytes, if all distances between the names are
    multiples of it; otherwise None."""
    sizes = _by_frequency(files, unit_bytes)
    return sizes[0] if sizes and _fits(sizes[0], [file.start_offset for file in files]) else None


def infer_file_size(
    files: Sequence[OffsetFile], *, unit_bytes: int = 1, starts: Sequence[int] | None = None
) -> int | None:
    """The file size that a directory's files show, or None without a file that has bytes.

    It is the commonest size of which all distances between the files are multiples. Without one it
    is the size of all files, unless `starts`, where they begin by what is in them, tell the
    distances better than their names do: it is the smallest distance then, or where they have
    different sizes. A size that is no multiple of `unit_bytes` comes from a truncated file, and is
    ignored.
    """
    places = sorted(file.start_offset for file in files) if starts is None else sorted(starts)
    sizes = _by_frequency(files, unit_bytes)
    for size in sizes:
        if _fits(size, places):
            return size
    if starts is None and len(sizes) == 1 and len(files) > 1:
        return sizes[0]
    return min(filter(None, _gaps(places)), default=None)


def _by_frequency(files: Sequence[OffsetFile], unit_bytes: int) -> list[int]:
    sizes = Counter(file.size_bytes for file in files if file.size_bytes and not file.size_bytes % unit_bytes)
    return [size for size, _ in sorted(sizes.items(), key=lambda item: (-item[1], -item[0]))]


def _gaps(places: Sequence[int]) -> list[int]:
    return [after - before for before, after in pairwise(places)]


def _fits(size: int, places: Sequence[int]) -> bool:
    return all(gap % size == 0 for gap in _gaps(places))
