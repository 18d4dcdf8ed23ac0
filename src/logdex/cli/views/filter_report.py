"""What `logdex filter` prints, in both formats."""

from __future__ import annotations

from typing import TYPE_CHECKING

from logdex.cli.output import emit, emit_json, note_losses
from logdex.primitives.shown import counted

if TYPE_CHECKING:
    from logdex.convert.report import ConvertReport


def print_report(report: ConvertReport, output: str, place: str, *, as_json: bool) -> bool:
    """Prints a report; `place` is what the format's messages lie in. Returns whether nothing was
    lost."""
    if as_json:
        emit_json(report.to_json())
    else:
        emit(
            f"Wrote {counted(report.messages, 'message')} of {counted(report.files, place)} to {output}, "
            f"in {report.seconds:.1f} s"
        )
    note_losses(report.notes, report.losses, "not written")
    return not report.lossy
