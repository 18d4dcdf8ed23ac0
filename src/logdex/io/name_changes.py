"""The operations of `Env` that change names: rename, link, exchange, remove, and the syncs of
directories.

Two names are exchanged in one step by ``renameat2(RENAME_EXCHANGE)`` on Linux and by
``renamex_np(RENAME_SWAP)`` on macOS, where the file system supports it.
"""

from __future__ import annotations

import ctypes
import errno as errno_codes
import os
import shutil
import stat
import sys
from contextlib import AbstractContextManager
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from logdex.errors import StorageError, UnusableFileError, VanishedError
from logdex.io.remote.schemes import scheme_of

NO_FILE = "not a regular file"
_KINDS = {
    stat.S_IFDIR: "a directory",
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}
_LEADS_NOWHERE = (errno_codes.ENOENT, errno_codes.ENOTDIR, errno_codes.ENAMETOOLONG)
READS = frozenset(
    {
        *("open_read", "read_at", "list_dir", "is_dir", "is_file", "exists", "stamp", "identity"),
        *("size_bytes", "modified_ns", "map_read", "next_data"),
    }
)
"""The kinds of operations that a path with a scheme allows."""
STAGING_PREFIX = ".logdex-staging-"
"""The name of a folder in which a run prepares what it publishes begins with it."""
_AT_FDCWD = -100
_EXCHANGE = 2
"""RENAME_EXCHANGE on Linux, RENAME_SWAP on macOS."""
_UNSUPPORTED = frozenset(
    {
        *(errno_codes.ENOSYS, errno_codes.EINVAL, errno_codes.ENOTSUP, errno_codes.EOPNOTSUPP),
        *(errno_codes.EPERM, errno_codes.EXDEV, errno_codes.EMLINK),
    }
)
"""Errors by which a system or a file system says that it has no such operation."""


def _split_at_staging(path: str) -> tuple[str, list[str]]:
    """Returns the path up to the staging folder in it, and the names below that; the whole path and
    no names if it has none."""
    names = path.rstrip("/").split("/")
    for place, name in enumerate(names[:-1], 1):
        if name.startswith(STAGING_PREFIX):
            return "/".join(names[:place]), names[place:]
    return path, []


def _make_below(base: str, names: list[str]) -> None:
    """Creates the directories `names`, each in the one before it. Creates `base` only if there are
    none."""
    if not names:
        os.makedirs(base, exist_ok=True)
    for name in names:
        base = f"{base}/{name}"
        try:
            os.mkdir(base)
        except FileExistsError:
            if not os.path.isdir(base):
                raise


class FileStamp(NamedTuple):
    """What identifies what a name leads to: its kind (``file``, ``directory`` or ``other``, such as
    a symbolic link), its inode, its size (0 for a directory) and its modification time."""

    kind: str
    inode: int
    size_bytes: int
    modified_ns: int


@cache
def _exchange_call() -> Any:
    """Returns the system's function that exchanges two names, as (path, path) → 0 or -1; None if
    there is none."""
    system = ctypes.CDLL(None, use_errno=True)
    if sys.platform == "darwin":
        call = getattr(system, "renamex_np", None)
        return None if call is None else lambda one, other: call(one, other, ctypes.c_uint(_EXCHANGE))
    call = getattr(system, "renameat2", None)
    if call is None:
        return None
    return lambda one, other: call(_AT_FDCWD, one, _AT_FDCWD, other, ctypes.c_uint(_EXCHANGE))


def require_regular(descriptor: int, path: str) -> os.stat_result:
    """Returns the status of what was opened at `path`. Raises `UnusableFileError` unless it is a
    regular file."""
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        raise UnusableFileError(_no_file(status.st_mode), path=path, errno=errno_codes.EINVAL)
    return status


def _no_file(mode: int) -> str:
    kind = _KINDS.get(stat.S_IFMT(mode))
    return NO_FILE if kind is None else f"{kind}, {NO_FILE}"


def _why_no_file(code: int | None, path: str) -> str | None:
    """Returns what is at `path` instead of a file if the system refused an operation on it with
    `code` for that reason, else None."""
    if code in _LEADS_NOWHERE and os.path.islink(path) and not os.path.exists(path):
        return "a symbolic link that leads to nothing"
    if code == errno_codes.ELOOP:
        return "a symbolic link that leads to itself"
    if code == errno_codes.EISDIR:
        return _no_file(stat.S_IFDIR)
    return NO_FILE if code == errno_codes.ENXIO else None


def no_directory(path: str) -> StorageError:
    """Returns the error for what is at `path` where a directory is needed."""
    hint = "look at what it is, and move it away"
    return StorageError("not a directory", path=path, errno=errno_codes.ENOTDIR, hint=hint)


class _Operation:
    """What `Env.operation` returns. It is no generator, because a put of a message is hardly more
    than one system call."""

    __slots__ = ("_path",)

    def __init__(self, path: str) -> None:
        self._path = path

    def __enter__(self) -> None:
        pass

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if error is None:
            return
        if isinstance(error, OSError):
            hint = None
            if error.errno in (errno_codes.EACCES, errno_codes.EPERM):
                hint = "check the owner and the mode of the file"
            elif error.errno in (errno_codes.ENOSPC, errno_codes.EDQUOT):
                hint = "free some space or choose another --output"
            reason = error.strerror or str(error)
            if (no_file := _why_no_file(error.errno, self._path)) is not None:
                raise UnusableFileError(no_file, path=self._path, errno=error.errno) from error
            kind_of_error = VanishedError if error.errno == errno_codes.ENOENT else StorageError
            raise kind_of_error(reason.lower(), path=self._path, errno=error.errno, hint=hint) from error
        if isinstance(error, ValueError):  # a NUL in a path, or an empty mapping
            raise StorageError(str(error), path=self._path, errno=errno_codes.EINVAL) from error


class NameChanges:
    """The part of `Env` that changes names. Its methods are documented as the methods of `Env`."""

    def operation(self, kind: str, path: str) -> AbstractContextManager[None]:
        """Wraps every system call and turns an `OSError` into a `StorageError`, which is a
        `VanishedError` if there is nothing at `path`.

        `kind` is the name of the calling method. `FaultEnv` counts, refuses or kills by it.
        """
        if scheme_of(path) is not None and kind not in READS:
            raise StorageError(
                "remote file systems are only read", path=path, errno=errno_codes.EROFS, hint="write to a local path"
            )
        return _Operation(path)

    def make_dirs(self, path: str) -> None:
        """Creates a directory and its parents, if missing.

        A staging folder is created by its name alone and never as a parent: a worker of a killed
        run would otherwise bring back what the next run has removed. Raises `VanishedError` then.
        """
        with self.operation("make_dirs", path):
            try:
                _make_below(*_split_at_staging(path))
            except FileExistsError:
                raise no_directory(path) from None
            except RecursionError:  # os.makedirs recurses once per path component
                raise OSError(errno_codes.ENAMETOOLONG, os.strerror(errno_codes.ENAMETOOLONG)) from None

    def rename(self, source: str, target: str) -> None:
        """Renames a file or directory, replacing `target` atomically, within one file system.
        Raises `UnusableFileError`, which names `target`, if a file would replace a directory."""
        with self.operation("rename", source):
            try:
                os.replace(source, target)
            except IsADirectoryError as error:
                raise UnusableFileError(_no_file(stat.S_IFDIR), path=target, errno=error.errno) from error

    def link(self, source: str, target: str) -> bool:
        """Gives the file `source` a second name `target`, which must not exist. Returns False, and
        changes nothing, where the file system has no such links."""
        with self.operation("link", source):
            try:
                os.link(source, target, follow_symlinks=False)
            except (NotImplementedError, OSError) as error:
                if isinstance(error, OSError) and error.errno not in _UNSUPPORTED:
                    raise
                return False
        return True

    def exchange(self, one: str, other: str) -> bool:
        """Exchanges two names atomically: each then names what the other named. Returns False, and
        changes nothing, where the system or the file system cannot do that."""
        with self.operation("exchange", one):
            call = _exchange_call()
            if call is None:
                return False
            if call(os.fsencode(one), os.fsencode(other)) == 0:
                return True
            code = ctypes.get_errno()
            if code not in _UNSUPPORTED:
                raise OSError(code, os.strerror(code))
        return False

    def stamp(self, path: str) -> FileStamp | None:
        """Returns what identifies what is at `path`, without following a link; None if nothing has
        that name."""
        with self.operation("stamp", path):
            try:
                found = os.lstat(path)
            except (FileNotFoundError, NotADirectoryError):
                return None
        kind = {stat.S_IFDIR: "directory", stat.S_IFREG: "file"}.get(stat.S_IFMT(found.st_mode), "other")
        return FileStamp(kind, found.st_ino, 0 if kind == "directory" else found.st_size, found.st_mtime_ns)

    def remove_tree(self, path: str) -> None:
        """Removes a directory and its contents, if it exists. A link or a file with that name is
        removed itself."""
        with self.operation("remove_tree", path):
            if os.path.isdir(path) and not os.path.islink(path):
                shutil.rmtree(path)
            else:
                Path(path).unlink(missing_ok=True)

    def remove_dir(self, path: str) -> None:
        """Removes an empty directory."""
        with self.operation("remove_dir", path):
            Path(path).rmdir()

    def remove(self, path: str) -> None:
        """Removes one file, if it exists."""
        with self.operation("remove", path):
            Path(path).unlink(missing_ok=True)

    def sync_dir(self, path: str) -> None:
        """fsyncs a directory, so that the names in it are on disk."""
        with self.operation("sync_dir", path):
            # Without O_DIRECTORY, opening a FIFO would block for ever.
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY)
            try:
                os.fsync(fd)
            finally:
                os.close(fd)
