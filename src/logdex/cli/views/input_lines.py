"""Reads the JSON lines that `logdex put` takes, whatever the format."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from logdex.cli.rows.printer import END_OF
from logdex.cli.rows.row_text import DECODED
from logdex.errors import LogdexError, UsageError
from logdex.primitives.text import to_bytes
from logdex.primitives.wrong_questions import nearest

T = TypeVar("T")


def objects_of(lines: Iterable[str]) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yields (line number, object) of the lines that are not blank, but for the last one that `cat`
    prints, which is no message. Raises `UsageError` for another line."""
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            value = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise UsageError(f"line {number} is no JSON: {error}", hint="give one JSON object per line") from error
        if not isinstance(value, dict):
            raise UsageError(f"line {number} is no JSON object", hint="give one JSON object per line")
        if END_OF not in value:
            yield number, value


def made_of(
    lines: Iterable[tuple[int, dict[str, Any]]],
    flags: Mapping[str, Any],
    known: Sequence[str],
    make: Callable[[dict[str, Any]], T],
) -> Iterator[T]:
    """Yields what `make` makes of the fields of each line, with those of `flags` where a line
    states none. Raises `UsageError` with the line's number for fields that are not `known`, and for
    those that `make` does not take."""
    known = (*known, DECODED)
    by_lower = {name.lower(): name for name in known}
    for number, fields in lines:
        try:
            for name in fields:
                if name not in known:
                    raise UsageError(f"there is no field {name!r}", hint=nearest(name, by_lower, known))
            yield make({**flags, **{name: value for name, value in fields.items() if value is not None}})
        except (LogdexError, TypeError, ValueError) as error:
            where = f"line {number}: " if number else ""
            hint = getattr(error, "hint", None) or "see logdex put --help for the fields of a line"
            raise UsageError(f"{where}{getattr(error, 'message', error)}", hint=hint) from error


def bytes_of(fields: dict[str, Any], name: str) -> bytes | None:
    """The bytes of a field: base64 in NAME, or text in NAME_text. None if both are missing or
    null."""
    encoded, text = fields.get(name), fields.get(f"{name}_text")
    if encoded is None:
        if text is not None and not isinstance(text, str):
            raise UsageError(f"{name}_text is no text")
        return None if text is None else to_bytes(text)
    try:
        return base64.b64decode(encoded, validate=True)
    except (TypeError, ValueError, binascii.Error) as error:
        raise UsageError(f"{name} is no base64", hint=f"give text as {name}_text") from error
