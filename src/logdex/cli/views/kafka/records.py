"""Kafka's records as rows that commands print, and the problems that a scan found."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from logdex.cli.output import hint, human_time, note, shown
from logdex.cli.rows.printer import RowPrinter
from logdex.cli.rows.row_filter import RowFilter
from logdex.cli.rows.row_options import RowOptions, Values
from logdex.cli.rows.row_text import pairs_text
from logdex.cli.rows.shape import Pair, RowShape
from logdex.primitives.shown import counted

if TYPE_CHECKING:
    import pyarrow as pa

    from logdex.arrow_text.cells import Cells, Parts
    from logdex.kafka.batch.record import Record
    from logdex.kafka.read.record_scan import KafkaScan
    from logdex.kafka.snapshot.partition_snapshot import PartitionSnapshot

PROBLEMS_TOLD = 20

RecordRow = tuple["PartitionSnapshot", "Record"]


def record_printer(
    rows: RowOptions, grep: str | None, where: Sequence[str] | None, limit: int | None = None
) -> RowPrinter[RecordRow]:
    """Returns what prints records, each with its partition, as the options say: those that pass the
    filters `grep` and `where`, and at most `limit`."""
    return RowPrinter(RECORDS, rows, RowFilter(RECORDS, grep, where), limit)


def _line(row: RecordRow) -> list[str]:
    partition, record = row
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
    return parts


def _line_parts(batch: pa.RecordBatch, options: RowOptions) -> Parts:
    """Returns the parts of the lines of Arrow rows, as `_line` of records."""
    from logdex.arrow_text.cells import int_cells
    from logdex.arrow_text.line_cells import shown_cells, shown_pair_cells, time_cells

    column = batch.column
    parts = [
        ("", time_cells(column("timestamp_ms"), negative_is_none=True)),
        ("  ", shown_cells(column("topic"))),
        ("/", int_cells(column("partition"))),
        ("  offset ", int_cells(column("offset"))),
        ("  key=", shown_cells(column("key"), null="null")),
        ("", shown_pair_cells(column("headers"), ("  ", ":", ""), "null")),
        ("", _state_cells(batch)),
    ]
    if options.values is not Values.NONE:
        parts.append(("  ", shown_cells(column("value"), null="null", chars_max=options.chars_max)))
    return parts


def _state_cells(batch: pa.RecordBatch) -> Cells:
    import numpy as np

    from logdex.arrow_text.cells import choice_cells, same_cells

    if not (batch.column("is_control").true_count or batch.column("is_transactional").true_count):
        return same_cells("")
    is_control, is_transactional, producers = (
        batch.column(name).to_numpy(zero_copy_only=False) for name in ("is_control", "is_transactional", "producer_id")
    )
    known, places = np.unique(producers, return_inverse=True)
    numbers = np.where(is_control, 1, np.where(is_transactional, places + 2, 0))
    texts = [f"  transaction of producer {each}" for each in known.tolist()]
    return choice_cells(["", "  control", *texts], numbers)


def _to_json(row: RecordRow) -> dict[str, Any]:
    from logdex.kafka.batch.record_json import record_to_json

    partition, record = row
    return record_to_json(record, topic=partition.topic, partition=partition.partition)


def _headers(row: RecordRow) -> list[Pair]:
    from logdex.kafka.batch.record_json import header_key_text

    return [(header_key_text(name), value) for name, value in row[1].headers]


def _decode(row: RecordRow) -> dict[str, Any] | None:
    from logdex.kafka.internal_topics.decode import decode_record

    return decode_record(row[0].topic, row[1])


def _size_of(value: bytes | None) -> int:
    return -1 if value is None else len(value)


RECORDS: RowShape[RecordRow] = RowShape(
    fields=(
        *("topic", "partition", "offset", "timestamp_ms", "timestamp_type", "key", "value", "headers"),
        *("leader_epoch", "producer_id", "producer_epoch", "sequence", "is_transactional", "is_control"),
    ),
    line=_line,
    to_json=_to_json,
    contents={"key": lambda row: row[1].key, "value": lambda row: row[1].value},
    pairs_field="headers",
    pairs=_headers,
    pairs_are_bytes=True,
    letters={
        "s": lambda row: row[1].value,
        "v": lambda row: row[1].value,
        "S": lambda row: _size_of(row[1].value),
        "k": lambda row: row[1].key,
        "K": lambda row: _size_of(row[1].key),
        "T": lambda row: row[1].timestamp_ms,
        "D": lambda row: human_time(row[1].timestamp_ms if row[1].timestamp_ms >= 0 else None),
        "t": lambda row: row[0].topic,
        "p": lambda row: row[0].partition,
        "o": lambda row: row[1].offset,
        "h": lambda row: pairs_text(_headers(row)),
        "e": lambda row: row[1].leader_epoch,
        "P": lambda row: row[1].producer_id,
    },
    decode=_decode,
    numbers=frozenset(
        ["partition", "offset", "timestamp_ms", "leader_epoch", "producer_id", "producer_epoch", "sequence"]
    ),
    flags=frozenset(["is_transactional", "is_control"]),
    line_parts=_line_parts,
    line_columns=(
        *("topic", "partition", "offset", "timestamp_ms", "key", "value", "headers"),
        *("is_transactional", "is_control", "producer_id"),
    ),
)
"""How records are shown. The letters of `--format` stand in docs/guide/readable-output.md."""


def scan_facts(scans: Sequence[KafkaScan[PartitionSnapshot]]) -> dict[str, Any]:
    """Returns what `tell_scan` prints of scans, for programs."""
    ends = [
        {"path": each.segment.log.path, "position": each.end.position, "kind": each.end.kind.value}
        for scan in scans
        for each in scan.ends
        if each.end.kind.value != "end"
    ]
    return {
        "is_complete": all(scan.is_good for scan in scans),
        "problems": [problem.message for scan in scans for problem in scan.problems],
        "ends": ends,
        "gaps": sum(scan.gaps for scan in scans),
        "missing_offsets": sum(scan.missing_offsets for scan in scans),
        "deleted": [each.path for scan in scans for each in scan.deleted],
    }


def tell_scan(scan: KafkaScan[PartitionSnapshot], path: str) -> bool:
    """Prints which batches a scan skipped and how the logs end. Returns whether everything is in
    order."""
    for problem in scan.problems[:PROBLEMS_TOLD]:
        note(f"skipped: {problem.message}")
    if len(scan.problems) > PROBLEMS_TOLD:
        note(f"and {counted(len(scan.problems) - PROBLEMS_TOLD, 'bad batch', 'bad batches')} more")
    for partition in scan.deleted:
        note(f"{partition.path}: deleted by the broker meanwhile")
    for end in scan.ends:
        if end.end.kind.value == "zeros":
            note(end.description)
        elif end.end.error is not None:
            note(f"{end.end.kind.value}: {end.end.error.message}")
    if scan.gaps:
        note(
            f"{counted(scan.missing_offsets, 'offset')} missing in {counted(scan.gaps, 'gap')}: "
            "compaction or lost batches leave them"
        )
    if not scan.is_good:
        hint(f"logdex verify {shlex.quote(path)} lists all damage")
    return scan.is_good
