"""What `Log.append_batches` refuses, as a broker refuses it, and that nothing of it is written."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pytest

from logdex.errors import InvalidRecordError, RecordTooLargeError
from logdex.kafka.batch.batch_writer import encode_batch
from logdex.kafka.batch.record import Compression, Record, TimestampType
from logdex.kafka.log.log import Log
from logdex.kafka.verify.verifier import verify
from logdex.layout.kafka import RECORD_BATCH
from logdex.primitives.crc32c import crc32c

RECORDS = [Record(key=b"k", value=b"value %d" % number, timestamp_ms=1000) for number in range(3)]


def batch(base_offset: int = 0, **options: Any) -> bytes:
    return encode_batch(RECORDS, base_offset=base_offset, **options)


def patched(data: bytes, **fields: int) -> bytes:
    """The batch with other header fields and a right checksum."""
    out = bytearray(data)
    for name, value in fields.items():
        code = next(field.format for field in RECORD_BATCH.fields if field.name == name)
        struct.pack_into(f">{code}", out, RECORD_BATCH.offset_of(name), value)
    at = RECORD_BATCH.offset_of("attributes")
    struct.pack_into(">I", out, RECORD_BATCH.offset_of("crc"), crc32c(bytes(out[at:])))
    return bytes(out)


def garbage(compression: Compression) -> bytes:
    """A whole batch whose records are no records."""
    data = batch(compression=compression)
    return patched(data[: RECORD_BATCH.size_bytes] + b"\xa5" * (len(data) - RECORD_BATCH.size_bytes))


CLIENT = {
    "fewer records than stated": patched(batch(), count=4, last_offset_delta=3),
    "more records than stated": patched(batch(), count=2, last_offset_delta=1),
    "counts that contradict": patched(batch(), count=2),
    "no records": patched(batch(), count=0, last_offset_delta=-1),
    "an unknown codec": patched(batch(), attributes=7),
    "bytes that are no records": garbage(Compression.NONE),
    "bytes that do not decompress": garbage(Compression.LZ4),
    "the log's timestamps": batch(timestamp_type=TimestampType.LOG_APPEND_TIME, max_timestamp_ms=1000),
    "a control batch": patched(batch(), attributes=0x20),
    "a producer without a sequence": patched(batch(), producer_id=7, producer_epoch=0),
    "a transaction without a producer": patched(batch(), attributes=0x10),
    "two batches": batch() + batch(),
    "a base offset": batch(3),
    "batches of another log": batch(3) + batch(6),
    "a wrong checksum": batch()[:-1] + b"\x07",
}
LEADER = {
    "overlapping batches": batch(10) + batch(12),
    "descending batches": batch(10) + batch(3),
    "the same batch twice": batch(10) + batch(10),
    "a batch that ends before it begins": patched(batch(10), last_offset_delta=-1),
}


@pytest.mark.parametrize(
    ("raw", "assign_offsets"),
    [*((raw, True) for raw in CLIENT.values()), *((raw, False) for raw in LEADER.values())],
    ids=[*CLIENT, *LEADER],
)
def test_what_a_broker_refuses_is_refused(tmp_path: Path, raw: bytes, assign_offsets: bool) -> None:
    with Log.open(str(tmp_path / "events-0"), flush="sync") as log:
        log.append(RECORDS)
        with pytest.raises(InvalidRecordError):
            log.append_batches(raw, assign_offsets=assign_offsets)
        assert log.log_end_offset == 3
        assert [record.value for record in log.records()] == [record.value for record in RECORDS]


@pytest.mark.parametrize("compression", list(Compression))
def test_what_a_producer_writes_is_taken(tmp_path: Path, compression: Compression) -> None:
    with Log.open(str(tmp_path / "events-0")) as log:
        assert log.append_batches(batch(compression=compression)).last_offset == 2
        raw = batch(compression=compression, producer_id=7, producer_epoch=0, base_sequence=0)
        assert log.append_batches(raw).last_offset == 5
        assert log.append_batches(batch(10), assign_offsets=False).last_offset == 12
        assert [record.offset for record in log.records()] == [0, 1, 2, 3, 4, 5, 10, 11, 12]


@pytest.mark.parametrize("compression", [Compression.NONE, Compression.ZSTD])
@pytest.mark.parametrize("stated_ms", [-1, 999, 1001])
def test_a_header_gets_the_highest_time_of_its_records(
    tmp_path: Path, compression: Compression, stated_ms: int
) -> None:
    """The broker does not trust what a producer states, because the time index follows it."""
    raw = patched(batch(compression=compression), max_timestamp_ms=stated_ms)
    with Log.open(str(tmp_path / "events-0")) as log:
        assert log.append_batches(raw).max_timestamp_ms == 1000
        assert log.read_batches(0, 1)[0].max_timestamp_ms == 1000
        assert log.offset_for_timestamp(1000) is not None
    assert verify(tmp_path / "events-0").is_sound


def test_a_leaders_batch_was_accepted_already(tmp_path: Path) -> None:
    raw = encode_batch([Record(value=b"x" * 300)], base_offset=0)
    with Log.open(str(tmp_path / "events-0"), max_message_bytes=200) as log:
        with pytest.raises(RecordTooLargeError, match="at most 200"):
            log.append_batches(raw)
        assert log.append_batches(raw, assign_offsets=False).last_offset == 0
