"""Where the named readers of a partition are: a small file for each, in a directory that brokers
pass over because it is no file of a segment."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from logdex.errors import CorruptError, LogdexError, LogInUseError, UsageError
from logdex.io.atomic_file import write_atomically
from logdex.io.env import DEFAULT_ENV, Env
from logdex.io.process_lock import LockHolder, take_lock
from logdex.kafka.files.file_names import READERS_DIR

_NAME = re.compile(r"[a-zA-Z0-9_][a-zA-Z0-9._-]{0,199}")
_POSITION, _LOCK = ".json", ".lock"
_FILE_SIZE_BYTES_MAX = 1 << 16

BatchMark = tuple[int, int, int]
"""Base offset, last offset and CRC of a batch."""


class StoredPosition(NamedTuple):
    """What a reader has committed: the offset of the next record, and the last batch before it
    (None if it is not known), by which a log that was cut and written anew is told."""

    offset: int
    batch: BatchMark | None


def checked_name(name: str) -> str:
    """Returns a reader's name. Raises `UsageError` for one that cannot be part of a file's name."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise UsageError(f"{name!r} cannot name a reader", hint="use letters, digits, . _ -")
    return name


def reader_names(path: str, *, env: Env = DEFAULT_ENV) -> list[str]:
    """The names of the readers of the partition directory `path` that have committed, sorted."""
    directory = f"{path}/{READERS_DIR}"
    names = env.list_dir(directory) if env.is_dir(directory) else []
    return sorted(name.removesuffix(_POSITION) for name in names if name.endswith(_POSITION))


def read_position(path: str, name: str, *, env: Env = DEFAULT_ENV) -> int | None:
    """The offset of the next record that a reader will read; None if it has committed none."""
    stored = read_stored(path, name, env=env)
    return None if stored is None else stored.offset


def read_stored(path: str, name: str, *, env: Env = DEFAULT_ENV) -> StoredPosition | None:
    """What a reader has committed; None if nothing."""
    file = f"{path}/{READERS_DIR}/{checked_name(name)}{_POSITION}"
    if not env.exists(file):
        return None
    data = env.read_file(file, _FILE_SIZE_BYTES_MAX)
    try:
        stored = json.loads(data)
        offset, batch = stored["offset"], stored.get("batch")
    except (ValueError, TypeError, KeyError, RecursionError):
        offset = batch = None
    if not _is_offset(offset):
        raise CorruptError(
            "no position is here",
            path=file,
            position=0,
            expected='{"offset": N}',
            found=repr(data[:40]),
            hint="remove the file: the reader starts anew",
        )
    is_known = isinstance(batch, list) and len(batch) == 3 and all(map(_is_offset, batch))
    return StoredPosition(offset, (batch[0], batch[1], batch[2]) if is_known else None)


def _is_offset(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def read_positions(path: str, problems: list[LogdexError], *, env: Env = DEFAULT_ENV) -> dict[str, int]:
    """The positions of all named readers of the partition directory `path`. The errors of those
    that cannot be read are added to `problems`."""
    found: dict[str, int] = {}
    for name in reader_names(path, env=env):
        try:
            position = read_position(path, name, env=env)
        except LogdexError as error:
            problems.append(error)
            continue
        if position is not None:
            found[name] = position
    return found


def position_file(name: str, offset: int, batch: BatchMark | None = None) -> tuple[str, bytes]:
    """Returns the name of the file with a reader's position, below the partition's directory, and
    its bytes."""
    stored = {"offset": offset} if batch is None else {"offset": offset, "batch": batch}
    return f"{READERS_DIR}/{checked_name(name)}{_POSITION}", json.dumps(stored).encode()


def write_position(
    path: str, name: str, offset: int, *, batch: BatchMark | None = None, env: Env = DEFAULT_ENV
) -> None:
    """Sets the offset of the next record that a reader will read, on disk when this returns.
    `batch` is the last batch before it."""
    directory = f"{path}/{READERS_DIR}"
    if not env.is_dir(directory):
        env.make_dirs_durably(directory)
    file, data = position_file(name, offset, batch)
    write_atomically(f"{path}/{file}", data, env=env)


@contextmanager
def reader_lock(path: str, name: str, *, env: Env = DEFAULT_ENV) -> Iterator[None]:
    """Holds the lock of one reader, which the system drops if the process dies. Raises
    `LogInUseError` if it is held elsewhere."""
    directory = f"{path}/{READERS_DIR}"
    if not env.is_dir(directory):
        env.make_dirs_durably(directory)
    lock = take_lock(f"{directory}/{checked_name(name)}{_LOCK}", env=env)
    if isinstance(lock, LockHolder):
        raise LogInUseError(f"the reader {name} is open in {lock.value}", path=path, hint="close it there first")
    with lock:
        yield
