"""Prints Kafka's records, one per line, and the problems that a scan found."""

from __future__ import annotations

from typing import TYPE_CHECKING

from logdex.cli.output import emit, emit_json, hint, human_count, human_time, note, shown, shown_start

if TYPE_CHECKING:
    from logdex.kafka.batch.record import Record
    from logdex.kafka.read.record_scan import KafkaScan
    from logdex.kafka.snapshot.partition_snapshot import PartitionSnapshot

PROBLEMS_TOLD = 20


def print_record(partition: PartitionSnapshot, record: Record, *, as_json: bool) -> None:
    """Prints one line."""
    if as_json:
        from logdex.kafka.batch.record_json import record_to_json

        emit_json(record_to_json(record, topic=partition.topic, partition=partition.partition))
    else:
        emit(_line(partition, record))


def _line(partition: PartitionSnapshot, record: Record) -> str:
    parts = [
        human_time(record.timestamp_ms if record.timestamp_ms >= 0 else None),
        f"{shown(partition.topic)}/{partition.partition}",
        f"offset {record.offset}",
        f"key={'null' if record.key is None else shown(record.key)}",
    ]
    parts += [f"{shown(name)}:{'null' if value is None else shown(value)}" for name, value in record.headers]
    if record.is_control:
        parts.append("control")
    elif record.is_transactional:
        parts.append(f"transaction of producer {record.producer_id}")
    parts.append("null" if record.value is None else shown_start(record.value))
    return "  ".join(parts)


def tell_scan(scan: KafkaScan[PartitionSnapshot], path: str) -> bool:
    """Prints which batches a scan skipped and how the logs end. Returns whether everything is in
    order."""
    for problem in scan.problems[:PROBLEMS_TOLD]:
        note(f"skipped: {problem.message}")
    if len(scan.problems) > PROBLEMS_TOLD:
        note(f"and {human_count(len(scan.problems) - PROBLEMS_TOLD, 'bad batch', 'bad batches')} more")
    for partition in scan.deleted:
        note(f"{partition.path}: deleted by the broker meanwhile")
    for end in scan.ends:
        if end.end.kind.value == "zeros":
            note(f"{end.segment.log.path} ends at byte {end.end.position}: {end.end.reason}")
        elif end.end.error is not None:
            note(f"{end.end.kind.value}: {end.end.error.message}")
    if scan.gaps:
        note(
            f"{human_count(scan.missing_offsets, 'offset')} missing in {human_count(scan.gaps, 'gap')}: "
            "compaction or lost batches leave them"
        )
    if not scan.is_good:
        hint(f"logdex verify {path} lists all damage")
    return scan.is_good
