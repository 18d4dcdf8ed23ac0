"""Prints the entries of a file that is no log, such as an index."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any

from logdex.cli.output import emit, emit_json, human_time
from logdex.cli.rows.row_options import RowOptions
from logdex.errors import UsageError


def print_entries(
    entries: Iterable[Mapping[str, Any]], rows: RowOptions, limit: int | None, others: Mapping[str, object], what: str
) -> None:
    """Prints entries, at most `limit`: as lines, as JSON, or their `columns`. Raises `UsageError`
    for `others`, options by flag that are about messages, where they are given, and for a
    template."""
    given = [flag for flag, value in {**others, "--format": rows.template}.items() if value not in (None, False)]
    if given:
        raise UsageError(f"{given[0]} is about messages, and this is {what}", hint=f"leave out {' and '.join(given)}")
    for entry in islice(entries, limit):
        fields = {name: _field(entry, name) for name in rows.columns or entry}
        if rows.as_json:
            emit_json(fields)
        elif rows.columns is not None:
            sys.stdout.write("\t".join(str(value) for value in fields.values()) + "\n")
        else:
            emit("  ".join(f"{name} {_shown(name, value)}" for name, value in fields.items()))


def _field(entry: Mapping[str, Any], name: str) -> Any:
    if name not in entry:
        raise UsageError(f"there is no field {name!r}", hint=f"choose from {', '.join(entry)}")
    return entry[name]


def _shown(name: str, value: Any) -> str:
    return f"{value} ({human_time(value)})" if name.endswith("timestamp_ms") and value >= 0 else str(value)
