"""`logdex rebuild` for Kafka paths: prints the report."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from logdex.cli.output import hint, human_size, note, note_settings
from logdex.primitives.shown import counted

if TYPE_CHECKING:
    from logdex.kafka.directory.recognise import KafkaPath
    from logdex.kafka.rebuild.report import KafkaRebuildReport


def note_in_place(output: str) -> None:
    """Prints what a rebuild in place does."""
    note(f"writes beside the logs in {output}; what is replaced is kept under a dated name")


def print_notes(found: KafkaPath, report: KafkaRebuildReport) -> None:
    """Prints the settings that were inferred or assumed, the report's notes, and the losses."""
    note_settings(report.inferred, report.assumed)
    for line in [*report.notes, *report.losses]:
        note(line)
    if report.lossy:
        hint(f"logdex recover {shlex.quote(found.path)} --output DIR recovers the batches after the damage")


def source(report: KafkaRebuildReport) -> str:
    """Returns what was read, as text."""
    batches = counted(report.batches, "batch", "batches")
    return f"{counted(report.messages, 'record')} in {batches}, {human_size(report.bytes)}"


def rows(report: KafkaRebuildReport, output: str) -> list[tuple[str, str]]:
    """Returns the table rows for what was written to `output`."""
    found = [
        ("logs", f"{counted(report.partitions, 'partition')}, {counted(report.segments, 'segment')}"),
        (".index", _entries(report.offset_index_entries)),
        (".timeindex", _entries(report.time_index_entries)),
        (".txnindex", counted(report.aborted_transactions, "aborted transaction")),
        (".snapshot", counted(report.snapshots, "file")),
    ]
    if report.key_index_entries:
        found.append((".keyindex", _entries(report.key_index_entries)))
    return [*found, ("files", f"{counted(report.files, 'file')} in {output}")]


def _entries(count: int) -> str:
    return counted(count, "entry", "entries")
