"""The lock file of a log directory, which a running broker holds too, and the partitions that are
open under it.

All logs of one process in the same log directory share its lock and the state that belongs to the
directory.

Source: Kafka's LogManager.lockLogDirs, FileLock.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from logdex.errors import LogInUseError
from logdex.io import process_lock
from logdex.io.atomic_file import write_atomically
from logdex.io.env import Env
from logdex.io.process_lock import LockHolder, take_lock
from logdex.kafka.files.file_names import CLEAN_SHUTDOWN, LOCK_FILE

MARK, FAILED = "mark", "failed"
"""The notes of the partitions that are or were open under a lock: the content of the clean shutdown
file before, which is removed while one is open, None if there was none; and whether one of them was
not closed cleanly."""


@dataclass(slots=True)
class _Common:
    """The state that all holders of a directory's lock share. `claims` holds the paths of the
    partition directories that are open."""

    claims: set[str] = field(default_factory=set)
    notes: dict[str, bytes | bool | None] = field(default_factory=dict)
    guard: threading.RLock = field(default_factory=threading.RLock)


class DirectoryLock:
    """Holds ``<directory>/.lock``. Raises `LogInUseError` if another process holds it.

    Logs of one process share the lock of their log directory, and its `notes` and `guard`. With
    `exclusive`, nobody shares the lock; this is for the directory of a single log and for a job
    that writes in place. Any thread may call any method. A forked child does not hold the lock.
    """

    def __init__(self, directory: str, *, env: Env, exclusive: bool = False) -> None:
        self.directory = env.real_path(directory)
        lock = take_lock(f"{self.directory}/{LOCK_FILE}", shared=not exclusive, env=env)
        if lock is LockHolder.THIS_PROCESS:
            raise LogInUseError("open in this process already", path=directory, hint="close that log first")
        if lock is LockHolder.ANOTHER_PROCESS:
            raise LogInUseError(
                "another process holds the lock", path=self.directory, hint="stop the broker or the other writer"
            )
        self._lock = lock
        self._env = env
        self._common = lock.common(_Common)
        self._claimed = ""

    @property
    def guard(self) -> threading.RLock:
        """The mutex to hold while changing files that the partitions of the directory share."""
        return self._common.guard

    @property
    def notes(self) -> dict[str, bytes | bool | None]:
        """Values that the holders of the lock share with each other. Read and write them only while
        holding `guard`."""
        return self._common.notes

    @property
    def is_own(self) -> bool:
        """Whether this process took the lock; False in a child that was forked afterwards."""
        return self._lock.is_own

    @property
    def is_last(self) -> bool:
        """Whether this is the last holder in this process."""
        return self._lock.is_last

    def claim(self, partition: str) -> None:
        """Registers the partition directory `partition` (a real path) as open. Raises
        `LogInUseError` if it is open already."""
        with self.guard:
            if partition in self._common.claims:
                raise LogInUseError("open in this process already", path=partition, hint="close that log first")
            self._common.claims.add(partition)
            self._claimed = partition

    def release(self) -> None:
        """Releases the lock and the claim, and leaves the lock file in place, as a broker does. The
        last holder restores the clean shutdown file, if it existed and every partition was closed
        cleanly. Does nothing on a second call or in a forked child."""
        if not self.is_own:
            return
        try:
            with self.guard:
                self._common.claims.discard(self._claimed)
                self._claimed = ""
                mark = self.notes.get(MARK)
                if self.is_last and isinstance(mark, bytes) and not self.notes.get(FAILED):
                    write_atomically(f"{self.directory}/{CLEAN_SHUTDOWN}", mark, env=self._env)
                    del self.notes[MARK]  # a log that has come to share the lock meanwhile takes it away again
        finally:
            self._lock.release()


@contextmanager
def in_place_lock(directory: str, *, env: Env) -> Iterator[None]:
    """Holds the lock of a log directory exclusively, for a job that writes in place. If the
    directory has no lock file, none is created. Raises `LogInUseError` while a broker runs on the
    directory or this process has one of its logs open."""
    if not env.exists(f"{directory}/{LOCK_FILE}"):
        yield
        return
    lock = DirectoryLock(directory, env=env, exclusive=True)
    try:
        yield
    finally:
        lock.release()


def lock_is_held(directory: str, *, env: Env) -> bool | None:
    """Whether any process, this one included, holds the lock of a log directory. The lock is not
    taken to find out. Returns None where the operating system cannot report it."""
    return process_lock.lock_is_held(f"{directory}/{LOCK_FILE}", env=env)
