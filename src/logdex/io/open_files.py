"""A bounded set of files that stay open between reads, shared by threads."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager

from logdex.io.env import Env, ReadFile

OPEN_FILES_MAX = 32
"""Files that one reader keeps open. A store may have thousands, a process only 1,024
descriptors."""


class OpenFiles:
    """The most recently used files, opened through an `Env`. Thread-safe; a lent file stays
    open."""

    def __init__(self, env: Env, open_max: int = OPEN_FILES_MAX) -> None:
        self._env = env
        self._open_max = open_max
        self._lock = threading.Lock()
        self._files: OrderedDict[str, ReadFile] = OrderedDict()
        self._users: dict[ReadFile, int] = {}

    @contextmanager
    def lend(self, path: str) -> Iterator[ReadFile]:
        """Yields the file at `path`, opened if needed, for use within the `with` block only.

        Raises `StorageError` as `Env.open_read` does.
        """
        with self._lock:
            file = self._files.get(path)
            if file is None:
                file = self._env.open_read(path)
                self._files[path] = file
            self._files.move_to_end(path)
            self._users[file] = self._users.get(file, 0) + 1
            self._shrink(self._open_max)
        try:
            yield file
        finally:
            with self._lock:
                self._users[file] -= 1
                if not self._users[file]:
                    del self._users[file]
                    if self._files.get(path) is not file:
                        file.close()  # the file was evicted while it was lent

    def forget(self, path: str) -> None:
        """Closes the file at `path`, at the latest when no thread uses it.

        Call this before `path` is removed or becomes another file.
        """
        with self._lock:
            file = self._files.pop(path, None)
            if file is not None and file not in self._users:
                file.close()

    def _shrink(self, keep: int) -> None:
        while len(self._files) > keep:
            _, file = self._files.popitem(last=False)
            if file not in self._users:
                file.close()

    def close(self) -> None:
        """Closes all files. A lent file is closed when its `with` block ends."""
        with self._lock:
            self._shrink(0)
