"""One writer: the lock of a log directory, which a running broker holds too, and who has what open in this process.

Java's FileLock is a POSIX record lock. Such a lock belongs to the process, and closing any descriptor of the file gives
it up; so a process opens each lock file once, counts its holders here, and keeps its own logs apart by a table. A
forked child inherits table and descriptors, but not the lock: what it inherited it may not write.

Source: Kafka's LogManager.lockLogDirs, FileLock.
"""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass, field

from logdex.errors import LogInUseError
from logdex.io.env import Env, WriteFile
from logdex.kafka.files.file_names import LOCK_FILE


@dataclass(slots=True)
class _Held:
    """A lock file that this process holds. `claims` are the partitions that are open under it."""

    file: WriteFile
    count: int = 0
    claims: set[str] = field(default_factory=set)
    notes: dict[str, bytes | bool | None] = field(default_factory=dict)
    guard: threading.RLock = field(default_factory=threading.RLock)
    process: int = field(default_factory=os.getpid)


_table_guard = threading.Lock()
_table: dict[str, _Held] = {}


class DirectoryLock:
    """Holds ``<directory>/.lock``; `LogInUseError` where another process does.

    Logs of one process share the lock of their log directory; with `exclusive` (a directory that is one log's own)
    they do not. `notes` and `guard` are shared by those who share it. Any thread may call any method.
    """

    def __init__(self, directory: str, *, env: Env, exclusive: bool = False) -> None:
        self.directory = env.real_path(directory)
        with _table_guard:
            held = _table.get(self.directory)
            if held is None or not held.file.is_open or held.process != os.getpid():
                held = _table[self.directory] = _Held(self._take(env))
            elif exclusive:
                raise LogInUseError("open in this process already", path=directory, hint="close that log first")
            held.count += 1
        self._held = held
        self._released = False

    def _take(self, env: Env) -> WriteFile:
        file = env.lock_file(f"{self.directory}/{LOCK_FILE}", as_java=True)
        if file is None:
            raise LogInUseError(
                "another process holds the lock", path=self.directory, hint="stop the broker or the other writer"
            )
        return file

    @property
    def guard(self) -> threading.RLock:
        """Held by who changes files of the directory that its partitions share."""
        return self._held.guard

    @property
    def notes(self) -> dict[str, bytes | bool | None]:
        """What those who share the lock leave for each other; under `guard`."""
        return self._held.notes

    @property
    def is_own(self) -> bool:
        """Whether this process took it; False in a child that was forked since."""
        return self._held.process == os.getpid()

    @property
    def is_last(self) -> bool:
        """Whether nobody else of this process holds it."""
        return self._held.count == 1

    def claim(self, partition: str) -> None:
        """Notes that the partition directory `partition` (a real path) is open; `LogInUseError` if it is already."""
        with _table_guard:
            if partition in self._held.claims:
                raise LogInUseError("open in this process already", path=partition, hint="close that log first")
            self._held.claims.add(partition)
        self._claimed = partition

    def release(self) -> None:
        """Gives lock and claim up; the file stays, as a broker's does. Again: nothing."""
        with _table_guard:
            if self._released:
                return
            self._released = True
            held = self._held
            held.claims.discard(self._claimed)
            held.count -= 1
            if held.count == 0:
                if _table.get(self.directory) is held:
                    del _table[self.directory]
                held.file.close()

    _claimed = ""


def lock_is_held(directory: str, *, env: Env) -> bool | None:
    """Whether a process, a running broker perhaps or this one, holds the lock of a log directory: asked without taking
    it. None where the system does not say."""
    with _table_guard:  # this process's lock would go with the descriptor that asking opens
        held = _table.get(env.real_path(directory))
        if held is not None and held.file.is_open and held.process == os.getpid():
            return True
        return env.java_lock_is_held(f"{directory}/{LOCK_FILE}")
