"""`Env`: the only place in Logdex that touches the operating system.

All reading and writing goes through an `Env`, so that tests can count bytes, inject faults and
prove that a store was not changed. An `OSError` becomes a `StorageError` that names the path.
"""

from __future__ import annotations

import errno as errno_codes
import mmap
import os
import stat
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from logdex.errors import EnvironmentProblem, StorageError, UnusableFileError, located
from logdex.io.mapped.mapped_bytes import MappedBytes as MappedBytes
from logdex.io.mapped.mapping import map_without_descriptor
from logdex.io.name_changes import NO_FILE, NameChanges
from logdex.io.record_lock import Identity, close_descriptor, identity_of, record_lock_is_held, try_record_lock
from logdex.io.writeback import begin_writeback

ByteArray = npt.NDArray[np.uint8]

_NOT_THERE = (errno_codes.ENOENT, errno_codes.ENOTDIR, errno_codes.ENAMETOOLONG, errno_codes.ELOOP)
"""Errors that mean that nothing has this name. Others, such as EACCES and EIO, leave that open."""


@dataclass(slots=True)
class IoCounters:
    """The bytes that went through an `Env`. `mapped_bytes` is the total length of all mappings."""

    read_bytes: int = 0
    mapped_bytes: int = 0
    written_bytes: int = 0


class ReadFile:
    """A file open for positioned reads. Thread-safe: each read is one `pread`."""

    def __init__(self, env: Env, path: str) -> None:
        self.path = path
        self._env = env
        with env.operation("open_read", path):
            # Without O_NONBLOCK, opening a FIFO would block for ever.
            self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
            try:
                status = os.fstat(self._fd)
                if not stat.S_ISREG(status.st_mode):
                    raise UnusableFileError(NO_FILE, path=path, errno=errno_codes.EINVAL)
            except BaseException:
                close_descriptor(self._fd)
                raise
        self.size_bytes = status.st_size
        self.identity: Identity = status.st_dev, status.st_ino
        """Identifies the file, whatever its path."""

    def read_at(self, position: int, size_bytes: int) -> bytes:
        """Returns up to `size_bytes` bytes from `position`; fewer only where the file ends. Raises `UnreadableError`
        for a sector that the disk cannot read."""
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

    def size_now(self) -> int:
        """The file's current size. `size_bytes` is its size when it was opened."""
        with self._env.operation("size_bytes", self.path):
            return os.fstat(self._fd).st_size

    def next_data(self, position: int) -> int | None:
        """The first position from `position` on that is in no hole, as far as the file system tells; None if only a
        hole follows."""
        with self._env.operation("next_data", self.path):
            try:
                return os.lseek(self._fd, position, os.SEEK_DATA)
            except OSError as error:
                if error.errno == errno_codes.ENXIO:
                    return None
                raise

    def map(self) -> MappedBytes:
        """Maps the whole file as a read-only array of bytes, which is empty for an empty file."""
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

    def __init__(self, env: Env, path: str, *, exclusive: bool) -> None:
        self.path = path
        self._env = env
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | (os.O_EXCL if exclusive else 0)
        with env.operation("open_write", path):
            self._fd = os.open(path, flags, 0o644)

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


class Env(NameChanges):
    """The operating system as Logdex sees it. Thread-safe, but `counters` are then approximate.

    Without `check_space`, there always seems to be enough free space.
    """

    def __init__(self, *, check_space: bool = True) -> None:
        self.counters = IoCounters()
        self.is_plain = type(self).operation is NameChanges.operation
        """Whether `operation` only turns errors into ours. Then reads and writes call it after an error alone."""
        self._check_space = check_space

    # -- looking -------------------------------------------------------------------------------------------------------
    def list_dir(self, path: str) -> list[str]:
        """The names in a directory, sorted. Names that are not UTF-8 contain surrogate escapes."""
        with self.operation("list_dir", path):
            return sorted(os.listdir(path))

    def is_dir(self, path: str) -> bool:
        """Whether `path` is a directory (or a link to one)."""
        status = self._status("is_dir", path)
        return status is not None and stat.S_ISDIR(status.st_mode)

    def is_file(self, path: str) -> bool:
        """Whether `path` is a regular file (or a link to one)."""
        status = self._status("is_file", path)
        return status is not None and stat.S_ISREG(status.st_mode)

    def exists(self, path: str) -> bool:
        """Whether anything is at `path`."""
        return self._status("exists", path, follow=False) is not None

    def _status(self, kind: str, path: str, *, follow: bool = True) -> os.stat_result | None:
        """The status of `path`; None if it does not exist. Any other error is raised."""
        with self.operation(kind, path):
            try:
                return os.stat(path, follow_symlinks=follow)
            except OSError as error:
                if error.errno in _NOT_THERE:
                    return None
                raise
            except ValueError:  # no file name contains a NUL
                return None

    def identity(self, path: str) -> Identity | None:
        """Identifies the file at `path`, whichever path is given; None if there is nothing."""
        status = self._status("identity", path)
        return None if status is None else (status.st_dev, status.st_ino)

    def size_bytes(self, path: str) -> int:
        """The size of a file."""
        with self.operation("size_bytes", path):
            return os.stat(path).st_size

    def modified_ns(self, path: str) -> int:
        """The modification time in nanoseconds since the epoch."""
        with self.operation("modified_ns", path):
            return os.stat(path).st_mtime_ns

    def set_modified_ns(self, path: str, modified_ns: int) -> None:
        """Sets the modification time, nanoseconds since the epoch."""
        with self.operation("set_modified_ns", path):
            os.utime(path, ns=(modified_ns, modified_ns))

    def real_path(self, path: str) -> str:
        """`path` as an absolute path with symbolic links resolved."""
        with self.operation("real_path", path):
            return os.path.realpath(path)

    def free_bytes(self, path: str) -> int:
        """Free space on the file system of `path` or of its nearest existing parent."""
        with self.operation("free_bytes", path):
            while not os.path.exists(path):
                parent = os.path.dirname(os.path.abspath(path))
                if parent == path:
                    break
                path = parent
            status = os.statvfs(path)
        return status.f_bavail * status.f_frsize

    def used_ratio(self, path: str) -> float:
        """Which part of the file system of `path` is in use, from 0 to 1, as ``df`` states it."""
        with self.operation("used_ratio", path):
            status = os.statvfs(path)
        used = status.f_blocks - status.f_bfree
        return used / max(used + status.f_bavail, 1)

    def has_free(self, path: str, size_bytes: int) -> bool:
        """Whether `size_bytes` bytes are free where `path` will be. Without `check_space`, always."""
        return not self._check_space or self.free_bytes(path) >= size_bytes

    def require_free(self, path: str, size_bytes: int) -> None:
        """Raises `EnvironmentProblem` unless `has_free`."""
        if not self.has_free(path, size_bytes):
            raise EnvironmentProblem(
                f"{path}: about {size_bytes} bytes are needed, but only {self.free_bytes(path)} are free",
                hint="choose another --output, free some space, or give --no-space-check",
            )

    # -- reading -------------------------------------------------------------------------------------------------------
    def open_read(self, path: str) -> ReadFile:
        """Opens a regular file for reading. Raises `UnusableFileError` for anything else."""
        return ReadFile(self, path)

    def read_file(self, path: str, size_bytes_max: int) -> bytes:
        """Reads a small file. Raises `UnusableFileError` if it is larger than `size_bytes_max`."""
        with self.open_read(path) as file:
            if file.size_bytes > size_bytes_max:
                raise UnusableFileError(
                    f"the file has {file.size_bytes} bytes, but at most {size_bytes_max} are allowed", path=path
                )
            return file.read_at(0, file.size_bytes)

    def map_read(self, path: str) -> MappedBytes:
        """Maps a whole file for reading."""
        with self.open_read(path) as file:
            return file.map()

    # -- writing -------------------------------------------------------------------------------------------------------
    def make_dirs_durably(self, path: str) -> None:
        """Creates the missing directories of `path`; each name is on disk before the next one is
        created."""
        missing = []
        while not self.exists(path):
            missing.append(path)
            path = os.path.dirname(path.rstrip("/")) or "."
        for each in reversed(missing):
            try:
                self.sync_dir(os.path.dirname(path.rstrip("/")) or os.path.join(path, ".."))
            except StorageError as error:
                if error.errno not in (errno_codes.EACCES, errno_codes.EPERM):
                    raise  # this process did not create a directory whose parent it may not open
            self.make_dirs(each)
            path = each

    def open_write(self, path: str, *, exclusive: bool = False) -> WriteFile:
        """Opens a file for writing, created if missing; with `exclusive` it must not exist."""
        return WriteFile(self, path, exclusive=exclusive)

    def lock_file(self, path: str) -> WriteFile | None:
        """Locks `path` (created if missing) until closed; returns None if this process or another
        holds the lock, which is of the same kind as Java's FileLock. Callers use `process_lock`.

        The holder may remove the file before closing it: nobody else then gets a lock on the removed file.
        """
        while True:
            file = self.open_write(path)
            try:
                with self.operation("lock_file", path):
                    is_locked = try_record_lock(file._fd)
                if not is_locked:
                    file.close()
                    return None
                status = self._status("lock_file", path)
                if status is not None and (status.st_dev, status.st_ino) == file.identity:
                    return file
            except BaseException:
                file.close()
                raise
            file.close()

    def lock_is_held(self, path: str, start: int = 0) -> bool | None:
        """Whether this process or another holds a lock of Java's kind on a byte of `path` from `start` on; None if that
        is unknown."""
        if not self.is_file(path):
            return None if self.exists(path) else False
        with self.open_read(path) as file, self.operation("lock_is_held", path):
            return record_lock_is_held(file._fd, start)


DEFAULT_ENV = Env()
"""The default `Env`. Tests pass another one to count or to inject faults."""
