"""Locks between processes, on a broker's lock file or on Logdex's own.

A lock is a POSIX record lock, like Java's `FileLock`: a running broker holds it, and a broker
cannot start while this process holds it. A record lock belongs to the process, so it does not
exclude two users within one process. The table in this module does. It identifies a lock both by
the device and inode number of its file and by its real path, so a link, a relative path, or a lock
file that was removed and created again cannot lead to a second lock.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import TypeVar, cast

from logdex.io.env import DEFAULT_ENV, Env, WriteFile
from logdex.io.record_lock import Identity

Common = TypeVar("Common")


class LockHolder(Enum):
    """Who holds a lock that could not be taken."""

    THIS_PROCESS = "this process"
    ANOTHER_PROCESS = "another process"


@dataclass(slots=True, eq=False)
class _Held:
    """A lock of this process. `path` is the real path of its file, and `common` is the state that
    its holders share."""

    path: str
    identity: Identity
    file: WriteFile
    is_shared: bool
    holders: list[ProcessLock] = field(default_factory=list)
    common: object = None


class _Table:
    """The locks of this process. `guard` is held while one is taken, shared or released."""

    def __init__(self) -> None:
        self._locks: list[_Held] = []
        self.clear()

    def clear(self) -> None:
        """Empties the table in a forked child, which holds none of the locks. Replaces the guard,
        which another thread of the parent may have held."""
        self.guard = threading.RLock()
        for lock in [lock for held in self._locks for lock in held.holders]:
            lock.is_own = False
        self._locks = []

    def find(self, path: str, env: Env) -> _Held | None:
        """Returns the lock on a real path; the caller holds the guard."""
        self._locks = [held for held in self._locks if held.file.is_open]
        if not self._locks:
            return None
        identity = env.identity(path)
        same = (held for held in self._locks if path == held.path or identity == held.identity)
        return next(same, None)

    def add(self, held: _Held) -> None:
        """Adds a lock; the caller holds the guard."""
        self._locks.append(held)


_table = _Table()
os.register_at_fork(after_in_child=_table.clear)


class ProcessLock:
    """A lock, as `take_lock` returns it. This process holds it until `release` or the end of the
    ``with`` block. A forked child does not hold it and cannot release it. Thread-safe."""

    def __init__(self, held: _Held) -> None:
        self._held = held
        self.is_own = True
        """Whether this process took the lock; False in a child that was forked later."""
        held.holders.append(self)

    @property
    def path(self) -> str:
        """The lock file's real path."""
        return self._held.path

    @property
    def is_last(self) -> bool:
        """Whether no other user in this process shares the lock."""
        return len(self._held.holders) == 1

    def common(self, make: Callable[[], Common]) -> Common:
        """Returns the state that all holders of the lock share. The first call creates it with
        `make`."""
        with _table.guard:
            if self._held.common is None:
                self._held.common = make()
            return cast(Common, self._held.common)

    def release(self) -> None:
        """Releases the lock and leaves the file, as a broker does. Does nothing if the lock was
        released already, or in a forked child."""
        if not self.is_own:
            return
        with _table.guard:
            holders = self._held.holders
            if self in holders:
                holders.remove(self)
                if not holders:
                    self._held.file.close()

    def __enter__(self) -> ProcessLock:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


def take_lock(path: str, *, shared: bool = False, env: Env = DEFAULT_ENV) -> ProcessLock | LockHolder:
    """Takes the lock on the file `path`, which is created if it is missing. Returns the lock, or
    who holds it if it cannot be taken.

    All users in this process that ask for a `shared` lock share one; other processes are excluded.
    """
    path = env.real_path(path)
    with _table.guard:
        held = _table.find(path, env)
        if held is not None:
            return ProcessLock(held) if shared and held.is_shared else LockHolder.THIS_PROCESS
        file = env.lock_file(path)
        if file is None:
            return LockHolder.ANOTHER_PROCESS
        try:
            held = _Held(path, file.identity, file, shared)
            lock = ProcessLock(held)
            _table.add(held)
        except BaseException:
            file.close()
            raise
        return lock


def lock_is_held(path: str, *, start: int = 0, env: Env = DEFAULT_ENV) -> bool | None:
    """Whether any process, including this one, holds the lock on the file `path`, or on a byte of
    it from `start` on; None if the system cannot report it. Takes no lock, and keeps a lock that
    this process holds: it does not open that file, which would then stay open."""
    with _table.guard:
        if _table.find(env.real_path(path), env) is not None:
            return True
        return env.lock_is_held(path, start)
