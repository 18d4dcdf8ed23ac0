"""Bulk encoding against its plain twin `encode_batch`: any records, codecs, cuts, chunks, nulls and
headers."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from logdex.kafka.batch.batch_writer import encode_batch
from logdex.kafka.batch.record import Compression, Record, TimestampType
from logdex.kafka.batch.record_batch import decode_batch
from logdex.kafka.batch.record_format import sequence_after
from logdex.kafka.columns import encode_columns as module
from logdex.kafka.columns import encode_input
from logdex.kafka.columns.encode_columns import EncodedBatches, encode_columns, iter_encoded
from logdex.kafka.scan.scanner import BatchScanner, EndKind
from logdex.kernels.kafka import compress as encode_codecs
from logdex.kernels.kafka.batch_columns import BatchColumns
from tests.examples import examples

BLOB = st.one_of(st.none(), st.binary(max_size=70), st.integers(0, 400).map(lambda n: b"abcd" * n))
HEADERS = st.lists(st.tuples(st.binary(max_size=140), st.one_of(st.none(), st.binary(max_size=9))), max_size=3)
TIME = st.one_of(st.integers(1_700_000_000_000, 1_700_000_001_000), st.integers(-1, 70), st.integers(-1, 2**63 - 1))
RECORDS = st.lists(
    st.builds(Record, key=BLOB, value=BLOB, timestamp_ms=TIME, headers=HEADERS.map(tuple)), min_size=1, max_size=40
)
HEADERS_TYPE = pa.list_(pa.struct([("key", pa.binary()), ("value", pa.binary())]))


def table_of(records: list[Record], *, with_headers: bool = True, chunk: int = 1000) -> pa.Table:
    """Records as columns; a null list where a record has no headers, chunks of `chunk` rows."""
    columns: dict[str, list[Any]] = {
        "key": [record.key for record in records],
        "value": [record.value for record in records],
        "timestamp_ms": [record.timestamp_ms for record in records],
    }
    types = {"key": pa.binary(), "value": pa.binary(), "timestamp_ms": pa.int64()}
    if with_headers:
        columns["headers"] = [
            [{"key": key, "value": value} for key, value in record.headers] or None for record in records
        ]
        types["headers"] = HEADERS_TYPE
    arrays = {
        name: pa.chunked_array([values[at : at + chunk] for at in range(0, len(values), chunk)], types[name])
        for name, values in columns.items()
    }
    return pa.table(arrays)


def bounds_of(columns: BatchColumns) -> list[int]:
    return [*columns.position.tolist(), int(columns.position[-1] + columns.size[-1])]


def check_columns(encoded: EncodedBatches) -> None:
    """The columns are those that a scan of the bytes gives."""
    scan = BatchScanner().scan_bytes(encoded.data)
    windows = []
    while True:
        try:
            window = next(scan)
            windows.append([column[: window.count].copy() for column in window.columns])
        except StopIteration as stop:
            rest = stop.value
            break
    assert rest.kind is EndKind.END
    scanned = BatchColumns(*map(np.concatenate, zip(*windows, strict=True)))
    for name in BatchColumns._fields:
        ours = getattr(encoded.columns, name)
        assert ours.dtype == getattr(scanned, name).dtype, name
        assert ours.tolist() == getattr(scanned, name).tolist(), name


@settings(max_examples=examples(150))
@given(
    records=RECORDS,
    codec=st.sampled_from(list(Compression)),
    batch_records=st.one_of(st.none(), st.integers(1, 12)),
    batch_bytes=st.integers(1, 900),
    base_offset=st.one_of(st.just(0), st.integers(0, 2**62)),
    producer=st.one_of(st.none(), st.tuples(st.integers(0, 2**63 - 1), st.integers(0, 2**15 - 1))),
    base_sequence=st.one_of(st.just(0), st.integers(2**31 - 20, 2**31 - 1)),
    append_time=st.one_of(st.none(), TIME),
    start=st.integers(0, 5),
    chunk=st.integers(1, 20),
    piece_bytes=st.integers(0, 700),
)
@example(
    records=[Record(value=b"a log's own time can be -1", timestamp_ms=7)],
    codec=Compression.NONE,
    batch_records=None,
    batch_bytes=1,
    base_offset=0,
    producer=None,
    base_sequence=0,
    append_time=-1,
    start=0,
    chunk=1,
    piece_bytes=0,
)
def test_bytes_are_the_twins(
    records: list[Record],
    codec: Compression,
    batch_records: int | None,
    batch_bytes: int,
    base_offset: int,
    producer: tuple[int, int] | None,
    base_sequence: int,
    append_time: int | None,
    start: int,
    chunk: int,
    piece_bytes: int,
) -> None:
    start = min(start, len(records) - 1)
    table = table_of(records, chunk=chunk).slice(start)
    records = records[start:]
    shared: dict[str, Any] = {"compression": codec, "leader_epoch": 7}
    if producer is not None:
        shared |= {"producer_id": producer[0], "producer_epoch": producer[1], "is_transactional": True}
    if append_time is not None:
        shared |= {"timestamp_type": TimestampType.LOG_APPEND_TIME, "max_timestamp_ms": append_time}
    sequence: dict[str, Any] = {"base_sequence": base_sequence} if producer is not None else {}
    rule: dict[str, Any] = {"batch_records": batch_records, "batch_bytes": batch_bytes}
    options: dict[str, Any] = shared | sequence | rule
    encoded = encode_columns(table, base_offset=base_offset, **options)
    columns, at, largest = encoded.columns, 0, 0
    plain: dict[str, Any] = {"base_offset": 0, "compression": Compression.NONE}
    for i, (position, end) in enumerate(pairwise(bounds_of(columns))):
        part = records[at : at + int(columns.count[i])]
        if sequence:
            sequence = {"base_sequence": sequence_after(base_sequence, at)}
        twin = encode_batch(part, base_offset=base_offset + at, **shared, **sequence)
        raw = encoded.data[position:end].tobytes()
        if codec is Compression.ZSTD:
            assert list(decode_batch(raw, 0)[0].records()) == list(decode_batch(twin, 0)[0].records())
            assert raw[:8] + raw[12:17] + raw[21:61] == twin[:8] + twin[12:17] + twin[21:61]  # not length and CRC
        else:
            assert raw == twin
        at += len(part)
        uncompressed = len(encode_batch(part, **plain))
        largest = max(largest, uncompressed)
        if batch_records is not None:
            assert len(part) == batch_records or at == len(records)
        else:
            one_more = records[at - len(part) : at + 1]
            assert len(part) == 1 or uncompressed <= batch_bytes
            assert at == len(records) or len(encode_batch(one_more, **plain)) > batch_bytes
    assert at == len(records)
    check_columns(encoded)
    pieces = list(iter_encoded(table, base_offset=base_offset, piece_bytes=piece_bytes, **options))
    assert b"".join(piece.data.tobytes() for piece in pieces) == encoded.data.tobytes()
    room = largest + 1200  # what a codec may want; a piece that is too small for a batch grows by doubling
    assert all(piece.data.size <= max(piece_bytes, 2 * room) for piece in pieces)
    for piece in pieces:
        check_columns(piece)


@settings(max_examples=30)
@given(records=RECORDS, batch_records=st.integers(1, 12), codec=st.sampled_from([Compression.LZ4, Compression.ZSTD]))
def test_without_the_libraries_functions(records: list[Record], batch_records: int, codec: Compression) -> None:
    table = table_of(records)
    fast = encode_columns(table, base_offset=3, compression=codec, batch_records=batch_records)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(encode_codecs, "_lz4_library", lambda: None)
        patch.setattr(encode_codecs, "_zstd_library", lambda: None)
        slow = encode_columns(table, base_offset=3, compression=codec, batch_records=batch_records)
    check_columns(slow)
    if codec is Compression.LZ4:
        assert slow.data.tobytes() == fast.data.tobytes()
    else:
        assert slow.columns.count.tolist() == fast.columns.count.tolist()


@settings(max_examples=20)
@given(st.integers(0, 200_000), st.integers(0, 200_000), st.integers(0, 255))
def test_blocks_of_lz4(random_bytes: int, zeros: int, seed: int) -> None:
    """Several blocks of 64 KiB, compressible ones and others, against the plain frame writer."""
    value = np.random.default_rng(seed).bytes(random_bytes) + bytes(zeros)
    records = [Record(value=value, timestamp_ms=1), Record(key=value[:70_000], timestamp_ms=1)]
    encoded = encode_columns(table_of(records), base_offset=0, compression=Compression.LZ4, batch_records=2)
    assert encoded.data.tobytes() == encode_batch(records, base_offset=0, compression=Compression.LZ4)


@given(st.integers(1, 9), st.integers(1, 60))
def test_slices_of_few_rows(rows: int, batch_records: int) -> None:
    """Batches that are longer than a slice of the table, and slices that end within a batch."""
    records = [Record(key=bytes([i]), value=b"x" * i, timestamp_ms=i) for i in range(50)]
    whole = encode_columns(table_of(records), base_offset=0, batch_records=batch_records)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(encode_input, "SLICE_ROWS", rows)
        patch.setattr(module, "_ROWS", 2)
        sliced = encode_columns(table_of(records, chunk=4), base_offset=0, batch_records=batch_records)
    assert sliced.data.tobytes() == whole.data.tobytes()
    check_columns(sliced)
