"""A bounded set of files that stay open between reads, shared by threads."""

from __future__ import annotations

import threading
from collections import OrderedDict
from contextlib import AbstractContextManager

from logdex.io.env import Env, ReadFile

OPEN_FILES_MAX = 32
"""Files that one reader keeps open. A store may have thousands, a process only 1,024
descriptors."""


_OPEN_LEAST = 4
"""How many each holder may keep open in any case."""


class OpenShare:
    """How many files each of several holders may keep open, so that all of them together take at
    most half of the descriptors that the process may have. Thread-safe."""

    def __init__(self, most: int, *, files_each: int = 1) -> None:
        """`most` is the bound of one holder, `files_each` the number of descriptors that each of
        what it keeps open takes."""
        self._most = most
        self._files_each = files_each
        self._holders: set[int] = set()

    def of(self, holder: object, env: Env) -> int:
        """Returns the number for a holder, which counts as one until it leaves."""
        self._holders.add(id(holder))
        together = env.descriptors_max() // 2 // self._files_each
        return max(min(self._most, together // len(self._holders)), _OPEN_LEAST)

    def leave(self, holder: object) -> None:
        """The holder has closed all of its files."""
        self._holders.discard(id(holder))


class _Loan:
    """What `OpenFiles.lend` returns. It is no generator, because reading a message is hardly more
    than one system call."""

    __slots__ = ("_file", "_lender", "_path")

    def __init__(self, lender: OpenFiles, path: str) -> None:
        self._lender, self._path = lender, path

    def __enter__(self) -> ReadFile:
        file = self._file = self._lender._take(self._path)
        return file

    def __exit__(self, *_: object) -> None:
        self._lender._give_back(self._path, self._file)


class OpenFiles:
    """The most recently used files, opened through an `Env`. Thread-safe; a lent file stays
    open."""

    def __init__(self, env: Env, open_max: int = OPEN_FILES_MAX) -> None:
        self._env = env
        self._open_max = open_max
        self._lock = threading.Lock()
        self._files: OrderedDict[str, ReadFile] = OrderedDict()
        self._users: dict[ReadFile, int] = {}

    def lend(self, path: str) -> AbstractContextManager[ReadFile]:
        """Returns a context that opens the file at `path`, if needed, for use within the `with`
        block only.

        The block raises `StorageError` as `Env.open_read` does.
        """
        return _Loan(self, path)

    def read_at(self, path: str, position: int, size_bytes: int) -> bytes:
        """Reads from the file at `path` as `ReadFile.read_at` does, and opens it if needed. Raises
        `StorageError` also as `Env.open_read` does."""
        file = self._take(path)
        try:
            return file.read_at(position, size_bytes)
        finally:
            self._give_back(path, file)

    def _take(self, path: str) -> ReadFile:
        with self._lock:
            file = self._files.get(path)
            if file is None:
                file = self._files[path] = self._env.open_read(path)
            else:
                self._files.move_to_end(path)
            self._users[file] = self._users.get(file, 0) + 1
            if len(self._files) > self._open_max:
                self._shrink(self._open_max)
        return file

    def _give_back(self, path: str, file: ReadFile) -> None:
        with self._lock:
            users = self._users.pop(file) - 1
            if users:
                self._users[file] = users
            elif self._files.get(path) is not file:
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
