"""`logdex export`: writes what is new of a log as Parquet, for both formats."""

from __future__ import annotations

import shlex
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from logdex.cli.app import DONE_BUT_LOSSY, app, epilog
from logdex.cli.engines import Engine, EngineOption, JobsOption, MasterOption, runner_of
from logdex.cli.find_view import find, log_source, note_unfinished
from logdex.cli.options import (
    ControlOption,
    FromOption,
    IsolationOption,
    JsonOption,
    NoSpaceCheckOption,
    NoSyncOption,
    OffsetOption,
    PartitionOption,
    PathOptions,
    PhysicalOffsetOption,
    QueueOption,
    ToOption,
    TopicOption,
    output_of,
    path_command,
)
from logdex.cli.output import emit, emit_json, hint, human_size, note_losses
from logdex.formats import format_of
from logdex.io.env import Env
from logdex.primitives.shown import counted

if TYPE_CHECKING:
    from logdex.convert.export import ExportReport


class Codec(StrEnum):
    """How Parquet's pages are compressed."""

    ZSTD = "zstd"
    SNAPPY = "snappy"
    LZ4 = "lz4"
    GZIP = "gzip"
    NONE = "none"


class TableFormat(StrEnum):
    """A table format that the output is in as well."""

    DELTA = "delta"


@app.command(
    epilog=epilog(
        "logdex export store --output lake",
        "logdex export store --output lake --topic orders --from 2026-03-03T08:00",
        "logdex export logs --output lake --isolation-level read_committed --json",
        "logdex export store --output lake --table-format delta",
        "logdex export store --output lake --engine spark --master 'local[2]'",
        notes="Writes Parquet files below DIR/topic=NAME/day=YYYY-MM-DD. Their columns are those of the Spark sources "
        "rocketmq_store and kafka_log, sorted by queue or partition and offset; columns of keys have Bloom filters. "
        "Run it again with the same --output and filter, and only what is new is exported. Nothing is published "
        "before everything is written, so an export that was stopped can be run again.",
    )
)
@path_command
def export(
    target: PathOptions,
    output: Annotated[
        str | None,
        typer.Option(
            "--output", "-o", metavar="DIR", help="Where to write, or where an export is.", show_default=False
        ),
    ] = None,
    topic: TopicOption = None,
    queue: QueueOption = None,
    partition: PartitionOption = None,
    begin_ms: FromOption = None,
    end_ms: ToOption = None,
    offset: OffsetOption = None,
    physical_offset: PhysicalOffsetOption = None,
    control: ControlOption = False,
    isolation: IsolationOption = None,
    codec: Annotated[Codec, typer.Option("--compression", help="The codec of the Parquet files.")] = Codec.ZSTD,
    table_format: Annotated[
        TableFormat | None,
        typer.Option(help="Make the output a Delta table too, which it then stays.", show_default=False),
    ] = None,
    engine: EngineOption = Engine.LOCAL,
    master: MasterOption = None,
    jobs: JobsOption = None,
    no_sync: NoSyncOption = False,
    no_space_check: NoSpaceCheckOption = False,
    as_json: JsonOption = False,
) -> None:
    """Export what is new of a log as Parquet. Exit 0 good, 2 cannot run, 3 done but lossy."""
    written_to = output_of("export", target.path, output)
    assert written_to is not None
    source = log_source(
        target,
        topic=topic,
        queue=queue,
        partition=partition,
        begin_ms=begin_ms,
        end_ms=end_ms,
        offset=offset,
        physical_offset=physical_offset,
        control=control,
        isolation=isolation,
    )
    from logdex.convert.export import export as run_export

    env = Env(check_space=not no_space_check)
    found = find(target)
    is_whole = note_unfinished(found)
    with runner_of("export", format_of(found).log_size_bytes(found), engine, master, jobs) as runner:
        report = run_export(
            source, written_to, runner, engine=engine, codec=codec, table_format=table_format, sync=not no_sync, env=env
        )
    if as_json:
        emit_json(report.to_json())
    else:
        _print(report, written_to)
    note_losses(report.notes, report.losses, "lost")
    if report.damaged or not is_whole:
        hint(f"logdex verify {shlex.quote(target.path)} lists all damage")
    if report.lossy or not is_whole:
        raise typer.Exit(DONE_BUT_LOSSY)


def _print(report: ExportReport, output: str) -> None:
    if not report.run:
        emit(f"Nothing new for {output}")
        return
    speed = human_size(int(report.bytes / report.seconds)) if report.seconds else "-"
    emit(
        f"Exported {counted(report.messages, 'message')} to {counted(report.files, 'file')} in {output}, "
        f"{human_size(report.written_bytes)} from {human_size(report.bytes)}, in {report.seconds:.1f} s ({speed}/s), "
        f"engine {report.engine}, {counted(report.tasks, 'task')}"
    )
