"""POSIX record locks, like Java's `FileLock`: takes a lock, reports whether one is held, and avoids
losing one.

A record lock belongs to the process, and the system drops it as soon as the process closes any
descriptor of that file, even one that was opened only for reading. This module therefore keeps a
table of the locks of this process: a file is locked once, and a descriptor of a locked file stays
open until the lock is released. `Env` closes all its descriptors here. Mappings of a lock file, and
files that are opened without `Env`, are not covered.

A forked child inherits the descriptors but no lock, so its table is empty.

To test for a lock, this module packs `struct flock` itself; the order of its fields depends on the
system.
"""

from __future__ import annotations

import fcntl
import os
import struct
import sys
import threading
from contextlib import suppress
from dataclasses import dataclass, field

_FLOCK_SIZE_BYTES_MAX = 64

Identity = tuple[int, int]
"""The device and the inode number of a file: the same for every path and every descriptor of it."""


@dataclass(slots=True)
class _Lock:
    """A lock of this process: the descriptor with which it was taken, and those to close when it is
    released."""

    descriptor: int
    waiting: list[int] = field(default_factory=list)


class _LockedDescriptors:
    """The descriptors with which this process holds locks, by file."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Empties the table in a forked child. Replaces the guard, which another thread of the
        parent may have held."""
        self.guard = threading.RLock()  # a generator that is collected here may close a file
        self.locks: dict[Identity, _Lock] = {}


_locked = _LockedDescriptors()
os.register_at_fork(after_in_child=_locked.clear)


def identity_of(descriptor: int) -> Identity:
    """Returns the identity of an open file."""
    status = os.fstat(descriptor)
    return status.st_dev, status.st_ino


def try_record_lock(descriptor: int) -> bool:
    """Locks a whole open file until `close_descriptor` closes this descriptor. Returns False if
    this process or another holds a lock on the file."""
    with _locked.guard:
        identity = identity_of(descriptor)
        if identity in _locked.locks:
            return False
        _locked.locks[identity] = _Lock(descriptor)
        try:
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BaseException as error:
            _forget(identity)
            if isinstance(error, (BlockingIOError, PermissionError)):  # a system may raise either
                return False
            raise
        return True


def _forget(identity: Identity) -> None:
    """Removes a lock from the table, and closes the descriptors that waited for its release."""
    lock = _locked.locks.pop(identity, None)
    for each in lock.waiting if lock is not None else ():
        with suppress(OSError):  # a writer has already synced what must be durable
            os.close(each)


def record_lock_is_held(descriptor: int, start: int = 0) -> bool | None:
    """Whether this process or another holds a lock on an open file, on any byte from `start` on;
    None if the file system cannot report it."""
    # macOS and the BSDs begin with start, length and owner, Linux with the kind of lock
    form, kind_at, start_at = ("qqihh", 3, 0) if sys.platform.startswith(("darwin", "freebsd")) else ("hhqqi", 0, 2)
    fields = [0] * 5
    fields[kind_at], fields[start_at] = fcntl.F_WRLCK, start
    asked = struct.pack(form, *fields).ljust(_FLOCK_SIZE_BYTES_MAX, b"\0")
    with _locked.guard:
        if identity_of(descriptor) in _locked.locks:
            return True  # the system does not report a process's own locks to it
        try:
            answer = fcntl.fcntl(descriptor, fcntl.F_GETLK, asked)
        except OSError:
            return None
    return bool(struct.unpack_from(form, answer)[kind_at] != fcntl.F_UNLCK)


def close_descriptor(descriptor: int) -> None:
    """Closes a descriptor, and releases the lock that was taken with it. If this process holds a
    lock on the same file through another descriptor, this descriptor stays open until that lock is
    released."""
    with _locked.guard:
        if not _locked.locks:
            os.close(descriptor)
            return
        identity = identity_of(descriptor)
        lock = _locked.locks.get(identity)
        if lock is not None and lock.descriptor != descriptor:
            lock.waiting.append(descriptor)
            return
        _forget(identity)
        os.close(descriptor)
