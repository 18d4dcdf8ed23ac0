"""`logdex recover` for Kafka paths: prints the report."""

from __future__ import annotations

from typing import TYPE_CHECKING

from logdex.cli.output import emit, human_loss, human_size, kept_rows, note, note_settings, table
from logdex.primitives.shown import counted

if TYPE_CHECKING:
    from logdex.kafka.recover.report import RecoverReport


def print_report(report: RecoverReport, output: str) -> None:
    """Prints the report of a recovery into `output` as text."""
    emit(
        f"Recovered {counted(report.messages, 'message')} in {counted(report.batches, 'batch', 'batches')} "
        f"from {human_size(report.bytes)} of logs, in {report.seconds:.1f} s"
    )
    rows = [
        ("partitions", counted(report.partitions, "partition")),
        ("files", f"{counted(report.files, 'file')} in {output}"),
        ("lost", human_loss(report)),
    ]
    rows += kept_rows(report.kept)
    table(rows)
    for skipped in report.skipped:
        emit(str(skipped))
    note_settings(report.inferred, report.assumed)
    for text in [*report.notes, *report.losses]:
        note(text)
