"""The options that say how a command prints its messages or records, the same for every command
that prints some."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any

import typer

from logdex.cli.output import VALUE_SHOWN
from logdex.errors import UsageError


class Values(StrEnum):
    """How the bytes of keys, values and bodies are shown."""

    TEXT = "text"
    JSON = "json"
    BASE64 = "base64"
    HEX = "hex"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class RowOptions:
    """How rows are printed: as lines of text, unless `as_json`, `template` or `columns` say
    otherwise.

    `values` is None where the user left the choice to us. `is_full` keeps long values whole.
    """

    as_json: bool = False
    template: str | None = None
    values: Values | None = None
    is_full: bool = False
    columns: tuple[str, ...] | None = None
    decode: bool = False

    @property
    def chars_max(self) -> int | None:
        """The most characters of a value in a line, None for all of them."""
        return None if self.is_full else VALUE_SHOWN

    @property
    def shows_stored_bytes(self) -> bool:
        """Whether bodies are shown as they are stored, compressed ones too."""
        return self.as_json and self.values in (None, Values.BASE64, Values.HEX)


_JSON = typer.Option("--json", help="One JSON line per message, body in base64, and as text if it is UTF-8.")
_FORMAT = typer.Option(
    "--format",
    metavar="TEMPLATE",
    help=r"Print each message by a template: '%k\t%v\n' (see the guide for all letters).",
    show_default=False,
)
_VALUES = typer.Option("--values", help="How bodies and values are printed.", show_default=False)
_FULL = typer.Option("--full", help="Do not cut long values.")
_COLUMNS = typer.Option(
    "--columns",
    metavar="NAMES",
    help="Only these fields of --json, separated by commas. Without --json: separated by tabs.",
    show_default=False,
)
_DECODE = typer.Option(
    "--decode", help="Decode messages of the broker's own topics (offsets, delayed messages, …), and control records."
)

ROW_PARAMETERS: tuple[tuple[str, Any, Any], ...] = (
    ("template", Annotated[str | None, _FORMAT], None),
    ("values", Annotated[Values | None, _VALUES], None),
    ("full", Annotated[bool, _FULL], False),
    ("columns", Annotated[str | None, _COLUMNS], None),
    ("decode", Annotated[bool, _DECODE], False),
    ("as_json", Annotated[bool, _JSON], False),
)
"""Name, annotation and default of the parameters of a command that become its `RowOptions`."""


def row_parameters() -> list[inspect.Parameter]:
    """Returns the parameters of `ROW_PARAMETERS`."""
    keyword = inspect.Parameter.KEYWORD_ONLY
    return [
        inspect.Parameter(name, keyword, default=default, annotation=annotation)
        for name, annotation, default in ROW_PARAMETERS
    ]


def take_row_options(options: dict[str, Any]) -> RowOptions:
    """Removes the values of `ROW_PARAMETERS` from a command's options and returns them. Raises
    `UsageError` for those that exclude each other."""
    found: Mapping[str, Any] = {name: options.pop(name) for name, _, _ in ROW_PARAMETERS}
    if found["template"] is not None and (found["as_json"] or found["columns"] is not None):
        other = "--json" if found["as_json"] else "--columns"
        raise UsageError(f"--format and {other} exclude each other", hint="give one of them")
    columns = None if found["columns"] is None else tuple(name.strip() for name in found["columns"].split(","))
    return RowOptions(found["as_json"], found["template"], found["values"], found["full"], columns, found["decode"])
