"""The lock that a running broker holds on its store.

It is taken before anything is written into the store itself. Source:
``docs/formats/abort-and-lock.md``; DefaultMessageStore.start.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from logdex.errors import LogInUseError, UsageError
from logdex.io.env import DEFAULT_ENV, Env
from logdex.io.process_lock import LockHolder, ProcessLock, lock_is_held, take_lock
from logdex.rocketmq.files.store_files import StorePaths

_LOCK_TEXT = b"lock"


def take_broker_lock(root: str, *, env: Env = DEFAULT_ENV) -> ProcessLock:
    """Takes the store's lock for as long as this process writes the store, as its broker does; a
    missing lock file is created.

    Raises `LogInUseError` if a broker, or this process, holds it.
    """
    path = StorePaths(root).lock
    lock = take_lock(path, env=env)
    if isinstance(lock, LockHolder):
        holder = "it is open in this process" if lock is LockHolder.THIS_PROCESS else _other_holder(root, env)
        raise LogInUseError(holder, path=root, hint="close it there first")
    try:
        if env.size_bytes(path) < len(_LOCK_TEXT):
            with env.open_write(path) as file:
                file.write_at(0, _LOCK_TEXT)
    except BaseException:
        lock.release()
        raise
    return lock


def broker_runs(root: str, *, env: Env = DEFAULT_ENV) -> bool:
    """Whether a broker has the store open, and not a `MessageStore`, which locks the whole lock
    file where a broker locks its first byte alone. False where the system does not report locks."""
    path = StorePaths(root).lock
    return bool(lock_is_held(path, env=env)) and lock_is_held(path, start=1, env=env) is False


@contextmanager
def broker_lock(root: str, *, env: Env = DEFAULT_ENV) -> Iterator[None]:
    """Holds the store's lock, as its broker does, until the block ends; a store without lock file
    gets none.

    Raises `UsageError` if a broker, or this process, holds it. Readers take no lock.
    """
    path = StorePaths(root).lock
    if not env.exists(path):
        yield
        return
    lock = take_lock(path, env=env)
    if lock is LockHolder.THIS_PROCESS:
        raise UsageError(
            f"{root}: this process writes into this store already",
            hint="wait until it is done, or choose an --output elsewhere",
        )
    if lock is LockHolder.ANOTHER_PROCESS:
        raise UsageError(f"{root}: {_other_holder(root, env)}", hint="stop it first, or choose an --output elsewhere")
    with lock:
        yield


def _other_holder(root: str, env: Env) -> str:
    is_broker = broker_runs(root, env=env)
    return "a broker runs on this store" if is_broker else "another process has it open as a MessageStore"
