"""Settings that no file states (sizes, a version), declared once per format.

A declaration is a `TypedDict` or a dataclass whose annotations name the settings. The keyword
arguments of `logdex.open` and the flags of the command line are derived from it.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, get_args, get_origin, get_type_hints

from logdex.primitives.wrong_questions import require_names


@dataclass(frozen=True, slots=True)
class Flag:
    """Marks a declared setting, in `Annotated`, as one with a flag on the command line."""

    help: str
    metavar: str


@dataclass(frozen=True, slots=True)
class Setting:
    """A declared setting: the name of its keyword argument, its type, and its flag or None."""

    name: str
    value_type: Any
    flag: Flag | None = None


@cache
def declared_settings(declaration: type) -> tuple[Setting, ...]:
    """Returns the settings of a declaration, in its order."""
    found = []
    for name, hint in get_type_hints(declaration, include_extras=True).items():
        value_type, *marks = get_args(hint) if get_origin(hint) is Annotated else (hint,)
        flag = next((mark for mark in marks if isinstance(mark, Flag)), None)
        found.append(Setting(name, value_type, flag))
    return tuple(found)


def require_known(given: Iterable[str], *declarations: type) -> None:
    """Raises `UsageError`, with the nearest name, if a name in `given` is no setting of the
    declarations."""
    known = [setting.name for each in declarations for setting in declared_settings(each)]
    require_names("setting", given, known)


def flag_of(name: str) -> str:
    """Returns the flag of a setting on the command line."""
    return "--" + name.replace("_", "-")


def given_flags(settings: Mapping[str, object]) -> str:
    """Returns the flags and values that give these settings, as a shell reads them: each after a
    space, none for a setting that is not given or False, a flag alone for one that is True."""
    return typed_flags({flag_of(name): value for name, value in settings.items()})


def typed_flags(values: Mapping[str, object]) -> str:
    """Returns flags with their values as `given_flags` does. A flag with a list stands once for
    each of its values."""
    each = ((flag, one) for flag, value in values.items() for one in (value if isinstance(value, list) else [value]))
    return "".join(f" {flag}{_value(value)}" for flag, value in each if value is not None and value is not False)


def _value(value: object) -> str:
    if value is True:
        return ""
    return f" {shlex.quote(os.fspath(value) if isinstance(value, os.PathLike) else str(value))}"
