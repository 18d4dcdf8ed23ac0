"""`logdex cat` for Kafka paths."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from logdex.cli.progress_bars import progress_bar
from logdex.cli.views.kafka.records import print_record, tell_scan

if TYPE_CHECKING:
    from logdex.kafka.batch.record import Record
    from logdex.kafka.directory.recognise import KafkaPath
    from logdex.kafka.snapshot.partition_snapshot import PartitionSnapshot


def show(
    found: KafkaPath,
    settings: Mapping[str, Any],
    *,
    topic: str | None,
    partition: int | None,
    begin_ms: int | None,
    end_ms: int | None,
    offset: int | None,
    limit: int | None,
    follow: bool,
    control: bool,
    isolation: str | None,
    as_json: bool,
) -> bool:
    """Prints the records that pass the filter, and continues after bad batches. Returns whether
    there were none."""
    from logdex.kafka.snapshot.log_dir_snapshot import open_kafka

    with open_kafka(found, **settings) as snapshot:
        scan = snapshot.scan(
            topic=topic,
            partition=partition,
            begin_ms=begin_ms,
            end_ms=end_ms,
            offset=offset,
            limit=limit,
            control=control,
            isolation=isolation,
        )
        if follow:
            from logdex.cli.views.kafka.cat_follow import follow as print_as_they_come

            print_as_they_come(scan.partitions, scan.wanted, limit, as_json=as_json)
            return True
        total = sum(each.size_bytes for each in scan.partitions)
        if sys.stdout.isatty():  # a progress bar would be in the way between the lines
            _print(scan.items(), as_json)
        else:
            with progress_bar("cat", total) as scan.progress:
                _print(scan.items(), as_json)
        return tell_scan(scan, found.path)


def _print(items: Iterator[tuple[PartitionSnapshot, Record]], as_json: bool) -> None:
    for partition, record in items:
        print_record(partition, record, as_json=as_json)
