"""Prints the records of Kafka partitions as they come."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING

from logdex.cli.output import note
from logdex.cli.rows.printer import RowPrinter
from logdex.cli.views.kafka.records import RecordRow
from logdex.errors import UsageError
from logdex.jobs import look_again

if TYPE_CHECKING:
    from logdex.kafka.batch.record import Record
    from logdex.kafka.read.read_filter import ReadFilter
    from logdex.kafka.snapshot.partition_snapshot import PartitionSnapshot


def follow(
    partitions: Sequence[PartitionSnapshot],
    wanted: ReadFilter,
    printer: RowPrinter[RecordRow],
    starts: Mapping[str, int] | None = None,
) -> None:
    """Prints the records that pass a filter and waits for more, until the printer is done. `starts`
    are the offsets at which to begin, by the partition's path."""
    from logdex.kafka.read.follow import LogFollower

    with ExitStack() as stack:
        followers = []
        for partition in partitions:
            if partition.path.endswith(".log"):
                raise UsageError(f"{partition.path} is one file", hint="give its partition's directory")
            start = (starts or {}).get(partition.path, wanted.offset or 0)
            if wanted.isolation is not None:
                start = max(start, partition.log_start_offset)
            follower = LogFollower(partition.path, start, isolation=wanted.isolation or "read_uncommitted")
            followers.append((partition, stack.enter_context(follower)))
        while not printer.is_done:
            is_idle = True
            for partition, follower in followers:
                offset = follower.offset
                records = follower.poll()
                if follower.cut_to is not None:
                    note(f"{partition.path}: the log was cut from offset {offset} back to {follower.cut_to}")
                is_idle = is_idle and not records
                for record in records:
                    if _is_wanted(record, wanted) and not printer.print((partition, record)):
                        break
            sys.stdout.flush()
            if is_idle:
                look_again.pause()


def _is_wanted(record: Record, wanted: ReadFilter) -> bool:
    after = wanted.begin_ms is None or record.timestamp_ms >= wanted.begin_ms
    before = wanted.end_ms is None or record.timestamp_ms <= wanted.end_ms
    return after and before and (wanted.control or not record.is_control)
