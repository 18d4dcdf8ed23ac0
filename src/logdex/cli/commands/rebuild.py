"""`logdex rebuild`: every file that follows from the logs, derived from the logs alone, of either format."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from logdex.cli.app import DONE_BUT_LOSSY, app, epilog
from logdex.cli.options import JsonOption, NoSyncOption, StoreOptions, output_target, store_command
from logdex.cli.output import human_count, human_size, note, note_settings
from logdex.cli.rebuilding import print_report, rebuilding
from logdex.cli.views.kafka.paths import directory_of, kafka_path
from logdex.cli.views.kafka.rebuild import rebuild_kafka

if TYPE_CHECKING:
    from logdex.rocketmq.rebuild.report import RebuildReport


class Engine(StrEnum):
    """What does the work."""

    LOCAL = "local"
    SPARK = "spark"


@app.command(
    epilog=epilog(
        "logdex rebuild store --output rebuilt",
        "logdex rebuild store --output rebuilt --engine spark --master 'local[2]'",
        "logdex rebuild store --output rebuilt --json",
        "logdex rebuild store/commitlog/00000000000000000000 --output rebuilt",
        "logdex rebuild logs --output rebuilt --key-index",
        notes="Of a CommitLog file given by itself: what follows from its messages alone. What --output "
        "already holds under these names is kept under a dated name. Nothing is published before all is "
        "written: a rebuild that was stopped can simply be run again.",
    )
)
@store_command
def rebuild(
    store: StoreOptions,
    output: Annotated[
        str | None,
        typer.Option(
            "--output",
            "-o",
            metavar="DIR",
            help="Where to write consumequeue/ and index/; of Kafka topic-N/, or one partition's files.",
            show_default=False,
        ),
    ] = None,
    in_place: Annotated[
        bool, typer.Option("--in-place", help="Write into the store itself; what is replaced is kept.")
    ] = False,
    key_index: Annotated[bool, typer.Option("--key-index", help="A .keyindex for each segment too (Kafka).")] = False,
    engine: Annotated[Engine, typer.Option(help="Work in this process, or on Spark.")] = Engine.LOCAL,
    master: Annotated[str, typer.Option(help="Spark master, with --engine spark.")] = "local[*]",
    no_sync: NoSyncOption = False,
    as_json: JsonOption = False,
) -> None:
    """Derive ConsumeQueues and IndexFiles from the CommitLog alone; Kafka's indexes, snapshots and leader epochs from
    the .log files alone. Exit 0 good, 2 cannot run, 3 done but lossy."""
    target = output_target("rebuild", store.path, output, in_place=in_place)
    found = kafka_path(store, kafka={"--key-index": key_index})
    if found is not None:
        kafka_report = rebuild_kafka(
            found,
            directory_of(found) if in_place else target,
            index_interval_bytes=store.index_interval_bytes,
            key_index=key_index,
            in_place=in_place,
            sync=not no_sync,
            master=master if engine is Engine.SPARK else None,
            as_json=as_json,
        )
        raise typer.Exit(DONE_BUT_LOSSY if kafka_report.lossy else 0)
    from logdex.cli.views.rocketmq.stores import resolve

    config, log = resolve(store)
    if in_place:
        note(f"writes consumequeue/ and index/ in {store.path}; what is there is kept under a dated name")
    total = sum(file.size_bytes for file in log.files)
    with rebuilding(master if engine is Engine.SPARK else None, total) as (spark, progress):
        if spark is None:
            from logdex.rocketmq.rebuild import rebuild as rebuild_here

            report = rebuild_here(store.path, target, config, in_place=in_place, sync=not no_sync, progress=progress)
        else:
            from logdex.rocketmq.rebuild import rebuild_on
            from logdex.spark.tasks import TaskRunner

            report = rebuild_on(
                *(TaskRunner(spark, progress), store.path, target, config),
                in_place=in_place,
                sync=not no_sync,
                engine="spark",
            )
    if log.is_one_file:
        note(f"{store.path} is one CommitLog file: queues and index are of its messages alone, not of the whole store")
    source = f"{human_count(report.messages, 'message')}, {human_size(report.bytes)} of CommitLog"
    print_report(report, source, _rows(report, target), as_json=as_json)
    note_settings([], report.assumed)
    for loss in report.losses:
        note(loss)
    if report.lossy:
        raise typer.Exit(DONE_BUT_LOSSY)


def _rows(report: RebuildReport, target: str) -> list[tuple[str, str]]:
    rows = [
        (
            "ConsumeQueues",
            f"{human_count(report.queues, 'queue')}, {human_count(report.queue_entries, 'entry', 'entries')}",
        ),
        (
            "IndexFiles",
            f"{human_count(report.index_files, 'file')}, {human_count(report.index_entries, 'entry', 'entries')}",
        ),
        ("files", f"{human_count(report.files, 'file')} in {target}"),
        ("log end", f"offset {report.end_offset}: {report.end}"),
    ]
    if report.pre_blank_gaps:
        rows.append(
            ("gaps", f"{human_count(report.pre_blank_gaps, 'gap')} in queue offsets, filled with blank entries")
        )
    return rows
