"""A file of a remote file system, open for positioned reads."""

from __future__ import annotations

import errno
import mmap

from logdex.errors import StorageError, UnusableFileError, VanishedError
from logdex.io.files import ReadFile, SystemCalls
from logdex.io.mapped.mapped_bytes import MappedBytes
from logdex.io.name_changes import NO_FILE
from logdex.io.remote.block_cache import AHEAD_BYTES, BLOCK_BYTES
from logdex.io.remote.file_systems import RemoteFileSystems

_READ_BYTES_MAX = 16 << 20
_LOADED_BYTES = -(-AHEAD_BYTES // mmap.PAGESIZE) * mmap.PAGESIZE


class RemoteFile(ReadFile):
    """Reads ranges. Short reads go through the blocks that were read last; nothing stays open.
    Thread-safe."""

    def __init__(self, env: SystemCalls, systems: RemoteFileSystems, path: str) -> None:
        self.path = path
        self._env = env
        self._fd = -1
        self._systems = systems
        with env.operation("open_read", path):
            status = systems.status(path)
            if status is None:
                raise VanishedError("no such file or directory", path=path, errno=errno.ENOENT)
            if status.is_dir:
                raise UnusableFileError(NO_FILE, path=path, errno=errno.EISDIR)
        self.size_bytes = self._end = status.size_bytes
        self.identity = status.identity

    def read_at(self, position: int, size_bytes: int) -> bytes:
        """As `ReadFile.read_at`."""
        stop = min(position + size_bytes, self._end)
        if position >= stop:
            return b""
        first, behind = position // BLOCK_BYTES, -(-stop // BLOCK_BYTES)
        if behind - first > _READ_BYTES_MAX // BLOCK_BYTES:
            parts = [self._fetch(at, min(_READ_BYTES_MAX, stop - at)) for at in range(position, stop, _READ_BYTES_MAX)]
            return b"".join(parts)
        start = first * BLOCK_BYTES
        return b"".join(self._blocks(first, behind))[position - start : stop - start]

    def _blocks(self, first: int, behind: int) -> list[bytes]:
        """Returns some blocks in order. All from the first to the last missing one are read in one
        request, with some behind them where the one before them was read."""
        cache = self._systems.blocks
        keys = [(self.path, self.identity, number) for number in range(first, behind)]
        found = [cache.get(key) for key in keys]
        missing = [place for place, block in enumerate(found) if block is None]
        if missing:
            start, stop = (first + missing[0]) * BLOCK_BYTES, (first + missing[-1] + 1) * BLOCK_BYTES
            if start and cache.get((self.path, self.identity, first + missing[0] - 1)) is not None:
                stop = max(stop, start + AHEAD_BYTES)
            size = min(stop, self._end) - start
            data = self._fetch(start, size)
            for at in range(0, size, BLOCK_BYTES):
                place, block = missing[0] + at // BLOCK_BYTES, data[at : at + BLOCK_BYTES]
                if place < len(found):
                    found[place] = block
                if len(data) == size:
                    cache.put((self.path, self.identity, first + place), block)
        return [block for block in found if block is not None]

    def _fetch(self, position: int, size_bytes: int) -> bytes:
        with self._env.operation("read_at", self.path):
            try:
                data = self._systems.read(self.path, position, size_bytes)
            except VanishedError:
                raise
            except StorageError:
                status = self._systems.status(self.path)
                if status is None or status.size_bytes > position:
                    raise
                data = b""  # the file was shortened, and some file systems refuse to read behind the end
        self._env.counters.read_bytes += len(data)
        return data

    def read_into(self, position: int, out: memoryview) -> int:
        """As `ReadFile.read_into`."""
        data = self.read_at(position, len(out))
        out[: len(data)] = data
        return len(data)

    def size_now(self) -> int:
        """As `ReadFile.size_now`."""
        with self._env.operation("size_bytes", self.path):
            status = self._systems.status(self.path)
        if status is None:
            raise VanishedError("no such file or directory", path=self.path, errno=errno.ENOENT)
        if status.identity != self.identity:
            self.identity, self._end = status.identity, status.size_bytes
        return status.size_bytes

    def next_data(self, position: int) -> int | None:
        """As `ReadFile.next_data`. Remote file systems tell of no holes."""
        return position if position < self.size_now() else None

    def data_end(self, position: int) -> int:
        """As `ReadFile.data_end`."""
        return max(position, self.size_now())

    def map(self, *, partly: bool = False) -> MappedBytes:
        """As `ReadFile.map`. Without `partly`, the whole file is read into memory."""
        from logdex.io.mapped.partly_loaded import load, partly_loaded

        array = partly_loaded(self.path, self.size_now(), self._fetch, _LOADED_BYTES)
        if not partly:
            load(array)
        return MappedBytes(self._env, self.path, array, identity=self.identity)

    def close(self) -> None:
        """Nothing is open."""
