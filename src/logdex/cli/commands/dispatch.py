"""`logdex dispatch`: derives the indexes of a log into another directory, and keeps them up to date."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from logdex.cli.app import DONE_BUT_LOSSY, app, epilog
from logdex.cli.dispatch import find
from logdex.cli.engines import Engine, EngineOption, MasterOption, runner_of
from logdex.cli.options import JsonOption, PathOptions, path_command
from logdex.cli.output import emit, emit_json, hint, human_count, human_size, note_losses
from logdex.cli.progress_bars import progress_bar
from logdex.cli.stopping import SIGNAL_EXIT, stopped_by_signals
from logdex.errors import UsageError
from logdex.formats import FORMATS, format_of
from logdex.formats.format import DispatchJob


@app.command(
    epilog=epilog(
        "logdex dispatch store --output derived",
        "logdex dispatch store --output derived --engine spark --master 'local[2]' --json",
        notes="Derives ConsumeQueues and IndexFiles from a RocketMQ CommitLog into another directory, as a broker's "
        "ReputMessageService does. Run again with the same --output it goes on where it ended, also after it was "
        "killed; with --follow it goes on as the log grows, until Ctrl-C. The files are those of `logdex rebuild`, "
        "byte for byte. Nothing is written into the store. With --engine spark the complete files of the log are "
        "scanned on Spark, and the newest one is followed by this process.",
    )
)
@path_command
def dispatch(
    target: PathOptions,
    output: Annotated[
        str,
        typer.Option(
            "--output", "-o", metavar="DIR", help="Where to write consumequeue/ and index/.", show_default=False
        ),
    ],
    follow: Annotated[bool, typer.Option("--follow", help="Go on as the log grows; Ctrl-C ends it.")] = False,
    time_zone: Annotated[
        str | None,
        typer.Option(
            "--time-zone",
            metavar="ZONE",
            help="The broker's time zone, by which IndexFiles are named: UTC, local, +08:00, America/Lima.",
            show_default=False,
        ),
    ] = None,
    engine: EngineOption = Engine.LOCAL,
    master: MasterOption = "local[*]",
    as_json: JsonOption = False,
) -> None:
    """Keep the indexes of a log up to date in another directory. Exit 0 good, 2 cannot run, 3 done but lossy."""
    found = find(target)
    prepare = format_of(found).dispatch
    if prepare is None:
        names = ", ".join(each.title for each in FORMATS.values() if each.dispatch is not None)
        raise UsageError(
            f"{target.path} is {found.description}; dispatch is for {names}", hint="logdex rebuild derives its indexes"
        )
    job = prepare(found, target.with_settings(time_zone=time_zone).settings, output)
    size_bytes = format_of(found).log_size_bytes(found)
    with job, stopped_by_signals(job) as signals:
        _run(job, size_bytes, engine, master, follow=follow)
    _print(job.report, as_json=as_json)
    if signals:
        raise typer.Exit(SIGNAL_EXIT + signals[0])
    if job.report.lossy:
        hint(f"logdex verify {target.path} lists all damage")
        raise typer.Exit(DONE_BUT_LOSSY)


def _run(job: DispatchJob, size_bytes: int, engine: Engine, master: str, *, follow: bool) -> None:
    if engine is Engine.LOCAL:
        with progress_bar("dispatch", size_bytes) as progress:
            job.run(follow=follow, progress=progress)
        return
    with runner_of("dispatch", size_bytes, engine, master) as runner:
        job.run_on(runner, engine, follow=follow)


def _print(report: Any, *, as_json: bool) -> None:
    if as_json:
        emit_json(report.to_json())
    else:
        emit(
            f"Dispatched {human_count(report.messages, 'message')}, {human_size(report.bytes)}, to {report.output}, in "
            f"{report.seconds:.1f} s, engine {report.engine}: the log from offset {report.start_offset} to "
            f"{report.end_offset}"
        )
    note_losses(report.notes, report.losses, "lost")
