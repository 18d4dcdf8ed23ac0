"""Looks at a path once, and keeps the answers of the system for several callers."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cached_property
from typing import Any

from logdex.errors import UsageError
from logdex.io.env import DEFAULT_ENV, Env

EXPORT_FOLDER = "_logdex"
"""The folder of a Parquet export that says what each run has added to it."""

StrPath = str | os.PathLike[str]
"""A path, as every public signature accepts it."""

BEGINNING_BYTES = 96
"""How much of a file is read to tell what it is: more than the head of a message or of a batch."""

_Answers = dict[tuple[Callable[[str], Any], str], Any]


def path_text(path: StrPath) -> str:
    """Returns a path as a text. Raises `UsageError` for what is no path, and for an empty one."""
    if not isinstance(path, str | os.PathLike) or not isinstance(text := os.fspath(path), str):
        raise UsageError(f"the path is {path!r}", hint="give a str or a pathlib.Path")
    if not text:
        raise UsageError("the path is empty", hint="give a directory or a file")
    return text


class PathLook:
    """A path that several formats look at, one after the other.

    The answers of the system are kept, so that all formats see the same state and nothing is asked
    twice. `below` is a name in the directory, or several names joined by ``/``. For one thread.
    """

    def __init__(self, path: StrPath, env: Env = DEFAULT_ENV) -> None:
        text = path_text(path)
        self.path = text.rstrip("/") or text[:1]
        """The path without slashes at its end."""
        self.env = env
        self._answers: _Answers = {}

    def inner(self, name: str) -> PathLook:
        """Returns a look at a name in the directory. It keeps its answers together with these."""
        look = PathLook(f"{self.path}/{name}", self.env)
        look._answers = self._answers
        return look

    def is_dir(self, below: str = "") -> bool:
        """Whether there is a directory at the path."""
        if below and not self._may_be_there(below):
            return False
        return bool(self._ask(self.env.is_dir, below))

    def is_file(self) -> bool:
        """Whether the path is a file."""
        return not self.is_dir() and bool(self._ask(self.env.is_file, ""))

    def exists(self) -> bool:
        """Whether anything is at the path."""
        return self.is_dir() or self.is_file() or bool(self._ask(self.env.exists, ""))

    def names(self, below: str = "") -> list[str]:
        """Returns the sorted names in a directory; empty if there is no directory."""
        return list(self._ask(self.env.list_dir, below)) if self.is_dir(below) else []

    @cached_property
    def real_path(self) -> str:
        """The absolute path, with links followed."""
        return self.env.real_path(self.path)

    @cached_property
    def beginning(self) -> tuple[bytes, int]:
        """The first bytes of the file, `BEGINNING_BYTES` at most, and its size."""
        with self.env.open_read(self.path) as file:
            return file.read_at(0, BEGINNING_BYTES), file.size_bytes

    def _may_be_there(self, below: str) -> bool:
        """Whether the name may exist, as far as the listing of its directory is known."""
        above, _, name = below.rpartition("/")
        return name in self.names(above) if not above or (self.env.list_dir, self._at(above)) in self._answers else True

    def _at(self, below: str) -> str:
        return f"{self.path}/{below}" if below else self.path

    def _ask(self, question: Callable[[str], Any], below: str) -> Any:
        key = question, self._at(below)
        if key not in self._answers:
            self._answers[key] = question(key[1])
        return self._answers[key]
