"""Directories compared as a whole: what a test must find unchanged, or the same as somewhere
else."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path


def contents(root: Path) -> dict[str, bytes]:
    """The bytes of every file below `root`, by its path from there."""
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def digests(root: Path) -> dict[str, str]:
    """The SHA-256 of every file below `root`, by its path from there."""
    return {name: hashlib.sha256(data).hexdigest() for name, data in contents(root).items()}


def tree_hash(root: Path) -> str:
    """A digest over names, modes, modification times and bytes of `root` and everything below
    it."""
    digest, skipped = hashlib.sha256(), len(str(root))
    for folder, folders, names in os.walk(root):
        folders.sort()
        for name in [".", *sorted(names)]:
            path = f"{folder}/{name}"
            status = os.lstat(path)
            told = f"{path[skipped:]}\0{status.st_mode}\0{status.st_mtime_ns}\0{status.st_size}\0"
            digest.update(told.encode("utf-8", "surrogateescape"))
            if stat.S_ISREG(status.st_mode):
                for position, data in _written(path, status):
                    digest.update(b"%d\0" % position)
                    digest.update(data)
    return digest.hexdigest()


BLOCK = 1 << 16
ZEROS = bytes(BLOCK)


def _written(path: str, status: os.stat_result) -> Iterator[tuple[int, bytes]]:
    """(position, bytes) of each block of a file with a byte that is not zero. Holes are not read,
    because a store's sparse files are a gigabyte of them. Which parts are holes may change: some
    file systems allot blocks when a hole is read through a mapping."""
    with open(path, "rb") as file:
        end = 0
        while end < status.st_size:
            try:
                begin = os.lseek(file.fileno(), end, os.SEEK_DATA)
            except OSError as error:
                if error.errno == errno.ENXIO:  # nothing but a hole is left
                    return
                raise
            end = os.lseek(file.fileno(), begin, os.SEEK_HOLE)
            for position in range(begin - begin % BLOCK, end, BLOCK):
                data = os.pread(file.fileno(), BLOCK, position)
                if data != ZEROS[: len(data)]:
                    yield position, data
            end += -end % BLOCK
