"""Bulk encoding: what it refuses, what columns it takes, and the broker's own bytes encoded
again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from logdex import limits
from logdex.errors import LogdexError, UsageError
from logdex.kafka.batch.batch_writer import encode_batch
from logdex.kafka.batch.record import Compression, Record, TimestampType
from logdex.kafka.batch.record_batch import decode_batch
from logdex.kafka.columns.encode_columns import encode_columns, iter_encoded
from logdex.kernels.kafka import record_encode
from tests.examples import cases
from tests.golden import kafka as golden_kafka

Change = dict[str, Any]


def table_of(records: list[Record]) -> pa.Table:
    columns = {
        "key": pa.array([record.key for record in records], pa.binary()),
        "value": pa.array([record.value for record in records], pa.binary()),
        "timestamp_ms": pa.array([record.timestamp_ms for record in records], pa.int64()),
        "headers": pa.array(
            [[{"key": key, "value": value} for key, value in record.headers] for record in records],
            pa.list_(pa.struct([("key", pa.binary()), ("value", pa.binary())])),
        ),
    }
    return pa.table(columns)


RECORDS = [Record(key=b"k%d" % i, value=b"v" * i, timestamp_ms=1000 + i) for i in range(9)]


@pytest.mark.needs_shared
@pytest.mark.parametrize(
    "name", cases([name for name in golden_kafka.NAMES if name.startswith(("codec-", "shapes"))], 3)
)
def test_batches_of_the_broker_encoded_again(name: str, golden_log: Callable[[str], Path]) -> None:
    """Key for key the broker's batches; byte for byte without a codec and with lz4."""
    root = golden_log(name)
    seen = same = 0
    for log in sorted(root.rglob("*.log")):
        data, at = log.read_bytes(), 0
        while at < len(data):
            batch, size = decode_batch(data, at)
            raw, at = data[at : at + size], at + size
            records = list(batch.records())
            if batch.magic != 2 or batch.is_control or len(records) != batch.last_offset - batch.base_offset + 1:
                continue
            append_time = batch.timestamp_type is TimestampType.LOG_APPEND_TIME
            encoded = encode_columns(
                table_of(records),
                base_offset=batch.base_offset,
                compression=batch.compression,
                batch_records=len(records),
                leader_epoch=batch.leader_epoch,
                producer_id=batch.producer_id,
                producer_epoch=batch.producer_epoch,
                base_sequence=batch.base_sequence,
                is_transactional=batch.is_transactional,
                timestamp_type=batch.timestamp_type,
                max_timestamp_ms=batch.max_timestamp_ms if append_time else None,
            )
            again = encoded.data.tobytes()
            assert list(decode_batch(again, 0)[0].records()) == records
            seen += 1
            same += again == raw
            if batch.compression in (Compression.NONE, Compression.LZ4) and not append_time:
                assert again == raw
    assert seen
    assert same or name in ("codec-zstd", "codec-snappy", "codec-gzip")


@pytest.mark.parametrize(
    "change",
    [
        {"key": pa.array([1] * 9)},
        {"value": pa.array([[b"x"]] * 9)},
        {"timestamp_ms": pa.array([1.0] * 9)},
        {"timestamp_ms": pa.array([None] * 9, pa.int64())},
        {"timestamp_ms": pa.array([-2] * 9)},
        {"headers": pa.array([[{"key": None, "value": b"v"}]] * 9)},
        {"headers": pa.array([[None]] * 9, pa.list_(pa.struct([("key", pa.binary()), ("value", pa.binary())])))},
        {"headers": pa.array([b"x"] * 9)},
    ],
)
def test_columns_of_another_kind_are_refused(change: dict[str, pa.Array]) -> None:
    table = table_of(RECORDS)
    for name, column in change.items():
        table = table.set_column(table.column_names.index(name), name, column)
    with pytest.raises(UsageError, match="column"):
        encode_columns(table, base_offset=0)


@pytest.mark.parametrize("kind", [pa.timestamp("ms"), pa.timestamp("us", tz="UTC"), pa.date64()])
def test_a_timestamp_is_no_number_of_milliseconds(kind: pa.DataType) -> None:
    table = table_of(RECORDS).drop_columns(["timestamp_ms"]).append_column("timestamp_ms", pa.array([5] * 9, kind))
    with pytest.raises(UsageError, match=r"must be int64.*cast it before: to timestamp"):
        encode_columns(table, base_offset=0)


@pytest.mark.parametrize("name", ["key", "value", "timestamp_ms"])
def test_missing_columns_are_refused(name: str) -> None:
    with pytest.raises(UsageError, match=f"column {name} "):
        encode_columns(table_of(RECORDS).drop_columns([name]), base_offset=0)
    twice = table_of(RECORDS).append_column(name, table_of(RECORDS).column(name))
    with pytest.raises(UsageError, match="there are 2"):
        encode_columns(twice, base_offset=0)


@pytest.mark.parametrize(
    "change",
    [
        {"base_offset": -1},
        {"base_offset": 2**63 - 9},
        {"batch_records": 0},
        {"batch_bytes": 0},
        {"batch_bytes": 2**31},
        {"leader_epoch": 2**31},
        {"producer_id": -2},
        {"producer_id": 1},
        {"producer_id": 1, "producer_epoch": 0},
        {"producer_epoch": 2**15},
        {"base_sequence": 2**31},
        {"is_transactional": True},
        {"timestamp_type": TimestampType.LOG_APPEND_TIME},
        {"max_timestamp_ms": 5},
    ],
)
def test_settings_out_of_range_are_refused(change: Change) -> None:
    with pytest.raises(UsageError):
        encode_columns(table_of(RECORDS), **{"base_offset": 0, **change})


@pytest.mark.parametrize("kind", [pa.string(), pa.large_binary(), pa.large_string(), pa.binary_view(), pa.binary(2)])
def test_columns_that_convert_are_taken(kind: pa.DataType) -> None:
    keys = pa.array([b"ab", None, b"cd"], pa.binary()).cast(kind)
    records = [Record(key=b"ab", timestamp_ms=1), Record(timestamp_ms=1), Record(key=b"cd", timestamp_ms=1)]
    table = pa.table({"key": keys, "value": pa.nulls(3), "timestamp_ms": pa.array([1, 1, 1])})
    assert encode_columns(table, base_offset=5).data.tobytes() == encode_batch(records, base_offset=5)
    batch = table.to_batches()[0]
    assert encode_columns(batch, base_offset=5).data.tobytes() == encode_batch(records, base_offset=5)


def test_no_records_are_no_batches() -> None:
    encoded = encode_columns(table_of([]), base_offset=0)
    assert encoded.data.size == 0
    assert all(len(column) == 0 for column in encoded.columns)
    assert list(iter_encoded(table_of([]), base_offset=0)) == []


@pytest.mark.parametrize("codec", [Compression.NONE, Compression.LZ4, Compression.GZIP])
def test_a_batch_beyond_the_limits_is_refused(codec: Compression, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "BATCH_SIZE_BYTES_MAX", 4096 + 61)
    monkeypatch.setattr(limits, "BATCH_DECOMPRESSED_SIZE_BYTES_MAX", 4096)
    fits, too_large = Record(value=b"x" * 4080, timestamp_ms=1), Record(value=b"x" * 4090, timestamp_ms=1)
    table = table_of([fits, fits])
    assert (
        len(encode_columns(table, base_offset=0, batch_records=1, batch_bytes=9, compression=codec).columns.size) == 2
    )
    for wrong, per_batch in (([fits, too_large], 1), ([fits, fits], 2)):
        with pytest.raises(UsageError, match="more than 4096"):
            encode_columns(table_of(wrong), base_offset=0, batch_records=per_batch, batch_bytes=9, compression=codec)


def test_a_refusing_library_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> int:
        return record_encode.REFUSED

    monkeypatch.setattr(record_encode, "encode_records", refuse)
    with pytest.raises(LogdexError, match="zstd library refused"):
        encode_columns(table_of(RECORDS), base_offset=0, compression=Compression.ZSTD)


def test_pieces_are_the_callers() -> None:
    value = np.random.default_rng(1).bytes(3000)
    table = table_of([Record(value=value, timestamp_ms=i) for i in range(100)])
    kept = list(iter_encoded(table, base_offset=0, piece_bytes=9000, batch_bytes=4000))
    texts = [piece.data.tobytes() for piece in iter_encoded(table, base_offset=0, piece_bytes=9000, batch_bytes=4000)]
    assert [piece.data.tobytes() for piece in kept] == texts
    assert len(texts) == 50
