"""`Env`: the only place in Logdex that touches the operating system.

All reading and writing goes through an `Env`, so that tests can count bytes, inject faults and
prove that a store was not changed. An `OSError` becomes a `StorageError` that names the path. A
path with a scheme, such as ``s3://bucket/store``, is read through fsspec (`logdex.io.remote`); no
other place tells such paths from those of this machine.
"""

from __future__ import annotations

import errno as errno_codes
import os
import resource
import stat
import sys
from collections.abc import Mapping
from typing import Any

from logdex.errors import EnvironmentProblem, StorageError, UnusableFileError, VanishedError
from logdex.io.files import IoCounters as IoCounters
from logdex.io.files import ReadFile as ReadFile
from logdex.io.files import SystemCalls
from logdex.io.files import WriteFile as WriteFile
from logdex.io.mapped.mapped_bytes import MappedBytes as MappedBytes
from logdex.io.name_changes import FileStamp, no_directory
from logdex.io.record_lock import Identity, record_lock_is_held, try_record_lock
from logdex.io.remote.file_systems import RemoteFileSystems, RemoteStatus
from logdex.io.remote.remote_file import RemoteFile
from logdex.io.remote.schemes import scheme_of

_NOT_THERE = (errno_codes.ENOENT, errno_codes.ENOTDIR, errno_codes.ENAMETOOLONG, errno_codes.ELOOP)
"""Errors that mean that nothing has this name. Others, such as EACCES and EIO, leave that open."""


class Env(SystemCalls):
    """The operating system as Logdex sees it. Thread-safe, but `counters` are then approximate.

    Without `check_space`, there always seems to be enough free space. `storage` are fsspec's
    options for paths with a scheme.
    """

    def __init__(self, *, check_space: bool = True, storage: Mapping[str, Any] | None = None) -> None:
        super().__init__()
        self._check_space = check_space
        self._remote = RemoteFileSystems(storage)

    # -- looking ----------------------------------------------------------------------------------
    def list_dir(self, path: str) -> list[str]:
        """The names in a directory, sorted. Names that are not UTF-8 contain surrogate escapes."""
        with self.operation("list_dir", path):
            if scheme_of(path) is not None:
                return self._remote.list_dir(path)
            return sorted(os.listdir(path))

    def is_dir(self, path: str) -> bool:
        """Whether `path` is a directory (or a link to one)."""
        if scheme_of(path) is not None:
            there = self._remote_status("is_dir", path)
            return there is not None and there.is_dir
        status = self._status("is_dir", path)
        return status is not None and stat.S_ISDIR(status.st_mode)

    def is_file(self, path: str) -> bool:
        """Whether `path` is a regular file (or a link to one)."""
        if scheme_of(path) is not None:
            there = self._remote_status("is_file", path)
            return there is not None and not there.is_dir
        status = self._status("is_file", path)
        return status is not None and stat.S_ISREG(status.st_mode)

    def exists(self, path: str) -> bool:
        """Whether anything is at `path`."""
        if scheme_of(path) is not None:
            return self._remote_status("exists", path) is not None
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

    def _remote_status(self, kind: str, path: str) -> RemoteStatus | None:
        with self.operation(kind, path):
            return self._remote.status(path)

    def _require_remote(self, kind: str, path: str) -> RemoteStatus:
        found = self._remote_status(kind, path)
        if found is None:
            raise VanishedError("no such file or directory", path=path, errno=errno_codes.ENOENT)
        return found

    def stamp(self, path: str) -> FileStamp | None:
        """Returns what identifies what is at `path`, without following a link; None if nothing has
        that name."""
        if scheme_of(path) is None:
            return super().stamp(path)
        found = self._remote_status("stamp", path)
        if found is None:
            return None
        size = 0 if found.is_dir else found.size_bytes
        return FileStamp("directory" if found.is_dir else "file", found.identity[1], size, found.modified_ns)

    def identity(self, path: str) -> Identity | None:
        """Identifies the file at `path`, whichever path is given; None if there is nothing."""
        if scheme_of(path) is not None:
            there = self._remote_status("identity", path)
            return None if there is None else there.identity
        status = self._status("identity", path)
        return None if status is None else (status.st_dev, status.st_ino)

    def size_bytes(self, path: str) -> int:
        """The size of a file."""
        if scheme_of(path) is not None:
            return self._require_remote("size_bytes", path).size_bytes
        with self.operation("size_bytes", path):
            return os.stat(path).st_size

    def modified_ns(self, path: str) -> int:
        """The modification time in nanoseconds since the epoch."""
        if scheme_of(path) is not None:
            return self._require_remote("modified_ns", path).modified_ns
        with self.operation("modified_ns", path):
            return os.stat(path).st_mtime_ns

    def set_modified_ns(self, path: str, modified_ns: int) -> None:
        """Sets the modification time, nanoseconds since the epoch."""
        with self.operation("set_modified_ns", path):
            os.utime(path, ns=(modified_ns, modified_ns))

    def real_path(self, path: str) -> str:
        """`path` as an absolute path with symbolic links resolved."""
        if scheme_of(path) is not None:
            return path
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
        """Whether `size_bytes` bytes are free where `path` will be. Without `check_space`,
        always."""
        return not self._check_space or self.free_bytes(path) >= size_bytes

    def require_free(self, path: str, size_bytes: int) -> None:
        """Raises `EnvironmentProblem` unless `has_free`."""
        if not self.has_free(path, size_bytes):
            raise EnvironmentProblem(
                f"{path}: about {size_bytes} bytes are needed, but only {self.free_bytes(path)} are free",
                hint="choose another --output, free some space, or give --no-space-check",
            )

    # -- reading ----------------------------------------------------------------------------------
    def open_read(self, path: str) -> ReadFile:
        """Opens a regular file for reading. Raises `UnusableFileError` for anything else."""
        return ReadFile(self, path) if scheme_of(path) is None else RemoteFile(self, self._remote, path)

    def read_file(self, path: str, size_bytes_max: int) -> bytes:
        """Reads a small file. Raises `UnusableFileError` if it is larger than `size_bytes_max`."""
        with self.open_read(path) as file:
            if file.size_bytes > size_bytes_max:
                raise UnusableFileError(
                    f"the file has {file.size_bytes} bytes, but at most {size_bytes_max} are allowed", path=path
                )
            return file.read_at(0, file.size_bytes)

    def map_read(self, path: str, *, partly: bool = False) -> MappedBytes:
        """Maps a whole file for reading; `partly` as of `ReadFile.map`."""
        with self.open_read(path) as file:
            return file.map(partly=partly)

    def descriptors_max(self) -> int:
        """Returns how many files the process may have open."""
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        return sys.maxsize if soft == resource.RLIM_INFINITY else soft

    # -- writing ----------------------------------------------------------------------------------
    def make_dirs_durably(self, path: str) -> None:
        """Creates the missing directories of `path`; each name is on disk before the next one is
        created. Raises `StorageError` if something else has one of the names."""
        missing = []
        while not self.exists(path):
            missing.append(path)
            path = os.path.dirname(path.rstrip("/")) or "."
        if not self.is_dir(path):
            raise no_directory(path)
        for each in reversed(missing):
            try:
                self.sync_dir(os.path.dirname(path.rstrip("/")) or os.path.join(path, ".."))
            except StorageError as error:
                if error.errno not in (errno_codes.EACCES, errno_codes.EPERM):
                    raise  # this process did not create a directory whose parent it may not open
            self.make_dirs(each)
            path = each

    def open_write(self, path: str, *, exclusive: bool = False) -> WriteFile:
        """Opens a regular file for writing, created if missing; with `exclusive` it must not exist.
        Raises `UnusableFileError` for anything else."""
        return WriteFile(self, path, exclusive=exclusive)

    def lock_file(self, path: str) -> WriteFile | None:
        """Locks `path` (created if missing) until closed; returns None if this process or another
        holds the lock, which is of the same kind as Java's FileLock. Callers use `process_lock`.

        The holder may remove the file before closing it: nobody else then gets a lock on the
        removed file.
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
        """Whether this process or another holds a lock of Java's kind on a byte of `path` from
        `start` on; None if that is unknown. Remote file systems have no such locks."""
        if scheme_of(path) is not None:
            return False
        if not self.is_file(path):
            return None if self.exists(path) else False
        try:
            file = self.open_read(path)
        except StorageError as error:
            if error.errno in (errno_codes.EACCES, errno_codes.EPERM):
                return None
            raise
        with file, self.operation("lock_is_held", path):
            return record_lock_is_held(file._fd, start)


DEFAULT_ENV = Env()
"""The default `Env`. Tests pass another one to count or to inject faults."""
