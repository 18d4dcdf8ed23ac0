"""Bytes of keys, values and bodies as text and as JSON."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from typing import NoReturn

from logdex.cli.output import shown
from logdex.cli.rows.row_options import Values

_TOKENS = re.compile(r'("(?:[^"\\]++|\\.)*+")|[ \t\r\n]+')
"""Possessive: without backtracking, megabytes of text need no memory."""


class RawJson(str):
    """A text that is JSON already."""

    __slots__ = ()


def text_of(value: bytes, how: Values) -> str:
    """Returns bytes as text on one line. What is asked for as JSON and is none is shown as text."""
    match how:
        case Values.BASE64:
            return b64encode(value).decode("ascii")
        case Values.HEX:
            return value.hex()
        case Values.NONE:
            return ""
        case Values.JSON:
            found = compact_json(value)
            return shown(value if found is None else found)
    return shown(value)


def json_value_of(value: bytes | None, how: Values) -> str | None:
    """Returns bytes as a value of JSON: a string, or with `Values.JSON` the JSON that they are."""
    if value is None:
        return None
    if how is Values.JSON:
        found = compact_json(value)
        return value.decode("utf-8", "backslashreplace") if found is None else RawJson(found)
    return value.decode("utf-8", "backslashreplace") if how is Values.TEXT else text_of(value, how)


def compact_json(value: bytes) -> str | None:
    """Returns JSON without the spaces between its parts, otherwise as it is; None if the bytes are
    no JSON."""
    try:
        text = value.decode("utf-8")
        json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return None
    return _TOKENS.sub(r"\1", text)


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")
