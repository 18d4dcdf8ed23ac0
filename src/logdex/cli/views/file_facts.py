"""Prints the overview of one file that holds no messages, whatever the format."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from logdex.cli.output import emit, human_size, human_time, shown, table


def print_file(path: str, what: str, size_bytes: int, facts: Mapping[str, Any]) -> None:
    """Prints a line that says what the file is, and a row per fact."""
    emit(f"{path}: {what}, {human_size(size_bytes)}")
    table([(name.replace("_", " "), _fact_text(name, value)) for name, value in facts.items()])


def _fact_text(name: str, value: object) -> str:
    if name.endswith("_timestamp_ms") and isinstance(value, int):
        return f"{value}  {human_time(value)}" if value else "0"
    return "-" if value is None else shown(str(value))
