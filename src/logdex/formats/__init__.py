"""Detects which format's files are at a path, and states what each format offers.

ARCHITECTURE.md describes how a format is added.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

from logdex.errors import LogdexError, NotAStoreError, UsageError
from logdex.formats import kafka, rocketmq
from logdex.formats.format import Format as Format
from logdex.formats.format import FoundPath as FoundPath
from logdex.formats.format import RebuildJob as RebuildJob
from logdex.formats.format import RecoverJob as RecoverJob
from logdex.io.env import DEFAULT_ENV, Env
from logdex.io.path_look import EXPORT_FOLDER, PathLook, StrPath

FORMATS = {each.name: each for each in (rocketmq.FORMAT, kafka.FORMAT)}
"""All formats by name, in the order in which they look at a path."""

_NAMES_MAX = 1000
_SHOWN = 5


def detect(path: StrPath, *, env: Env = DEFAULT_ENV) -> FoundPath:
    """Returns what is at `path`: its format, its kind, and the path without slashes at its end.

    Reads only names, and the first bytes of a file whose name does not tell its kind. Asks the
    system no question twice. The result can be passed in place of a path to the functions of its
    format, which then do not look again. Raises `NotAStoreError`, which states what is there
    instead, or `UnsupportedLayoutError`.
    """
    look = PathLook(path, env)
    for each in FORMATS.values():
        found = each.recognise(look)
        if found is not None:
            return found
    *most, last = [what for each in FORMATS.values() for what in each.paths]
    hint = f"give {', '.join(most)} or {last}"
    reasons = (each.why_not(look, hint) for each in reversed(FORMATS.values()))  # RocketMQ's always knows one
    known = next((reason for reason in reasons if reason is not None), None)
    other = known or NotAStoreError("nothing that Logdex reads", path=look.path, hint=hint)
    raise _export(look) or _one_level_below(look) or other


def _export(look: PathLook) -> NotAStoreError | None:
    """Returns the error for the output of an export, or one of its files; None for any other."""
    is_file = look.path.endswith(".parquet")
    if not is_file and EXPORT_FOLDER not in look.names():
        return None
    files = look.path if is_file else f"{look.path}/topic=*/*/*.parquet"
    hint = f"DuckDB, Polars and Spark read it, as in SELECT * FROM read_parquet('{files}')"
    return NotAStoreError("this is Parquet, not a log", path=look.path, hint=hint)


def _one_level_below(look: PathLook) -> NotAStoreError | None:
    """Returns the error for a directory in which there are stores or log directories; None for any
    other."""
    found = []
    for name in look.names()[:_NAMES_MAX]:
        inner = look.inner(name)
        if inner.is_dir():
            with suppress(LogdexError):  # what cannot be read is not given as an answer
                found += [each for each in (form.recognise(inner) for form in FORMATS.values()) if each is not None]
    if not found:
        return None
    if len(found) == 1:
        text = f"this is a directory above {found[0].description}"
        return NotAStoreError(text, path=look.path, hint=f"give the one below: {found[0].path}")
    paths = ", ".join(each.path for each in found[:_SHOWN])
    more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    text = f"this is not one store or log directory, but there are {len(found)} in it"
    return NotAStoreError(text, path=look.path, hint=f"give one of them: {paths}{more}")


def format_of(found: FoundPath) -> Format:
    """Returns the format of a detected path."""
    return FORMATS[found.format]


def refuse_other_settings(found: FoundPath, given: Iterable[str]) -> None:
    """Raises `UsageError` if a name in `given` is a setting of another format only."""
    own = format_of(found)
    for name in given:
        others = [each.title for each in FORMATS.values() if name in each.setting_names]
        if others and name not in own.setting_names:
            whose = f"a setting of {' and '.join(others)}'s"
            raise UsageError(f"{found.path} is {found.description}, and {name} {whose}", hint="leave it out")
