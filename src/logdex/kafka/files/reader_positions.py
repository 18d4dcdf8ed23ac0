"""Where the named readers of a partition are: a small file for each, in a directory that brokers
pass over because it is no file of a segment."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager

from logdex.errors import CorruptError, LogdexError, LogInUseError, UsageError
from logdex.io.atomic_file import write_atomically
from logdex.io.env import DEFAULT_ENV, Env
from logdex.io.process_lock import LockHolder, take_lock
from logdex.kafka.files.file_names import READERS_DIR

_NAME = re.compile(r"[a-zA-Z0-9_][a-zA-Z0-9._-]{0,199}")
_POSITION, _LOCK = ".json", ".lock"
_FILE_SIZE_BYTES_MAX = 1 << 16


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
    file = f"{path}/{READERS_DIR}/{checked_name(name)}{_POSITION}"
    if not env.exists(file):
        return None
    data = env.read_file(file, _FILE_SIZE_BYTES_MAX)
    try:
        offset = json.loads(data)["offset"]
    except (ValueError, TypeError, KeyError, RecursionError):
        offset = None
    if not isinstance(offset, int) or isinstance(offset, bool) or offset < 0:
        raise CorruptError(
            "no position is here",
            path=file,
            position=0,
            expected='{"offset": N}',
            found=repr(data[:40]),
            hint="remove the file: the reader starts anew",
        )
    return offset


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


def position_file(name: str, offset: int) -> tuple[str, bytes]:
    """Returns the name of the file with a reader's position, below the partition's directory, and
    its bytes."""
    return f"{READERS_DIR}/{checked_name(name)}{_POSITION}", json.dumps({"offset": offset}).encode()


def write_position(path: str, name: str, offset: int, *, env: Env = DEFAULT_ENV) -> None:
    """Sets the offset of the next record that a reader will read, on disk when this returns."""
    directory = f"{path}/{READERS_DIR}"
    if not env.is_dir(directory):
        env.make_dirs_durably(directory)
    file, data = position_file(name, offset)
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
