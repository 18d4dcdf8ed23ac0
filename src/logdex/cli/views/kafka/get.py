"""`logdex get` for Kafka paths: by offset through the OffsetIndex, by time through the
TimeIndex."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from logdex.cli.output import hint, human_time, note
from logdex.cli.rows.printer import print_end
from logdex.cli.rows.row_options import RowOptions
from logdex.cli.views.kafka.records import record_printer, scan_facts, tell_scan
from logdex.errors import OffsetOutOfRangeError, UsageError
from logdex.primitives.shown import counted

if TYPE_CHECKING:
    from logdex.kafka.directory.recognise import KafkaPath
    from logdex.kafka.segment.file_records import LogOffsetPosition
    from logdex.kafka.segment.log_segment import LogSegment
    from logdex.kafka.snapshot.log_dir_snapshot import KafkaSnapshot
    from logdex.kafka.snapshot.partition_snapshot import PartitionSnapshot


def show(
    found: KafkaPath,
    settings: Mapping[str, Any],
    *,
    topic: str | None,
    partition: int | None,
    offset: int | None,
    time_ms: int | None,
    count: int,
    grep: str | None,
    where: Sequence[str] | None,
    control: bool,
    isolation: str | None,
    rows: RowOptions,
) -> bool:
    """Prints `count` records of one partition from an offset or a time on. Returns whether all
    could be read."""
    from logdex.kafka.snapshot.log_dir_snapshot import open_kafka

    printer = record_printer(rows, grep, where)
    with open_kafka(found, **settings) as snapshot:
        one = _the_partition(snapshot, topic, partition)
        isolation = isolation or "read_uncommitted"
        start = _offset_at(one, time_ms, isolation) if time_ms is not None else offset
        bounds = {"min_offset": one.log_start_offset, "max_offset": one.log_end_offset}
        if start is None:
            end = one.log_end_offset
            print_end(rows, "get", count=0, offset=None, **bounds, next_offset=end, **scan_facts([]))
            return True
        try:
            one.check_offset(start)
        except OffsetOutOfRangeError:
            nearest = min(max(start, one.log_start_offset), one.log_end_offset)
            place = {"offset": start, **bounds, "next_offset": nearest}
            print_end(rows, "get", count=0, **place, **scan_facts([]))
            raise
        problems = _tell_place(one, start, control)
        scan = one.scan(offset=start, limit=count, control=control, isolation=isolation)
        after = start
        for record in scan:
            printer.print((one, record))
            after = record.offset + 1
        is_good = tell_scan(scan, found.path)
        note(
            f"{counted(scan.rows, 'record')}; the log goes from {one.log_start_offset} to {one.log_end_offset} "
            f"(exclusive), continue at {after}"
        )
        facts: dict[str, Any] = {"offset": start, **bounds, "next_offset": after, **scan_facts([scan])}
        facts["problems"] = [*problems, *facts["problems"]]
        print_end(rows, "get", count=printer.printed, **facts)
    return is_good


def _the_partition(snapshot: KafkaSnapshot, topic: str | None, partition: int | None) -> PartitionSnapshot:
    """Returns the requested partition. Raises `UsageError`, which names the missing option, if
    there are several."""
    scan = snapshot.scan(topic=topic, partition=partition)
    if len(scan.partitions) == 1:
        return scan.partitions[0]
    missing = "--topic T --partition N" if topic is None else "--partition N"
    raise UsageError("which partition?", hint=f"give {missing}; logdex info {shlex.quote(snapshot.path)} lists them")


def _offset_at(partition: PartitionSnapshot, time_ms: int, isolation: str) -> int | None:
    found = partition.offset_for_timestamp(time_ms, isolation=isolation) if time_ms >= 0 else None
    if time_ms < 0:
        return partition.log_start_offset
    if found is None:
        note(f"no record at or after {human_time(time_ms)} [{time_ms}]")
        return None
    note(f"offset {found.offset}, of {human_time(found.timestamp_ms)} [{found.timestamp_ms}], by the TimeIndex")
    return found.offset


def _tell_place(partition: PartitionSnapshot, offset: int, control: bool) -> list[str]:
    """Prints where an offset is in the log. Returns what is wrong with the index that says so."""
    from logdex.errors import CorruptError

    try:
        place = partition.locate(offset)
    except CorruptError as error:
        problem = f"the OffsetIndex cannot be used: {error.message}"
        note(problem)
        hint("the segment is read from its beginning; logdex rebuild derives the index again")
        return [problem]
    if place is None:
        note(f"no batch holds offset {offset} or a later one")
    else:
        segment, batch = place
        note(
            f"segment {segment.base_offset}, byte {batch.position} of {segment.log.path}: a batch of "
            f"{batch.size_bytes} bytes that begins at offset {batch.offset}{_marker(segment, batch, control)}"
        )
    return []


def _marker(segment: LogSegment, place: LogOffsetPosition, control: bool) -> str:
    """Says that a batch is no record, if it is not shown, and so the first record comes later."""
    from logdex.errors import CorruptError

    try:
        is_passed_over = not control and segment.log.batch_at(place.position).is_control
    except CorruptError:
        return ""
    return ", a transaction marker, which only --control shows: what follows it is shown" if is_passed_over else ""
