"""`BadSectorsEnv`: an `Env` in which the disk cannot read some bytes of some files.

A read of such bytes is refused with EIO. A mapping of such bytes is made so that an access to them
has the system send SIGBUS, as for a sector that the disk cannot read: there, the pages are those of
an empty file.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import tempfile
from typing import Any

from logdex.errors import UnreadableError
from logdex.io.env import Env, MappedBytes, ReadFile

_MAP_FIXED = 0x10
_PAGE = mmap.PAGESIZE


class _BadFile(ReadFile):
    """A file of which bytes cannot be read."""

    def __init__(self, env: Env, path: str, sectors: list[tuple[int, int]]) -> None:
        super().__init__(env, path)
        self._sectors = sectors

    def read_at(self, position: int, size_bytes: int) -> bytes:
        """As `ReadFile.read_at`; refused if a bad sector is among the bytes."""
        for start, end in self._sectors:
            if start < position + size_bytes and position < end:
                raise UnreadableError(path=self.path, position=position, end_position=position + size_bytes)
        return super().read_at(position, size_bytes)

    def map(self, *, partly: bool = False) -> MappedBytes:
        """As `ReadFile.map`; an access to a page with a bad sector causes SIGBUS."""
        mapped = super().map()
        for start, end in self._sectors:
            first = start // _PAGE * _PAGE
            last = min(-(-end // _PAGE), -(-mapped.array.size // _PAGE)) * _PAGE
            if first < last:
                _map_nothing(mapped.array.ctypes.data + first, last - first)
        return mapped


def _map_nothing(address: int, size_bytes: int) -> None:
    libc: Any = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *([ctypes.c_int] * 3), ctypes.c_long]
    with tempfile.TemporaryFile() as empty:
        flags = mmap.MAP_SHARED | _MAP_FIXED
        got = libc.mmap(address, size_bytes, mmap.PROT_READ, flags, empty.fileno(), 0)
    if got != address:
        raise OSError(errno.EIO, os.strerror(errno.EIO))


class BadSectorsEnv(Env):
    """An Env in which bytes [start, end) of the files at `sectors` (by path) cannot be read.
    Thread-safe. Many short reads at once (`read_runs`) are not refused."""

    def __init__(self, sectors: dict[str, list[tuple[int, int]]]) -> None:
        super().__init__()
        self._sectors = {os.path.realpath(path): ranges for path, ranges in sectors.items()}

    def open_read(self, path: str) -> ReadFile:
        """As `Env.open_read`."""
        return _BadFile(self, path, self._sectors.get(os.path.realpath(path), []))
