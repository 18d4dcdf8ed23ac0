"""`logdex cat` of Kafka paths."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import typer

from logdex.cli.app import PROBLEMS_FOUND
from logdex.cli.options import StoreOptions
from logdex.cli.progress import progress_bar
from logdex.cli.views.kafka.output import print_record, tell_scan
from logdex.cli.views.kafka.paths import open_snapshot

if TYPE_CHECKING:
    from logdex.kafka.batch.record import Record
    from logdex.kafka.directory.recognise import KafkaPath
    from logdex.kafka.read.record_scan import ScanOptions
    from logdex.kafka.snapshot.partition_snapshot import PartitionSnapshot


def cat_kafka(
    found: KafkaPath,
    store: StoreOptions,
    wanted: ScanOptions,
    *,
    topic: str | None,
    partition: int | None,
    as_json: bool,
) -> None:
    """Prints what passes the filter; goes on behind bad batches and exits 1 then."""
    with open_snapshot(found, store) as snapshot:
        scan = snapshot.scan(topic=topic, partition=partition, **wanted)
        total = sum(each.size_bytes for each in scan.partitions)
        if sys.stdout.isatty():  # a bar between the lines would be in the way
            _print(scan.items(), as_json)
        else:
            with progress_bar("cat", total) as scan.progress:
                _print(scan.items(), as_json)
        is_good = tell_scan(scan, store.path)
    if not is_good:
        raise typer.Exit(PROBLEMS_FOUND)


def _print(items: Iterator[tuple[PartitionSnapshot, Record]], as_json: bool) -> None:
    for partition, record in items:
        print_record(partition, record, as_json=as_json)
