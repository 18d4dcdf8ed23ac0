"""`logdex rebuild` of Kafka paths."""

from __future__ import annotations

from typing import TYPE_CHECKING

from logdex.cli.output import hint, human_count, human_size, note, note_settings
from logdex.cli.rebuilding import print_report, rebuilding

if TYPE_CHECKING:
    from logdex.kafka.directory.recognise import KafkaPath
    from logdex.kafka.rebuild.report import KafkaRebuildReport


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
    from logdex.jobs.tasks import LocalRunner
    from logdex.kafka.rebuild import rebuild_on, rebuild_settings
    from logdex.kafka.rebuild.source import find_source

    settings = rebuild_settings(index_interval_bytes, key_index=key_index, sync=sync)
    total = find_source(found, DEFAULT_ENV).size_bytes
    if in_place:
        note(f"writes beside the logs in {target}; what is replaced is kept under a dated name")
    with rebuilding(master, total) as (spark, progress):
        if spark is None:
            report = rebuild_on(LocalRunner(progress), found.path, target, settings, in_place=in_place)
        else:
            from logdex.spark.tasks import TaskRunner

            runner = TaskRunner(spark, progress)
            report = rebuild_on(runner, found, target, settings, in_place=in_place, engine="spark")
    print_report(report, _source(report), _rows(report, target), as_json=as_json)
    note_settings(report.inferred, report.assumed)
    for line in [*report.notes, *report.losses]:
        note(line)
    if report.lossy:
        hint(f"logdex recover {found.path} --output DIR saves what lies behind damage")
    return report


def _source(report: KafkaRebuildReport) -> str:
    batches = human_count(report.batches, "batch", "batches")
    return f"{human_count(report.messages, 'record')} in {batches}, {human_size(report.bytes)}"


def _rows(report: KafkaRebuildReport, target: str) -> list[tuple[str, str]]:
    rows = [
        ("logs", f"{human_count(report.partitions, 'partition')}, {human_count(report.segments, 'segment')}"),
        (".index", _entries(report.offset_index_entries)),
        (".timeindex", _entries(report.time_index_entries)),
        (".txnindex", human_count(report.aborted_transactions, "aborted transaction")),
        (".snapshot", human_count(report.snapshots, "file")),
    ]
    if report.key_index_entries:
        rows.append((".keyindex", _entries(report.key_index_entries)))
    return [*rows, ("files", f"{human_count(report.files, 'file')} in {target}")]


def _entries(count: int) -> str:
    return human_count(count, "entry", "entries")
