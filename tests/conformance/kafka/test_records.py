"""Every batch and record of every golden log, as the real classes read them; and encoded again to
the same bytes."""

from __future__ import annotations

import base64
import hashlib
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from logdex.kafka.batch.record import Compression, Record, TimestampType
from logdex.kafka.batch.record_batch import RecordBatch, decode_batch, encode_batch, encode_end_marker
from tests.golden import kafka as golden_kafka

CONTROL_NAMES = {0: "ABORT", 1: "COMMIT", 2: "LEADER_CHANGE", 3: "SNAPSHOT_HEADER", 4: "SNAPSHOT_FOOTER"}
GoldenLog = Callable[[str], Path]
PLACE = ("kind", "partition", "segment", "position", "error")
EXACT_CODECS = (
    Compression.NONE,
    Compression.LZ4,
    *(() if "zlib-ng" in zlib.ZLIB_RUNTIME_VERSION else (Compression.GZIP,)),
)
"""Codecs whose bytes do not depend on a library's version."""

pytestmark = pytest.mark.skipif(not golden_kafka.NAMES, reason="needs golden Kafka logs")


def _batches(name: str, root: Path) -> Iterator[tuple[RecordBatch, dict[str, Any], list[dict[str, Any]]]]:
    """(batch, its golden line, its records' lines) for each batch line of a case, also where a
    checksum is wrong."""
    logs: dict[tuple[str, int], bytes] = {}
    pending: list[tuple[RecordBatch, dict[str, Any], list[dict[str, Any]]]] = []
    for line in golden_kafka.records(name):
        if line["kind"] == "record":
            pending[-1][2].append(line)
            continue
        if line["kind"] != "batch":
            continue
        yield from pending
        place = (line["partition"], line["segment"])
        if place not in logs:
            logs = {place: (root / place[0] / f"{place[1]:020d}.log").read_bytes()}
        batch, size = decode_batch(logs[place], line["position"], check_crc=False)
        assert size == line["size"]
        pending = [(batch, line, [])]
    yield from pending


def _batch_line(batch: RecordBatch, *, valid: bool) -> dict[str, Any]:
    """The batch as the peers' ReadLog puts it."""
    line = {
        "size": batch.size_bytes,
        "baseOffset": batch.first_offset() if valid else batch.base_offset,
        "lastOffset": batch.last_offset,
        "magic": batch.magic,
        "valid": batch.crc == batch.computed_crc,
        "maxTimestamp": batch.max_timestamp_ms,
        "timestampType": batch.timestamp_type.value,
        "codec": batch.compression.label,
        "count": batch.count if batch.magic == 2 else None,
        "crc": batch.crc,
        "leaderEpoch": batch.leader_epoch,
        "producerId": batch.producer_id,
        "producerEpoch": batch.producer_epoch,
        "baseSequence": batch.base_sequence,
        "lastSequence": batch.last_sequence,
        "transactional": batch.is_transactional,
        "control": batch.is_control,
    }
    if batch.delete_horizon_ms is not None:
        line["deleteHorizon"] = batch.delete_horizon_ms
    return line


def _bytes_fields(name: str, data: bytes | None, expected: dict[str, Any]) -> dict[str, Any]:
    """Bytes as in the golden line: base64, or size and hash for long ones."""
    if data is not None and name not in expected:
        return {f"{name}Size": len(data), f"{name}Sha256": hashlib.sha256(data).hexdigest()}
    return {name: None if data is None else base64.b64encode(data).decode()}


def _record_line(record: Record, batch: RecordBatch, expected: dict[str, Any]) -> dict[str, Any]:
    line: dict[str, Any] = {
        "offset": record.offset,
        "timestamp": record.timestamp_ms,
        "sequence": record.sequence,
        **_bytes_fields("key", record.key, expected),
        **_bytes_fields("value", record.value, expected),
        "headers": [[key, _bytes_fields("v", value, {"v": 0})["v"]] for key, value in record.headers],
    }
    if batch.is_control:
        line["controlType"] = CONTROL_NAMES[batch.control_type or 0]
    return line


def _check_marker(batch: RecordBatch, record_lines: list[dict[str, Any]]) -> None:
    """Markers are told, and written as the coordinator writes them."""
    marker = batch.end_marker()
    if marker is None:
        assert not any(record.get("controlType") in ("ABORT", "COMMIT") for record in record_lines)
        return
    assert record_lines[0]["controlType"] == ("COMMIT" if marker.is_commit else "ABORT")
    if batch.delete_horizon_ms is not None:  # the cleaner has been here since
        return
    assert batch.raw == encode_end_marker(
        marker.is_commit,
        producer_id=batch.producer_id,
        producer_epoch=batch.producer_epoch,
        coordinator_epoch=marker.coordinator_epoch,
        offset=batch.base_offset,
        timestamp_ms=batch.max_timestamp_ms,
        leader_epoch=batch.leader_epoch,
    )


@pytest.mark.parametrize("name", golden_kafka.NAMES)
def test_every_batch_and_record_is_read_as_by_the_real_classes(name: str, golden_log: GoldenLog) -> None:
    seen = 0
    for batch, line, record_lines in _batches(name, golden_log(name)):
        expected = {field: value for field, value in line.items() if field not in PLACE}
        got = _batch_line(batch, valid=line["valid"])
        if not line["valid"]:
            expected["baseOffset"] = got["baseOffset"] = 0 if batch.magic < 2 else line["baseOffset"]
        assert got == expected
        records = list(batch.records()) if line["valid"] else []
        assert len(records) == len(record_lines)
        for record, expected_record in zip(records, record_lines, strict=True):
            wanted = {field: value for field, value in expected_record.items() if field not in PLACE}
            assert _record_line(record, batch, expected_record) == wanted
        if line["valid"]:
            _check_marker(batch, record_lines)
        seen += 1
    assert seen


def _options(batch: RecordBatch, records: list[Record]) -> dict[str, Any]:
    """The arguments of `encode_batch` that `batch` was made with."""
    options = {
        "base_offset": records[0].offset if records and batch.magic < 2 else batch.base_offset,
        "compression": batch.compression,
        "timestamp_type": batch.timestamp_type,
        "max_timestamp_ms": batch.max_timestamp_ms,
        "keep_offsets": True,
        "magic": batch.magic,
    }
    if batch.magic == 2:
        options |= {
            "leader_epoch": batch.leader_epoch,
            "producer_id": batch.producer_id,
            "producer_epoch": batch.producer_epoch,
            "base_sequence": batch.base_sequence,
            "is_transactional": batch.is_transactional,
            "is_control": batch.is_control,
            "delete_horizon_ms": batch.delete_horizon_ms,
            "last_offset": batch.last_offset,
        }
    return options


@pytest.mark.parametrize("name", golden_kafka.NAMES)
def test_records_encode_to_the_bytes_that_kafka_wrote(name: str, golden_log: GoldenLog) -> None:
    """None, gzip and lz4: the same bytes. Snappy and zstd: the same records, header but for length
    and CRC."""
    for batch, line, _ in _batches(name, golden_log(name)):
        if not line["valid"]:
            continue
        records = list(batch.records())
        options = _options(batch, records)
        raw = encode_batch(records, **options)
        # The producer's timestamps lie under a LogAppendTime of magic 2, unread: their deltas
        # cannot be made again.
        stamps_known = batch.magic < 2 or batch.timestamp_type is TimestampType.CREATE_TIME
        if batch.compression in EXACT_CODECS and stamps_known:
            assert raw == batch.raw, line
            continue
        again, _ = decode_batch(raw)
        assert list(again.records()) == records
        assert _options(again, records) == options


@pytest.mark.needs_shared
def test_the_cases_hold_what_the_tests_are_about() -> None:
    """Magics, codecs, horizons, markers, emptied batches and a wrong checksum all occur."""
    found: set[str] = set()
    for name in golden_kafka.NAMES:
        for line in golden_kafka.records(name):
            if line["kind"] == "batch":
                found |= {f"magic {line['magic']}", line["codec"], f"valid {line['valid']}", line["timestampType"]}
                found |= {"horizon"} if "deleteHorizon" in line else set()
                found |= {"emptied"} if line["count"] == 0 else set()
            elif "controlType" in line:
                found.add(line["controlType"])
    assert {"magic 0", "magic 1", "magic 2", "valid True", "valid False"} <= found
    assert {"none", "gzip", "snappy", "lz4", "zstd", "LogAppendTime", "NoTimestampType"} <= found
    assert {"ABORT", "COMMIT", "horizon", "emptied"} <= found
