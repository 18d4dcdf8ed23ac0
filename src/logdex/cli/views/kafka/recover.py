"""`logdex recover` for Kafka paths: prints the report."""

from __future__ import annotations

from typing import TYPE_CHECKING

from logdex.cli.output import emit, human_count, human_loss, human_size, kept_rows, note, note_settings, table

if TYPE_CHECKING:
    from logdex.kafka.recover.report import RecoverReport


def print_report(report: RecoverReport, output: str) -> None:
    """Prints the report of a recovery into `output` as text."""
    emit(
        f"Recovered {human_count(report.messages, 'message')} in {human_count(report.batches, 'batch', 'batches')} "
        f"from {human_size(report.bytes)} of logs, in {report.seconds:.1f} s"
    )
    rows = [
        ("partitions", human_count(report.partitions, "partition")),
        ("files", f"{human_count(report.files, 'file')} in {output}"),
        ("lost", human_loss(report)),
    ]
    rows += kept_rows(report.kept)
    table(rows)
    for skipped in report.skipped:
        emit(str(skipped))
    note_settings(report.inferred, report.assumed)
    for text in report.notes:
        note(text)
