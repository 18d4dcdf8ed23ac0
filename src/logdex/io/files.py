"""Files that are open through an `Env`, and the counts of what goes through it."""

from __future__ import annotations

import errno as errno_codes
import mmap
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from logdex.errors import StorageError, located
from logdex.io.mapped.mapped_bytes import MappedBytes as MappedBytes
from logdex.io.name_changes import NameChanges, require_regular
from logdex.io.record_lock import Identity, close_descriptor, identity_of
from logdex.io.writeback import begin_writeback

if TYPE_CHECKING:
    import numpy.typing as npt


@dataclass(slots=True)
class IoCounters:
    """The bytes that went through an `Env`. `mapped_bytes` is the total length of all mappings."""

    read_bytes: int = 0
    mapped_bytes: int = 0
    written_bytes: int = 0


class SystemCalls(NameChanges):
    """What open files need of their `Env`."""

    def __init__(self) -> None:
        self.counters = IoCounters()
        self.is_plain = type(self).operation is NameChanges.operation
        """Whether `operation` only turns errors into ours. Then reads and writes call it after an
        error alone."""


_EXTENTS_MAX = 1_000


class ReadFile:
    """A file open for positioned reads. Thread-safe: each read is one `pread`."""

    def __init__(self, env: SystemCalls, path: str) -> None:
        self.path = path
        self._env = env
        with env.operation("open_read", path):
            # Without O_NONBLOCK, opening a FIFO would block for ever.
            self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
            try:
                status = require_regular(self._fd, path)
            except BaseException:
                close_descriptor(self._fd)
                raise
        self.size_bytes = status.st_size
        self.identity: Identity = status.st_dev, status.st_ino
        """Identifies the file, whatever its path."""

    def read_at(self, position: int, size_bytes: int) -> bytes:
        """Returns up to `size_bytes` bytes from `position`; fewer only where the file ends. Raises
        `UnreadableError` for a sector that the disk cannot read."""
        if self._env.is_plain:
            try:
                data = os.pread(self._fd, size_bytes, position)
            except OSError:
                data = b""  # read again below, where errors are located
            if len(data) == size_bytes:
                self._env.counters.read_bytes += size_bytes
                return data
        parts = []
        try:
            with self._env.operation("read_at", self.path):
                while size_bytes > 0:
                    part = os.pread(self._fd, size_bytes, position)
                    if not part:
                        break
                    parts.append(part)
                    position += len(part)
                    size_bytes -= len(part)
        except StorageError as error:
            if error.errno != errno_codes.EIO:
                raise
            raise located(error, position, size_bytes) from None
        data = parts[0] if len(parts) == 1 else b"".join(parts)
        self._env.counters.read_bytes += len(data)
        return data

    def read_into(self, position: int, out: memoryview) -> int:
        """Reads bytes from `position` on into `out`. Returns how many; 0 only where the file
        ends."""
        done = os.preadv(self._fd, [out], position)
        self._env.counters.read_bytes += done
        return done

    def size_now(self) -> int:
        """The file's current size. `size_bytes` is its size when it was opened."""
        with self._env.operation("size_bytes", self.path):
            return os.fstat(self._fd).st_size

    def next_data(self, position: int) -> int | None:
        """The first position from `position` on that is in no hole, as far as the file system
        tells; None if only a hole follows."""
        with self._env.operation("next_data", self.path):
            try:
                return os.lseek(self._fd, position, os.SEEK_DATA)
            except OSError as error:
                if error.errno == errno_codes.ENXIO:
                    return None
                raise

    def data_end(self, position: int) -> int:
        """The position from which on, at or behind `position`, there is only a hole, as far as the
        file system tells; the size if that is not known."""
        end = position
        for _ in range(_EXTENTS_MAX):
            begin = self.next_data(end)
            if begin is None:
                return end
            with self._env.operation("next_data", self.path):
                end = os.lseek(self._fd, begin, os.SEEK_HOLE)
        return self.size_bytes

    def map(self, *, partly: bool = False) -> MappedBytes:
        """Maps the whole file as a read-only array of bytes, which is empty for an empty file. With
        `partly`, bytes of a file on no local disk are to be loaded before they are used
        (`logdex.io.mapped.partly_loaded`)."""
        from logdex.io.mapped.mapping import map_without_descriptor  # a command that maps nothing does not need it

        with self._env.operation("map_read", self.path):
            array = map_without_descriptor(self._fd, self.path)  # its current size may differ from `size_bytes`
        self._env.counters.mapped_bytes += len(array)
        return MappedBytes(self._env, self.path, array, identity=self.identity)

    def close(self) -> None:
        """Closes the file. Existing mappings of it stay valid."""
        if self._fd >= 0:
            close_descriptor(self._fd)
            self._fd = -1

    def __enter__(self) -> ReadFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class WriteFile:
    """A file open for positioned writes, for one writer."""

    def __init__(self, env: SystemCalls, path: str, *, exclusive: bool) -> None:
        self.path = path
        self._env = env
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK | (os.O_EXCL if exclusive else 0)
        with env.operation("open_write", path):
            self._fd = os.open(path, flags, 0o644)
            try:
                require_regular(self._fd, path)
            except BaseException:
                close_descriptor(self._fd)
                raise

    def write_at(self, position: int, data: bytes | memoryview | npt.NDArray[Any]) -> None:
        """Writes all of `data` at `position`."""
        view = data if isinstance(data, bytes) else memoryview(data).cast("B")  # type: ignore[arg-type]  # stubs
        if self._env.is_plain:
            try:
                done = os.pwrite(self._fd, view, position)
                if done < len(view):
                    self._write(position + done, view[done:])
            except OSError:
                with self._env.operation("write_at", self.path):
                    raise
        else:
            with self._env.operation("write_at", self.path):
                self._write(position, view)
        self._env.counters.written_bytes += len(view)

    def _write(self, position: int, data: bytes | memoryview) -> None:
        done = 0
        while done < len(data):
            done += os.pwrite(self._fd, data[done:], position + done)

    def truncate(self, size_bytes: int) -> None:
        """Sets the file's size. Added bytes read as zero and take no disk space."""
        with self._env.operation("truncate", self.path):
            os.ftruncate(self._fd, size_bytes)

    def reserve(self, position: int, size_bytes: int) -> None:
        """Allocates disk space, so that a later write to a mapping cannot fail, where supported."""
        if hasattr(os, "posix_fallocate") and size_bytes > 0:
            with self._env.operation("reserve", self.path):
                try:
                    os.posix_fallocate(self._fd, position, size_bytes)
                except OSError as error:
                    if error.errno not in (errno_codes.EOPNOTSUPP, errno_codes.EINVAL):
                        raise

    def map(self, size_bytes: int) -> MappedBytes:
        """Maps the first `size_bytes` bytes as a writable array."""
        with self._env.operation("map_write", self.path):
            mapped = mmap.mmap(self._fd, size_bytes)
        import numpy as np  # imported here, because commands import this module

        return MappedBytes(self._env, self.path, np.frombuffer(mapped, np.uint8), mapped)

    def begin_writeback(self, position: int = 0, size_bytes: int = 0) -> None:
        """Starts writing a range (size 0: to the file's end) to disk, so that `sync` waits less."""
        with self._env.operation("begin_writeback", self.path):
            begin_writeback(self._fd, position, size_bytes)

    def sync(self) -> None:
        """Writes the file's data to disk (fsync)."""
        with self._env.operation("sync", self.path):
            os.fsync(self._fd)

    @property
    def identity(self) -> Identity:
        """Identifies the file, whatever its path."""
        return identity_of(self._fd)

    @property
    def is_open(self) -> bool:
        """Whether the file has not been closed."""
        return self._fd >= 0

    def close(self) -> None:
        """Closes the file without syncing it."""
        if self._fd >= 0:
            close_descriptor(self._fd)
            self._fd = -1

    def __enter__(self) -> WriteFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
