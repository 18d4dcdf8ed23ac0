"""Bytes of a log for the decode kernel, a piece at a time: read from a file, or what lies in memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import NamedTuple, Protocol

import numpy as np

from logdex.io.env import ByteArray, ReadFile
from logdex.layout import LOG_OVERHEAD_SIZE_BYTES

CHUNK_BYTES = 1 << 19
"""A piece that stays in the core's cache between the checksum and the decoding."""


class Chunk(NamedTuple):
    """Bytes from `position` to `end` of the log. `data` must live as long as the chunk is used."""

    data: ByteArray
    position: int
    end: int

    @property
    def base(self) -> int:
        """The address that the log's byte 0 would have."""
        return int(self.data.ctypes.data) - self.position

    def cut(self, position: int, size_bytes: int) -> bytes:
        """Bytes of the log that lie in this chunk."""
        return self.data[position - self.position : position - self.position + size_bytes].tobytes()


class RecordSource(Protocol):
    """`size_bytes` of a log, named `path` in errors."""

    path: str
    size_bytes: int

    def chunk(self, position: int) -> Chunk:
        """A chunk from `position` on that holds a whole batch at least, if one lies there."""

    def whole(self) -> AbstractContextManager[ByteArray]:
        """All bytes, for looking at damage."""


class FileSource:
    """Reads rather than maps: as fast, and a file that another process cuts off is no SIGBUS."""

    def __init__(self, file: ReadFile) -> None:
        self.path = file.path
        self.size_bytes = file.size_bytes
        self._file = file

    def chunk(self, position: int) -> Chunk:
        """See `RecordSource`. For a batch longer than a chunk it is as long as that batch."""
        data = self._file.read_at(position, max(min(CHUNK_BYTES, self.size_bytes - position), 0))
        if len(data) >= LOG_OVERHEAD_SIZE_BYTES:
            size = int.from_bytes(data[8:12], "big", signed=True) + LOG_OVERHEAD_SIZE_BYTES
            if len(data) < size <= self.size_bytes - position:
                data = self._file.read_at(position, size)
        return Chunk(np.frombuffer(data, np.uint8), position, position + len(data))

    @contextmanager
    def whole(self) -> Iterator[ByteArray]:
        """The file, mapped for as long as the context lasts."""
        with self._file.map() as mapped:
            yield mapped.array


class BytesSource:
    """What lies in memory, or is mapped."""

    def __init__(self, data: ByteArray, path: str) -> None:
        self.path = path
        self.size_bytes = data.size
        self._data = data

    def chunk(self, position: int) -> Chunk:
        """All the rest."""
        return Chunk(self._data[position:], position, max(self.size_bytes, position))

    @contextmanager
    def whole(self) -> Iterator[ByteArray]:
        """The bytes."""
        yield self._data
