"""`logdex consume` for Kafka paths: a group is a named reader of each partition."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Any

from logdex.cli.output import note
from logdex.cli.rows.printer import RowPrinter, print_end
from logdex.cli.rows.row_options import RowOptions
from logdex.cli.views.kafka.records import RecordRow, record_printer
from logdex.errors import StoreError, UsageError
from logdex.jobs import look_again
from logdex.primitives.shown import counted

if TYPE_CHECKING:
    from logdex.kafka.directory.recognise import KafkaPath
    from logdex.kafka.readers.log_reader import LogReader
    from logdex.kafka.snapshot.log_dir_snapshot import KafkaSnapshot
    from logdex.kafka.snapshot.partition_snapshot import PartitionSnapshot

_AT_ONCE = 256


def show(
    found: KafkaPath,
    settings: Mapping[str, Any],
    *,
    topic: str | None,
    group: str,
    start: str,
    follow: bool,
    limit: int | None,
    grep: str | None,
    where: Sequence[str] | None,
    rows: RowOptions,
) -> bool:
    """Prints records and commits them."""
    from logdex.kafka.directory.recognise import KafkaPathKind
    from logdex.kafka.readers.log_reader import LogReader
    from logdex.kafka.snapshot.log_dir_snapshot import open_kafka

    if found.kind is KafkaPathKind.LOG_DIR and topic is None:
        raise UsageError("which topic?", hint=f"give --topic T; logdex info {shlex.quote(found.path)} lists them")
    if found.kind not in (KafkaPathKind.LOG_DIR, KafkaPathKind.PARTITION):
        raise UsageError(f"{found.path} is {found.description}", hint="give its partition's directory")
    with open_kafka(found, **settings) as snapshot, ExitStack() as stack:
        readers = []
        partitions = snapshot.scan(topic=topic).partitions
        _tell_broker_group(snapshot, partitions, group)
        for partition in partitions:
            first = partition.log_end_offset if start == "last" else partition.log_start_offset
            reader = stack.enter_context(LogReader(partition.path, group, start=first))
            if start == "last":
                reader.commit()
            readers.append((partition, reader))
        printer = record_printer(rows, grep, where)
        _print(readers, limit, follow=follow, printer=printer)
    note(f"{group} goes on behind this; it read {counted(len(readers), 'partition')}")
    facts = {"group": group, "partitions": len(readers), "is_complete": True, "problems": []}
    print_end(rows, "consume", count=printer.printed, **facts)
    return True


def _tell_broker_group(snapshot: KafkaSnapshot, partitions: Sequence[PartitionSnapshot], group: str) -> None:
    """Says that a new reader has the name of a consumer group of the broker's, whose offsets it
    does not use."""
    from logdex.kafka.readers.progress import group_progress, progress_of

    if progress_of(partitions, group, is_named=False):
        return
    with suppress(StoreError):  # __consumer_offsets is not what is asked for
        if any(each.name == group for each in group_progress(snapshot, partitions)):
            note(f"{group} is a new reader of Logdex's; the broker's consumer group of that name keeps its own offsets")


def _print(
    readers: list[tuple[PartitionSnapshot, LogReader]],
    left: int | None,
    *,
    follow: bool,
    printer: RowPrinter[RecordRow],
) -> None:
    while left is None or left > 0:
        is_idle = True
        for partition, reader in readers:
            count = _AT_ONCE if left is None else min(left, _AT_ONCE)
            records = reader.poll(count) if count else []
            for record in records:
                printer.print((partition, record))
            sys.stdout.flush()
            reader.commit()
            is_idle = is_idle and not records
            left = None if left is None else left - len(records)
        if is_idle and not follow:
            return
        if is_idle:
            look_again.pause()
