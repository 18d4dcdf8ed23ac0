"""Small files that are replaced whole: written beside, synced, renamed, and the name synced.

Source: Kafka's CheckpointFile, Utils.atomicMoveWithFallback.
"""

from __future__ import annotations

import posixpath

from logdex.errors import LogdexError
from logdex.io.env import DEFAULT_ENV, Env

TEMPORARY_SUFFIX = ".tmp"


def write_atomically(path: str, data: bytes, *, env: Env = DEFAULT_ENV) -> None:
    """Makes `data` what is at `path`, on disk when this returns; at any moment the old bytes or the new ones are there.
    Where it fails nothing is left beside `path`, if the system lets it be removed."""
    beside = path + TEMPORARY_SUFFIX
    try:
        with env.open_write(beside) as file:
            file.truncate(0)
            file.write_at(0, data)
            file.sync()
        env.rename(beside, path)
    except LogdexError:
        try:
            env.remove(beside)
        except LogdexError:
            pass  # the first error is the one to tell
        raise
    env.sync_dir(posixpath.dirname(path) or ".")
