"""Directories whose files are named by the offset of their first byte: CommitLog and ConsumeQueue alike.

Source: ``docs/formats/commit-log.md``; MappedFileQueue.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import pairwise

from logdex.io.env import Env
from logdex.layout.rocketmq import FILE_NAME_DIGITS

OFFSET_MAX = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class OffsetFile:
    """One file; `start_offset` is its name, `size_bytes` its length when it was listed."""

    path: str
    start_offset: int
    size_bytes: int

    @property
    def end_offset(self) -> int:
        """The offset behind its last byte."""
        return self.start_offset + self.size_bytes


def offset_in_name(name: str) -> int | None:
    """The offset that a file of 20 digits is named by; None for another name, and for one above the largest offset."""
    is_offset = len(name) == FILE_NAME_DIGITS and name.isascii() and name.isdigit()
    return int(name) if is_offset and int(name) <= OFFSET_MAX else None


def list_offset_files(
    env: Env, directory: str, *, refused: list[str] | None = None
) -> tuple[tuple[OffsetFile, ...], tuple[str, ...]]:
    """The files of `directory` that are named by an offset of 20 digits, in order, and the names of everything else,
    among them files that would go on behind the largest offset.

    `refused` takes the paths that have such a name and are no files; else a link that leads nowhere raises
    `StorageError`, and a folder counts as something else.
    """
    files, foreign = [], []
    for name in env.list_dir(directory):
        path = f"{directory}/{name}"
        is_offset = len(name) == FILE_NAME_DIGITS and name.isascii() and name.isdigit()
        if is_offset and refused is not None and not env.is_file(path):
            refused.append(path)
        elif is_offset and not env.is_dir(path):  # a dangling link or a FIFO is refused below, not passed over
            file = OffsetFile(path, int(name), env.size_bytes(path))
            if file.end_offset <= OFFSET_MAX:
                files.append(file)
                continue
        foreign.append(name)
    return tuple(files), tuple(foreign)


def infer_file_size(files: tuple[OffsetFile, ...], *, unit_bytes: int = 1) -> int | None:
    """The file size that a directory's own files show: their commonest length where all names are that far apart or a
    multiple of it, else the smallest distance of two names; None without a file that has bytes. A length that is no
    multiple of `unit_bytes` is that of a cut file, and shows nothing."""
    gaps = [after.start_offset - before.start_offset for before, after in pairwise(files)]
    sizes = Counter(file.size_bytes for file in files if file.size_bytes and not file.size_bytes % unit_bytes)
    for size, _ in sorted(sizes.items(), key=lambda item: (-item[1], -item[0])):
        if all(gap % size == 0 for gap in gaps):
            return size
    return min(gaps, default=None)
