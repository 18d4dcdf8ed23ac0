"""Locks between processes, on a broker's own lock file or on one of Logdex's.

The lock is a POSIX record lock, as Java's `FileLock` is: a broker that runs holds it, and a broker that starts is
refused while this process holds it. A record lock belongs to the process, so it does not keep two users within one
process apart. The table in this module does. It finds a lock by the file's device and number and by its real path:
a link, a relative path, or a lock file that was removed and created again does not lead to a second lock.
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
    """A lock of this process. `path` is the real path of its file, `common` the state that its holders share."""

    path: str
    identity: Identity
    file: WriteFile
    is_shared: bool
    holders: int = 0
    common: object = None
    process: int = field(default_factory=os.getpid)


class _Table:
    """The locks of this process. `guard` is held while one is taken, shared or released."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Empties the table, in a forked child. The guard is a new one: another thread may have held the old one."""
        self.guard = threading.RLock()
        self._locks: list[_Held] = []

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
    """A lock that this process holds until `release` or the end of the ``with`` block; `take_lock` returns it. A forked
    child does not hold it and cannot release it. Any thread may call any method."""

    def __init__(self, held: _Held) -> None:
        self._held = held
        self._released = False
        held.holders += 1

    @property
    def path(self) -> str:
        """The lock file's real path."""
        return self._held.path

    @property
    def is_own(self) -> bool:
        """Whether this process took it; False in a child that was forked later."""
        return self._held.process == os.getpid()

    @property
    def is_last(self) -> bool:
        """Whether nobody else in this process shares it."""
        return self._held.holders == 1

    def common(self, make: Callable[[], Common]) -> Common:
        """Returns the state that all who share the lock have in common; the first who asks makes it."""
        with _table.guard:
            if self._held.common is None:
                self._held.common = make()
            return cast(Common, self._held.common)

    def release(self) -> None:
        """Releases the lock and leaves the file, as a broker does. A second call, or one in a forked child, does
        nothing."""
        if not self.is_own:
            return
        with _table.guard:
            if self._released:
                return
            self._released = True
            self._held.holders -= 1
            if self._held.holders == 0:
                self._held.file.close()

    def __enter__(self) -> ProcessLock:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


def take_lock(path: str, *, shared: bool = False, env: Env = DEFAULT_ENV) -> ProcessLock | LockHolder:
    """Takes the lock on the file `path`, which is created if it is missing; returns who holds it if that fails.

    Users within this process that all ask for a `shared` lock share one; for other processes it is exclusive.
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


def lock_is_held(path: str, *, env: Env = DEFAULT_ENV) -> bool | None:
    """Whether any process, this one included, holds the lock on the file `path`; None if the system does not say.
    Takes no lock, and keeps the one that this process may hold."""
    with _table.guard:
        if _table.find(env.real_path(path), env) is not None:
            return True
        return env.lock_is_held(path)
