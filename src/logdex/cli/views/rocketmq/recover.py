"""`logdex recover` for RocketMQ stores: prints the report."""

from __future__ import annotations

from typing import TYPE_CHECKING

from logdex.cli.output import emit, human_loss, human_size, kept_rows, note, note_settings, table
from logdex.primitives.shown import counted

if TYPE_CHECKING:
    from logdex.rocketmq.recover.report import RecoverReport


def print_report(report: RecoverReport, output: str) -> None:
    """Prints the report of a recovery into `output` as text."""
    emit(
        f"Recovered {counted(report.messages, 'message')} from {human_size(report.bytes)} of CommitLog, "
        f"in {report.seconds:.1f} s"
    )
    index_entries = counted(report.index_entries, "entry", "entries")
    rows = [
        ("log end", f"offset {report.end_offset}"),
        ("ConsumeQueues", f"{counted(report.queues, 'queue')}, {counted(report.queue_entries, 'entry', 'entries')}"),
        ("IndexFiles", f"{counted(report.index_files, 'file')}, {index_entries}"),
        ("files", f"{counted(report.files, 'file')} in {output}"),
        ("lost", _lost(report)),
    ]
    rows += kept_rows(report.kept)
    table(rows)
    for skipped in report.skipped:
        emit(str(skipped))
    note_settings([], report.assumed)
    for text in [*report.notes, *report.losses]:
        note(text)


def _lost(report: RecoverReport) -> str:
    text = human_loss(report)
    if report.lossy and report.placeholders:
        text += f", {counted(report.placeholders, 'placeholder message')} of topic LOGDEX_LOST instead"
    return text
