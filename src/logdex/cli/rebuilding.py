"""What `logdex rebuild` does and says alike of both formats: where the work runs, the report."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from logdex.cli.output import emit, emit_json, human_count, human_size, kept_rows, note, table
from logdex.cli.progress import progress_bar

if TYPE_CHECKING:
    from logdex.jobs.reports import Progress, RebuildReport


@contextmanager
def rebuilding(master: str | None, total_bytes: int) -> Iterator[tuple[Any, Progress]]:
    """The Spark session at `master`, None for this process, and the progress bar."""
    if master is None:
        with progress_bar("rebuild", total_bytes) as progress:
            yield None, progress
        return
    from logdex.spark.session import session

    note("starting Spark, a few seconds")
    with session(master, app_name="logdex rebuild") as spark, progress_bar("rebuild", total_bytes) as progress:
        yield spark, progress


def print_report(report: RebuildReport, source: str, rows: list[tuple[str, str]], *, as_json: bool) -> None:
    """The report: of what was read from `source` (how much of what) the `rows` of a table were made."""
    if as_json:
        emit_json(report.to_json())
        return
    speed = human_size(int(report.bytes / report.seconds)) if report.seconds else "-"
    emit(
        f"Rebuilt from {source}, in {report.seconds:.1f} s ({speed}/s), engine {report.engine}, "
        f"{human_count(report.tasks, 'task')}"
    )
    table([*rows, *kept_rows(report.kept)])
