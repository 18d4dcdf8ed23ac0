"""The checkpoint of an open store: up to where its files are on disk.

It is written in place: its fields lie in one sector of the disk, so a power cut leaves the old ones
or the new ones. Source: StoreCheckpoint.
"""

from __future__ import annotations

import threading
from typing import Any

from logdex.errors import StoreError
from logdex.io.env import Env
from logdex.layout.rocketmq import CHECKPOINT, CHECKPOINT_FILE_SIZE_BYTES
from logdex.rocketmq.files.checkpoint import StoreCheckpoint


class LiveCheckpoint:
    """Thread-safe. `values` is what is on disk, or will be after `write`. Raises
    `UnusableFileError` if something else has the checkpoint's name."""

    def __init__(self, path: str, env: Env) -> None:
        self._path, self._env = path, env
        if env.exists(path) and not env.is_file(path):
            env.open_read(path).close()  # says what it is
        self._lock = threading.Lock()
        self.values = read_or_zeros(path, env)

    def write(self, **changes: Any) -> None:
        """Changes fields, durably."""
        with self._lock:
            is_new = not self._env.exists(self._path)
            is_new = is_new or self._env.size_bytes(self._path) != CHECKPOINT_FILE_SIZE_BYTES
            values = self.values._replace(**changes)
            if values == self.values and not is_new:
                return
            with self._env.open_write(self._path) as file:
                if is_new:
                    file.truncate(CHECKPOINT_FILE_SIZE_BYTES)
                file.write_at(0, CHECKPOINT.pack(*values))
                file.sync()
            if is_new:
                self._env.sync_dir(self._path.rpartition("/")[0])
            self.values = values


def read_or_zeros(path: str, env: Env) -> StoreCheckpoint:
    """The checkpoint at `path`; all zeros where there is none, or none that can be read."""
    try:
        return StoreCheckpoint.read(path, env=env) if env.is_file(path) else StoreCheckpoint()
    except StoreError:
        return StoreCheckpoint()
