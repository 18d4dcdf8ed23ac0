"""Asking who holds a POSIX record lock, which is what Java's FileLock is, without taking it.

Python packs `struct flock` itself for this call, and systems differ in the order of its fields.
"""

from __future__ import annotations

import fcntl
import struct
import sys

_FLOCK_SIZE_BYTES_MAX = 64


def record_lock_is_held(fd: int) -> bool | None:
    """Whether another process holds a lock on the file open at `fd`; None where the file system does not say. Locks of
    the asking process are not seen."""
    # macOS and the BSDs begin with start, length and owner, Linux with the kind of lock
    form, kind_at = ("qqihh", 3) if sys.platform.startswith(("darwin", "freebsd")) else ("hhqqi", 0)
    fields = [0] * 5
    fields[kind_at] = fcntl.F_WRLCK
    asked = struct.pack(form, *fields).ljust(_FLOCK_SIZE_BYTES_MAX, b"\0")
    try:
        answer = fcntl.fcntl(fd, fcntl.F_GETLK, asked)
    except OSError:
        return None
    return bool(struct.unpack_from(form, answer)[kind_at] != fcntl.F_UNLCK)
