"""Every golden log through the kernels: batches as the real classes name them, records as the
scalar code has them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from logdex.errors import CorruptError
from logdex.kafka.batch.record import Record
from logdex.kafka.batch.record_batch import decode_batch
from logdex.kafka.columns.record_columns import read_record_batches, record_schema
from logdex.kafka.columns.record_window import records_to_batch
from logdex.kafka.scan.scanner import BatchScanner
from logdex.layout.kafka import BATCH_CONTROL, BATCH_TRANSACTIONAL
from tests.golden import kafka as golden_kafka

pytestmark = pytest.mark.skipif(not golden_kafka.NAMES, reason="needs golden Kafka logs")


def _scan(path: Path) -> list[dict[str, Any]]:
    """The good batches of a .log, as ReadLog's lines have them."""
    rows = []
    for window in BatchScanner(window_batches=100).scan_file(str(path)):
        for row in zip(*(column.tolist() for column in window.columns), strict=True):
            batch = dict(zip(window.columns._fields, row, strict=True))
            rows.append(
                {
                    "position": batch["position"],
                    "size": batch["size"],
                    "lastOffset": batch["last_offset"],
                    "magic": batch["magic"],
                    "maxTimestamp": batch["max_timestamp_ms"],
                    "count": batch["count"] if batch["magic"] == 2 else None,
                    "crc": batch["crc"],
                    "leaderEpoch": batch["leader_epoch"],
                    "producerId": batch["producer_id"],
                    "producerEpoch": batch["producer_epoch"],
                    "baseSequence": batch["base_sequence"],
                    "transactional": batch["magic"] == 2 and bool(batch["attributes"] & BATCH_TRANSACTIONAL),
                    "control": batch["magic"] == 2 and bool(batch["attributes"] & BATCH_CONTROL),
                }
            )
    return rows


@pytest.mark.parametrize("name", golden_kafka.NAMES)
def test_batches_and_records(name: str, golden_log: Callable[[str], Path]) -> None:
    root = golden_log(name)
    lines = [line for line in golden_kafka.records(name) if line["kind"] == "batch"]
    golden = golden_kafka.by_segment(lines)
    for path in sorted(root.glob("*/*.log")):
        stated = golden[path.parent.name, int(path.stem)]
        good = next((i for i, line in enumerate(stated) if not line["valid"]), len(stated))
        rows = _scan(path)
        assert rows == [{key: line[key] for key in row} for row, line in zip(rows, stated[:good], strict=True)]
        _check_records(path, [line["position"] for line in stated if line["valid"]])


def _check_records(path: Path, positions: list[int]) -> None:
    """The records of all batches that are right, those behind damage too, against the scalar
    code's."""
    data = path.read_bytes()
    expected: list[Record] = []
    for position in positions:
        expected += decode_batch(data, position)[0].records()
    errors: list[CorruptError] = []
    found = pa.Table.from_batches(
        read_record_batches(str(path), skip_control=False, on_bad_batch=errors.append, window_bytes=1 << 16),
        schema=record_schema(),
    )
    batches = [records_to_batch(expected, record_schema())] if expected else []
    assert found.equals(pa.Table.from_batches(batches, schema=record_schema()))
