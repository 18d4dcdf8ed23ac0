"""One writer: the lock of a log directory, which a running broker holds too, and who has what open in this process.

Java's FileLock is a POSIX record lock. Such a lock belongs to the process, and closing any descriptor of the file gives
it up; so a process opens each lock file once, counts its holders here, and keeps its own logs apart by a table.

Source: Kafka's LogManager.lockLogDirs, FileLock.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass

from logdex.io.env import Env, WriteFile
from logdex.kafka.errors import LogInUseError
from logdex.kafka.segment_files import LOCK_FILE


@dataclass(slots=True)
class _Held:
    file: WriteFile
    count: int
    exclusive: bool


_guard = threading.Lock()
_held: dict[str, _Held] = {}


class DirectoryLock:
    """Holds ``<directory>/.lock``; `LogInUseError` where another process does.

    Logs of one process share the lock of their log directory; with `exclusive` (a directory that is one log's own)
    they do not. `release` is idempotent. Any thread may call it.
    """

    def __init__(self, directory: str, *, env: Env, exclusive: bool = False) -> None:
        self.path = f"{env.real_path(directory)}/{LOCK_FILE}"
        self._mine: _Held | None = None
        with _guard:
            held = _held.get(self.path)
            if held is not None and held.file.is_open:
                if exclusive or held.exclusive:
                    raise LogInUseError("open in this process already", path=directory, hint="close that log first")
                held.count += 1
            else:
                file = env.lock_file(self.path, as_java=True)
                if file is None:
                    raise LogInUseError(
                        "another process holds the lock", path=directory, hint="stop the broker or the other writer"
                    )
                held = _held[self.path] = _Held(file, 1, exclusive)
            self._mine = held

    def release(self) -> None:
        """Gives the lock up; its file stays, as a broker's does."""
        with _guard:
            held, self._mine = self._mine, None
            if held is None:
                return
            held.count -= 1
            if held.count == 0:
                if _held.get(self.path) is held:
                    del _held[self.path]
                held.file.close()


_partitions: dict[str, DirectoryLock] = {}


def claim_partition(path: str, lock: DirectoryLock, *, env: Env) -> str:
    """Notes that this process has the partition at `path` open, under `lock`; gives what `give_up_partition` takes."""
    real = env.real_path(path)
    with _guard:
        holder = _partitions.get(real)
        if holder is not None and holder._mine is not None and holder._mine.file.is_open:
            raise LogInUseError("open in this process already", path=path, hint="close that log first")
        _partitions[real] = lock
    return real


def give_up_partition(claim: str, lock: DirectoryLock) -> None:
    """Undoes `claim_partition`; a claim that another log has taken over since stays."""
    with _guard:
        if _partitions.get(claim) is lock:
            del _partitions[claim]
