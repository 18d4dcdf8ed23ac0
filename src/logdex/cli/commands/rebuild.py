"""`logdex rebuild`: derives every index from the logs alone, for both formats."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from logdex.cli.app import DONE_BUT_LOSSY, app, epilog
from logdex.cli.engines import Engine, EngineOption, JobsOption, MasterOption, require_spark, runner_of
from logdex.cli.find_view import find, note_unfinished, view_of
from logdex.cli.options import JsonOption, NoSpaceCheckOption, NoSyncOption, PathOptions, output_of, path_command
from logdex.cli.output import emit, emit_json, human_size, kept_rows, table
from logdex.cli.progress_bars import progress_bar
from logdex.formats import format_of
from logdex.io.env import Env
from logdex.jobs.tasks import threads_of
from logdex.primitives.shown import counted

if TYPE_CHECKING:
    from logdex.formats import RebuildJob
    from logdex.jobs.reports import RebuildReport

_NEXT = ("next", "stop the broker, and put the files in place of its own; --in-place does so")


@app.command(
    epilog=epilog(
        "logdex rebuild store --output rebuilt",
        "logdex rebuild store --output rebuilt --engine spark --master 'local[2]'",
        "logdex rebuild store --output rebuilt --json",
        "logdex rebuild store/commitlog/00000000000000000000 --output rebuilt",
        "logdex rebuild logs --output rebuilt --key-index",
        notes="Derives ConsumeQueues and IndexFiles from the CommitLog, and Kafka's indexes, producer snapshots and "
        "leader epochs from the .log files. From a CommitLog file by itself, only the entries of its own "
        "messages are derived. Files that already have these names in --output are kept under names with a "
        "timestamp. Nothing is published before everything is written, so a rebuild that was stopped can be "
        "run again.",
    )
)
@path_command
def rebuild(
    target: PathOptions,
    output: Annotated[
        str | None,
        typer.Option(
            "--output",
            "-o",
            metavar="DIR",
            help="Where to write consumequeue/ and index/, or for Kafka topic-N/ or one partition's files.",
            show_default=False,
        ),
    ] = None,
    in_place: Annotated[
        bool, typer.Option("--in-place", help="Write into the store itself; what is replaced is kept.")
    ] = False,
    key_index: Annotated[bool, typer.Option("--key-index", help="Also write a .keyindex per segment (Kafka).")] = False,
    deleted_topics: Annotated[
        bool,
        typer.Option("--deleted-topics", help="Also rebuild the queues of topics that topics.json lacks (RocketMQ)."),
    ] = False,
    time_zone: Annotated[
        str | None,
        typer.Option(
            "--time-zone",
            metavar="ZONE",
            help="The broker's time zone, by which IndexFiles are named: UTC, local, +08:00, America/Lima (RocketMQ).",
            show_default=False,
        ),
    ] = None,
    engine: EngineOption = Engine.LOCAL,
    master: MasterOption = None,
    jobs: JobsOption = None,
    no_sync: NoSyncOption = False,
    no_space_check: NoSpaceCheckOption = False,
    as_json: JsonOption = False,
) -> None:
    """Derive all indexes from the logs alone. Exit 0 good, 2 cannot run, 3 done but lossy."""
    written_to = output_of("rebuild", target.path, output, in_place=in_place)
    target = target.with_settings(key_index=key_index, deleted_topics=deleted_topics, time_zone=time_zone)
    found = find(target)
    view = view_of(found.format, "rebuild")
    is_whole = in_place or note_unfinished(found)
    env = Env(check_space=not no_space_check)
    job = format_of(found).rebuild(found, target.settings, written_to, in_place=in_place, sync=not no_sync, env=env)
    if in_place:
        view.note_in_place(job.output)
    report = _run(job, engine, master, jobs)
    if as_json:
        emit_json(report.to_json())
    else:
        _print(report, view.source(report), [*view.rows(report, job.output), *([] if in_place else [_NEXT])])
    view.print_notes(found, report)
    if report.lossy or not is_whole:
        raise typer.Exit(DONE_BUT_LOSSY)


def _run(job: RebuildJob, engine: Engine, master: str | None, jobs: int | None) -> RebuildReport:
    """Runs the job in this process, which needs no tasks for one thread, or on Spark."""
    require_spark(engine, master)
    if engine is Engine.LOCAL and threads_of(jobs, job.size_bytes) == 1:
        with progress_bar("rebuild", job.size_bytes) as progress:
            return job.run(progress)
    with runner_of("rebuild", job.size_bytes, engine, master, jobs) as runner:
        return job.run_on(runner, engine)


def _print(report: RebuildReport, source: str, rows: list[tuple[str, str]]) -> None:
    speed = human_size(int(report.bytes / report.seconds)) if report.seconds else "-"
    emit(
        f"Rebuilt from {source}, in {report.seconds:.1f} s ({speed}/s), engine {report.engine}, "
        f"{counted(report.tasks, 'task')}"
    )
    table([*rows, *kept_rows(report.kept)])
