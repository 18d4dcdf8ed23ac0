"""Writes many files with a bounded number of open ones.

The files are preallocated to their full size and synced once, at the end.
"""

from __future__ import annotations

import posixpath
from collections import OrderedDict
from types import TracebackType
from typing import Self

from logdex.io.env import Env, WriteFile
from logdex.io.mapped.byte_array import ByteArray
from logdex.io.open_files import OpenShare

OPEN_MAX = 128
"""Below the usual limit of descriptors (1,024), with room for the rest of the process."""
_SHARE = OpenShare(OPEN_MAX)


class OutputFiles:
    """Files that are written at positions and opened when needed. For one thread.

    The least recently written file is closed first. As a context manager it calls `close`, or
    `abandon` after an error.
    """

    def __init__(self, env: Env, *, sync: bool, open_max: int | None = None) -> None:
        """Without `open_max`, as many files stay open as the process's limit leaves."""
        self._env = env
        self._sync = sync
        self._open_max = open_max
        self._open: OrderedDict[str, WriteFile] = OrderedDict()
        self._closed: dict[str, None] = {}
        self._directories: set[str] = set()

    def write_at(self, path: str, file_size_bytes: int, position: int, data: ByteArray | bytes) -> None:
        """Writes `data` at `position`. The first write creates the file with `file_size_bytes`
        zeros."""
        file = self._open.get(path)
        if file is None:
            file = self._reopen(path, file_size_bytes)
        else:
            self._open.move_to_end(path)
        file.write_at(position, data)
        if self._sync and position + len(data) == file_size_bytes:
            file.begin_writeback()

    def put(self, path: str, data: ByteArray | bytes) -> None:
        """Writes a whole file."""
        self.write_at(path, len(data), 0, data)

    def _reopen(self, path: str, file_size_bytes: int) -> WriteFile:
        open_max = _SHARE.of(self, self._env) if self._open_max is None else self._open_max
        while len(self._open) >= open_max:
            old_path, old = self._open.popitem(last=False)
            old.close()
            self._closed[old_path] = None
        directory = posixpath.dirname(path)
        if directory not in self._directories:
            self._env.make_dirs(directory)
            self._directories.add(directory)
        file = self._open[path] = self._env.open_write(path)
        if self._closed.pop(path, path) is not None:
            file.truncate(file_size_bytes)
        return file

    def remove_dir(self, directory: str) -> None:
        """Removes a directory with all files that were written in it."""
        for path in [path for path in self._open if posixpath.dirname(path) == directory]:
            self._open.pop(path).close()
        for path in [path for path in self._closed if posixpath.dirname(path) == directory]:
            del self._closed[path]
        self._directories.discard(directory)
        self._env.remove_tree(directory)

    def close(self) -> int:
        """Syncs the files if `sync` is set, closes them and returns their number."""
        count = len(self._open) + len(self._closed)
        try:
            if self._sync:
                for file in self._open.values():
                    file.begin_writeback()  # starts them all before the first fsync waits
                for file in self._open.values():
                    file.sync()
                    file.close()
                for path in self._closed:
                    with self._env.open_write(path) as file:
                        file.sync()
        finally:
            self.abandon()
        return count

    def abandon(self) -> None:
        """Closes all files without syncing them."""
        for file in self._open.values():
            file.close()
        self._open.clear()
        self._closed.clear()
        _SHARE.leave(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if error is None:
            self.close()
        else:
            self.abandon()
