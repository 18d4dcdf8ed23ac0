"""Atomic replacement of small files: write a temporary file, fsync it, rename it, fsync the
directory.

Source: Kafka's CheckpointFile, Utils.atomicMoveWithFallback.
"""

from __future__ import annotations

import posixpath

from logdex.errors import LogdexError
from logdex.io.env import DEFAULT_ENV, Env

TEMPORARY_SUFFIX = ".tmp"


def write_atomically(path: str, data: bytes, *, backup: str | None = None, env: Env = DEFAULT_ENV) -> None:
    """Replaces the file at `path` by `data`, which is on disk when this returns.

    At any moment the file has its old or its new contents. With `backup`, the old file is renamed
    to that path first, so that for a moment only the backup is there. After an error the temporary
    file is removed if possible. Raises `UnusableFileError` if what would become the backup is no
    file.
    """
    if backup is not None and env.exists(path) and not env.is_file(path):
        env.open_read(path).close()  # says what it is
    beside = path + TEMPORARY_SUFFIX
    opened = env.open_write(beside)
    try:
        with opened as file:
            file.truncate(0)
            file.write_at(0, data)
            file.sync()
        if backup is not None and env.exists(path):
            env.rename(path, backup)
        env.rename(beside, path)
    except LogdexError:
        try:
            env.remove(beside)
        except LogdexError:
            pass  # the first error is the one to raise
        raise
    env.sync_dir(posixpath.dirname(path) or ".")
