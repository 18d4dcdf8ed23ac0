"""`logdex dispatch`: derives the indexes of a log into another directory, and keeps them up to
date."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Annotated

import typer

from logdex.cli.app import DONE_BUT_LOSSY, app, epilog
from logdex.cli.engines import Engine, EngineOption, MasterOption, require_spark, session_of
from logdex.cli.find_view import find, log_source, note_unfinished
from logdex.cli.options import JsonOption, PathOptions, path_command
from logdex.cli.output import emit, emit_json, hint, human_size, note_losses
from logdex.cli.progress_bars import progress_bar
from logdex.cli.stopping import SIGNAL_EXIT, stopped_by_signals
from logdex.errors import UsageError
from logdex.formats import FORMATS, format_of
from logdex.primitives.shown import counted

if TYPE_CHECKING:
    from logdex.convert.index_pipeline import Lake
    from logdex.jobs.dispatching import DispatchJob, DispatchReport


@app.command(
    epilog=epilog(
        "logdex dispatch store --output derived",
        "logdex dispatch store --output derived --engine spark --master 'local[2]' --json",
        "logdex dispatch logs --output derived-logs --lake lake",
        notes="Derives into another directory what a broker derives from its log, and keeps it up to date: of a "
        "RocketMQ CommitLog ConsumeQueues and IndexFiles, as ReputMessageService does, of Kafka's logs all index "
        "files, with key indexes. Run again with the same --output it goes on where it ended, also after it was "
        "killed; with --follow it goes on as the log grows, until Ctrl-C. The files are those of `logdex rebuild` "
        "(for Kafka with --key-index), byte for byte. Nothing is written beside the log. With --lake what is new is "
        "exported as Parquet too, each message once. With --engine spark it is a Structured Streaming query, whose "
        "tasks scan the logs; the newest file of a CommitLog is scanned by this process.",
    )
)
@path_command
def dispatch(
    target: PathOptions,
    output: Annotated[
        str, typer.Option("--output", "-o", metavar="DIR", help="Where to write the derived files.", show_default=False)
    ],
    follow: Annotated[bool, typer.Option("--follow", help="Go on as the log grows; Ctrl-C ends it.")] = False,
    every_s: Annotated[
        float, typer.Option("--every", metavar="SECONDS", help="With --follow: how often to look at the log.", min=0)
    ] = 1.0,
    lake: Annotated[
        str | None,
        typer.Option(
            "--lake",
            metavar="DIR",
            help="Also export what is new as Parquet, as `logdex export` does.",
            show_default=False,
        ),
    ] = None,
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
    master: MasterOption = None,
    as_json: JsonOption = False,
) -> None:
    """Keep the indexes of a log up to date in another directory. Exit 0 good, 2 cannot run, 3 done
    but lossy."""
    require_spark(engine, master)
    derived = target.with_settings(time_zone=time_zone)
    found = find(derived)
    prepare = format_of(found).dispatch
    if prepare is None:
        names = ", ".join(each.title for each in FORMATS.values() if each.dispatch is not None)
        raise UsageError(
            f"{target.path} is {found.description}; dispatch is for {names}", hint="logdex rebuild derives its indexes"
        )
    is_whole = note_unfinished(found)
    job = prepare(found, derived.settings, output)
    with job, stopped_by_signals(job) as signals:
        size_bytes, wanted = format_of(found).log_size_bytes(found), _lake(target, lake)
        if engine is Engine.LOCAL:
            _run(job, wanted, size_bytes, follow=follow, every_s=every_s)
        else:
            with session_of("dispatch", size_bytes, master) as (spark, runner):
                from logdex.convert.index_pipeline import IndexPipeline
                from logdex.spark.dispatch.query import dispatch_stream

                pipeline = IndexPipeline(job, wanted, runner=runner, engine=engine)
                dispatch_stream(spark, pipeline, found, target.settings, follow=follow, every_s=every_s)
    _print(job.report, lake, as_json=as_json)
    if signals:
        raise typer.Exit(SIGNAL_EXIT + signals[0])
    if job.report.damaged:
        hint(f"logdex verify {shlex.quote(target.path)} lists all damage")
    if job.report.lossy or not is_whole:
        raise typer.Exit(DONE_BUT_LOSSY)


def _lake(target: PathOptions, directory: str | None) -> Lake | None:
    if directory is None:
        return None
    from logdex.convert.index_pipeline import Lake

    return Lake(log_source(target), directory)


def _run(job: DispatchJob, lake: Lake | None, size_bytes: int, *, follow: bool, every_s: float) -> None:
    from logdex.convert.index_pipeline import IndexPipeline

    with progress_bar("dispatch", size_bytes) as progress:
        IndexPipeline(job, lake, progress=progress).run(follow=follow, every_s=every_s)


def _print(report: DispatchReport, lake: str | None, *, as_json: bool) -> None:
    if as_json:
        emit_json(report.to_json())
    else:
        emit(
            f"Dispatched {counted(report.messages, 'message')}, {human_size(report.bytes)}, to {report.output}, in "
            f"{report.seconds:.1f} s, engine {report.engine}: {report.summary}"
        )
        if lake is not None:
            added = f"{counted(report.lake_messages, 'message')} in {counted(report.lake_files, 'file')}"
            emit(f"Exported {added} to {lake}")
    note_losses(report.notes, report.losses, "lost")
