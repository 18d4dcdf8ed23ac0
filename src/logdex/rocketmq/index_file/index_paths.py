"""The IndexFiles of a directory, by their names."""

from __future__ import annotations

from logdex.errors import VanishedError
from logdex.io.env import Env

NAME_DIGITS = 17


def list_index_files(directory: str, env: Env, *, empty: bool = False) -> list[str]:
    """Returns the paths of the IndexFiles in a directory, in the order of their names, which have
    at least `NAME_DIGITS` digits. A missing directory has none. Without `empty`, empty files are
    skipped: a broker has created them and not filled them yet."""
    if not env.is_dir(directory):
        return []
    names = (name for name in env.list_dir(directory) if name.isascii() and name.isdigit())
    found = [f"{directory}/{name}" for name in names if len(name) >= NAME_DIGITS]
    return [path for path in found if env.is_file(path) and (empty or _size_or_zero(path, env))]


def _size_or_zero(path: str, env: Env) -> int:
    """Returns a file's size, 0 if a broker has removed it meanwhile."""
    try:
        return env.size_bytes(path)
    except VanishedError:
        return 0
