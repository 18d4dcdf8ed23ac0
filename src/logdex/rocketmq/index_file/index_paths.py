"""The IndexFiles of a directory, by their names."""

from __future__ import annotations

from collections.abc import Iterator

from logdex.errors import StoreError, UnreadableError, UnusableFileError, VanishedError
from logdex.io.env import Env
from logdex.layout.rocketmq import INDEX_HEADER
from logdex.rocketmq.index_file.index_header import IndexHeader

NAME_DIGITS = 17


def list_index_files(directory: str, env: Env, *, empty: bool = False) -> list[str]:
    """Returns the paths of the IndexFiles in a directory, in the order of their names, which have
    at least `NAME_DIGITS` digits. A missing directory has none. Without `empty`, empty files are
    skipped: a broker has created them and not filled them yet."""
    return [path for path in _named(directory, env) if env.is_file(path) and (empty or _size_or_zero(path, env))]


def is_unfilled(path: str, env: Env) -> bool:
    """Whether an IndexFile has an empty header, as a process leaves it that was killed just after
    it had made the file. It shows no sizes, and no reader finds anything in it."""
    try:
        with env.open_read(path) as file:
            return file.read_at(0, INDEX_HEADER.size_bytes) == bytes(INDEX_HEADER.size_bytes)
    except (UnreadableError, VanishedError):
        return False


def newest_indexed(directory: str, env: Env) -> list[tuple[str, int]]:
    """Returns (path, physical offset of the last message that it has a key of) of the two newest
    IndexFiles of a directory, the older one first. The newest is often empty, because the engine
    makes it ahead. Files without entries are left out, and unreadable ones, which `verify` and
    queries report."""
    found = []
    for path in list_index_files(directory, env)[-2:]:
        try:
            with env.open_read(path) as file:
                header = IndexHeader.unpack(file.read_at(0, INDEX_HEADER.size_bytes), path=path)
        except StoreError:
            continue
        if header.entry_count:
            found.append((path, header.end_phy_offset))
    return found


def no_index_files(directory: str, env: Env) -> list[UnusableFileError]:
    """Returns what has the name of an IndexFile in a directory and is no file, each as an error
    that says what it is."""
    found = []
    for path in _named(directory, env):
        if not env.is_file(path):
            try:
                env.open_read(path).close()  # says what it is
            except UnusableFileError as error:
                found.append(error)
            except VanishedError:
                pass  # a broker has removed it meanwhile
    return found


def _named(directory: str, env: Env) -> Iterator[str]:
    try:
        names = env.list_dir(directory) if env.is_dir(directory) else []
    except VanishedError:  # it was removed meanwhile, to have it derived anew
        names = []
    for name in names:
        if len(name) >= NAME_DIGITS and name.isascii() and name.isdigit():
            yield f"{directory}/{name}"


def _size_or_zero(path: str, env: Env) -> int:
    """Returns a file's size, 0 if a broker has removed it meanwhile."""
    try:
        return env.size_bytes(path)
    except VanishedError:
        return 0
