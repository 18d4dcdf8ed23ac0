"""`logdex info` of one file that goes with a RocketMQ log."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from logdex.cli.output import emit, human_size, human_time, shown, table

if TYPE_CHECKING:
    from logdex.rocketmq.snapshot.file_overview import FileOverview


def look_at_file(path: str) -> FileOverview | None:
    """What the file says; None where PATH is something else."""
    from logdex.formats import detect
    from logdex.rocketmq.recognise.store_path import StorePath
    from logdex.rocketmq.snapshot.file_overview import file_overview

    found = detect(path)
    return file_overview(found) if isinstance(found, StorePath) and not found.holds_messages else None


def print_file(look: FileOverview) -> None:
    """The same for a person."""
    where = f" of the store {look.file.root}" if look.file.root is not None else ""
    emit(f"{look.file.path}: {look.file.kind.value}{where}, {human_size(look.size_bytes)}")
    table([(name.replace("_", " "), _text(name, value)) for name, value in look.facts.items()])
    if look.content is not None:
        for line in json.dumps(look.content, indent=2, ensure_ascii=False).splitlines():
            emit(shown(line))


def _text(name: str, value: object) -> str:
    if name.endswith("_timestamp_ms") and isinstance(value, int):
        return f"{value}  {human_time(value)}" if value else "0"
    return "-" if value is None else shown(str(value))
