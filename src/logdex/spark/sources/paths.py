"""The paths that a DataFrame reads: one or several, given as Spark gives them. How each is
opened."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from logdex.errors import UsageError, VanishedError
from logdex.formats import Format, detect, format_of
from logdex.io.env import DEFAULT_ENV, Env
from logdex.io.remote.schemes import root_of, scheme_of
from logdex.jobs.journal import warn_of_unfinished
from logdex.spark.sources.options import Options

_PATTERN = re.compile(r"[*?\[]")


def find_paths(options: Options, env: Env = DEFAULT_ENV) -> list[str]:
    """Returns the absolute paths that `load(path)` or `load([path, …])` names, each once.

    A path may be several with commas between them, a JSON list, or a pattern with ``*``, ``?`` and
    ``[…]``. What exists under the text as it is given is that path. A path with a scheme other than
    ``file:`` stays as it is. Raises `UsageError` for no path, and for a pattern that nothing
    matches.
    """
    found: list[str] = []
    for text in _given(options, env):
        path = _local(text)
        if env.exists(path) or _PATTERN.search(path) is None:
            found.append(path)
            continue
        matches = _matches(path, env)
        if not matches:
            raise UsageError(
                f"nothing matches {text!r}", hint="the pattern may have *, ? and […] in each folder's name"
            )
        found += matches
    return list(dict.fromkeys(found))


def open_snapshot(source: str, path: str, wanted: Format, settings: Mapping[str, Any], env: Env) -> Any:
    """Returns the snapshot of the path, opened with the settings. Raises `UsageError` for a path of
    another format than the source's. Warns of a half-published directory; the warning of a process
    on the driver is in Spark's log."""
    found = detect(path, env=env)
    if found.format != wanted.name:
        raise UsageError(f"{path} is {found.description}", hint=f"{source} reads {' and '.join(wanted.paths)}")
    warn_of_unfinished(format_of(found).unfinished(found, env=env), depth=1)
    return format_of(found).open(found, env=env, **settings)


def different_names(paths: Sequence[str]) -> tuple[str, ...]:
    """Returns the folder's name of each path, with as many of the folders above it as tell all
    paths apart."""
    parts = [path.strip("/").split("/") for path in paths]
    for count in range(1, max(map(len, parts), default=0) + 1):
        names = tuple("/".join(each[-count:]) for each in parts)
        if len(set(names)) == len(names):
            return names
    return tuple(paths)


def _given(options: Options, env: Env) -> list[str]:
    texts: list[str] = []
    for name in ("path", "paths"):
        value = options.text(name)
        if value is None or not value.strip():
            continue
        if value.lstrip().startswith("["):
            texts += _from_json(options, name, value)
        elif "," in value and not env.exists(_local(value)):
            texts += filter(None, map(str.strip, value.split(",")))
        else:
            texts.append(value)
    if not texts:
        raise UsageError(f"{options.source} needs a path", hint="say load(PATH)")
    return texts


def _from_json(options: Options, name: str, value: str) -> list[str]:
    try:
        found = json.loads(value)
    except ValueError:
        return [value]  # a pattern may begin with a bracket
    if not isinstance(found, list) or not all(isinstance(each, str) for each in found):
        raise options.wrong(name, 'say a path, or a JSON list such as ["/backup/a", "/backup/b"]')
    return found


def _local(text: str) -> str:
    """Returns a path without ``file:``, absolute and without slashes at its end."""
    if text.startswith("file:"):
        text = "/" + text.removeprefix("file:").lstrip("/")
    if scheme_of(text) is not None:
        return text.rstrip("/")
    return str(Path(text).absolute())


def _matches(pattern: str, env: Env) -> list[str]:
    root = "/" if scheme_of(pattern) is None else root_of(pattern)
    found = [root]
    for part in filter(None, pattern.removeprefix(root).split("/")):
        if _PATTERN.search(part) is None:
            found = [each for path in found if env.exists(each := f"{path.rstrip('/')}/{part}")]
        else:
            found = [f"{path.rstrip('/')}/{name}" for path in found for name in _names(path, env) if _fits(name, part)]
    return found


def _names(path: str, env: Env) -> list[str]:
    try:
        return env.list_dir(path) if env.is_dir(path) else []
    except VanishedError:
        return []


def _fits(name: str, pattern: str) -> bool:
    return fnmatchcase(name, pattern) and (not name.startswith(".") or pattern.startswith("."))
