"""`logdex rebuild` of Kafka paths."""

from __future__ import annotations

from typing import TYPE_CHECKING

from logdex.cli.output import emit, emit_json, hint, human_count, human_size, kept_rows, note, table
from logdex.cli.progress import progress_bar

if TYPE_CHECKING:
    from logdex.kafka.rebuild.report import KafkaRebuildReport
    from logdex.kafka.recognise import KafkaPath


def rebuild_kafka(
    found: KafkaPath,
    target: str,
    *,
    index_interval_bytes: int | None,
    key_index: bool,
    in_place: bool,
    sync: bool,
    master: str | None,
    as_json: bool,
) -> KafkaRebuildReport:
    """Rebuilds into `target`, here or on the Spark at `master`, and prints the report."""
    from logdex.io.env import DEFAULT_ENV
    from logdex.io.tasks import LocalRunner
    from logdex.kafka.rebuild import rebuild_on, rebuild_settings
    from logdex.kafka.rebuild.source import find_source

    settings = rebuild_settings(index_interval_bytes, key_index=key_index, sync=sync)
    total = find_source(found, DEFAULT_ENV).size_bytes
    if in_place:
        note(f"writes beside the logs in {target}; what is replaced is kept under a dated name")
    if master is not None:
        from logdex.spark.rebuild_job import rebuild_kafka as rebuild_on_spark
        from logdex.spark.session import session

        note("starting Spark, a few seconds")
        with session(master, app_name="logdex rebuild") as spark, progress_bar("rebuild", total) as progress:
            report = rebuild_on_spark(spark, found.path, target, settings, in_place=in_place, progress=progress)
    else:
        with progress_bar("rebuild", total) as progress:
            report = rebuild_on(LocalRunner(progress), found.path, target, settings, in_place=in_place)
    if as_json:
        emit_json(report.to_json())
    else:
        _print(report, target)
    for told in report.inferred:
        note(f"inferred {told}")
    for guess in report.assumed:
        note(f"assumed {guess}")
    for line in [*report.notes, *report.losses]:
        note(line)
    if report.lossy:
        hint(f"logdex recover {found.path} --output DIR saves what lies behind damage")
    return report


def _print(report: KafkaRebuildReport, target: str) -> None:
    speed = human_size(int(report.bytes / report.seconds)) if report.seconds else "-"
    emit(
        f"Rebuilt from {human_count(report.messages, 'record')} in {human_count(report.batches, 'batch', 'batches')}, "
        f"{human_size(report.bytes)}, in {report.seconds:.1f} s ({speed}/s), engine {report.engine}, "
        f"{human_count(report.tasks, 'task')}"
    )
    rows = [
        ("logs", f"{human_count(report.partitions, 'partition')}, {human_count(report.segments, 'segment')}"),
        (".index", _entries(report.offset_index_entries)),
        (".timeindex", _entries(report.time_index_entries)),
        (".txnindex", human_count(report.aborted_transactions, "aborted transaction")),
        (".snapshot", human_count(report.snapshots, "file")),
    ]
    if report.key_index_entries:
        rows.append((".keyindex", _entries(report.key_index_entries)))
    rows.append(("files", f"{human_count(report.files, 'file')} in {target}"))
    rows += kept_rows(report.kept)
    table(rows)


def _entries(count: int) -> str:
    return human_count(count, "entry", "entries")
