"""Batches of magic 2: odd ones that the broker reads, and hostile ones that it refuses."""

from __future__ import annotations

import mmap
import struct
from pathlib import Path

import pytest

from logdex import limits
from logdex.errors import CorruptError, CrcMismatchError, TruncatedError, UsageError
from logdex.kafka.batch.compression import compress
from logdex.kafka.batch.record import Compression, Record, TimestampType
from logdex.kafka.batch.record_batch import EndMarker, decode_batch, encode_batch, encode_end_marker
from logdex.kafka.columns.record_columns import read_record_batches
from tests.unit.kafka.batch import batch_bytes as kb


def _records(raw: bytes) -> list[Record]:
    batch, size = decode_batch(raw)
    assert size == len(raw)
    return list(batch.records())


def test_every_header_field() -> None:
    raw = kb.batch(
        kb.record(0, 5, b"k", None) + kb.record(4, -3, None, b""),
        2,
        base_offset=1000,
        last_delta=6,
        attributes=0x70,
        base_ms=500,
        max_ms=505,
        producer=(7, 3, 2_147_483_646),
        leader_epoch=9,
    )
    batch, _ = decode_batch(b"....." + raw, 5, path="a.log")
    assert (batch.base_offset, batch.last_offset, batch.leader_epoch, batch.magic) == (1000, 1006, 9, 2)
    assert (batch.base_timestamp_ms, batch.max_timestamp_ms, batch.delete_horizon_ms) == (500, 505, 500)
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (7, 3, 2_147_483_646)
    assert (batch.count, batch.position, batch.path, batch.size_bytes) == (2, 5, "a.log", len(raw))
    assert batch.is_transactional
    assert batch.is_control
    assert batch.last_sequence == 4  # 2^31 - 1 is followed by 0
    assert batch.raw == raw
    assert batch.crc == batch.computed_crc
    first, second = batch.records()
    assert (first.offset, first.timestamp_ms, first.key, first.value, first.sequence) == (
        1000,
        505,
        b"k",
        None,
        2_147_483_646,
    )
    assert (second.offset, second.timestamp_ms, second.key, second.value, second.sequence) == (1004, 497, None, b"", 2)
    assert first.is_transactional
    assert first.is_control
    assert first.leader_epoch == 9


def test_a_mapped_file_and_a_view_are_buffers_too(tmp_path: Path) -> None:
    raw = encode_batch([Record(b"k", b"v", 1)], base_offset=3)
    (tmp_path / "x").write_bytes(raw)
    with (tmp_path / "x").open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        batch, _ = decode_batch(memoryview(mapped))
    assert batch.raw == raw  # the mapping is closed: the batch has its own bytes
    assert [record.offset for record in batch.records()] == [3]


def test_log_append_time_stands_for_every_record() -> None:
    raw = kb.batch(kb.record(0, 5, None, b"a") + kb.record(1, 9, None, b"b"), 2, attributes=8, max_ms=7777)
    assert [record.timestamp_ms for record in _records(raw)] == [7777, 7777]
    assert {record.timestamp_type for record in _records(raw)} == {TimestampType.LOG_APPEND_TIME}


def test_header_keys_that_are_not_utf8_are_kept_and_written_back() -> None:
    """Some readers drop a whole batch for one such key."""
    headers = ((b"\xff\x00", b"v"), (b"", None), ("schön".encode(), b""))
    raw = kb.batch(kb.record(0, 0, b"k", b"v", headers), 1, base_ms=5, max_ms=5)
    (record,) = _records(raw)
    assert record.headers == ((b"\xff\x00", b"v"), ("", None), ("schön", b""))
    assert encode_batch([record], base_offset=0) == raw


def test_a_batch_that_compaction_has_emptied() -> None:
    raw = encode_batch([], base_offset=40, last_offset=49, max_timestamp_ms=99, compression=Compression.ZSTD)
    batch, _ = decode_batch(raw)
    assert (len(raw), batch.count, batch.last_offset, batch.max_timestamp_ms) == (61, 0, 49, 99)
    assert (batch.base_timestamp_ms, batch.compression) == (-1, Compression.NONE)
    assert list(batch.records()) == []
    # The broker looks no further where the count is 0, whatever follows the header.
    assert _records(kb.batch(b"\x80" * 20, 0)) == []


@pytest.mark.parametrize("is_commit", [True, False])
def test_transaction_markers(is_commit: bool) -> None:
    raw = encode_end_marker(
        is_commit, producer_id=5, producer_epoch=2, coordinator_epoch=11, offset=8, timestamp_ms=70, leader_epoch=1
    )
    batch, _ = decode_batch(raw)
    assert batch.end_marker() == EndMarker(is_commit, 11)
    assert batch.control_type == int(is_commit)
    assert (batch.base_sequence, batch.last_sequence, batch.attributes, len(raw)) == (-1, -1, 0x30, 78)


def test_control_batches_without_an_end_marker() -> None:
    quorum = decode_batch(kb.batch(kb.record(0, 0, b"\0\0\0\2", b"whatever"), 1, attributes=0x20))[0]
    assert (quorum.control_type, quorum.end_marker()) == (2, None)
    emptied = decode_batch(kb.batch(b"", 0, attributes=0x30))[0]
    assert (emptied.control_type, emptied.end_marker()) == (None, None)
    usual = decode_batch(kb.batch(kb.record(0, 0, b"\0\0\0\1", b"\0\0\0\0\0\1"), 1))[0]
    assert (usual.control_type, usual.end_marker()) == (None, None)


@pytest.mark.parametrize(
    ("key", "value", "field"),
    [
        (None, b"\0" * 6, "key"),
        (b"\0\0\0", b"\0" * 6, "key"),
        (b"\xff\xff\0\1", b"\0" * 6, "version"),
        (b"\0\0\0\1", None, "value"),
        (b"\0\0\0\0", b"\0" * 5, "value"),
        (b"\0\0\0\0", b"\xff\xff\0\0\0\0", "version"),
    ],
)
def test_markers_that_cannot_be(key: bytes | None, value: bytes | None, field: str) -> None:
    batch, _ = decode_batch(b"." * 9 + kb.batch(kb.record(0, 0, key, value), 1, attributes=0x30), 9)
    with pytest.raises(CorruptError) as told:
        batch.end_marker()
    assert (told.value.field, told.value.position) == (field, 9)


def _whole(body: bytes) -> bytes:
    return kb.varint(len(body)) + body


GOOD = kb.record(0, 0, b"key", b"value")
HOSTILE = {
    "length beyond the batch": (kb.varint(1 << 30) + b"\0" * 20, 1, "length"),
    "negative length": (kb.varint(-1) + b"\0" * 20, 1, "length"),
    "length without an end": (b"\x80" * 50, 1, "length"),
    "timestamp without an end": (_whole(b"\0" + b"\xff" * 20), 1, "timestamp_delta"),
    "offset without an end": (_whole(b"\0\0" + b"\xff" * 20), 1, "offset_delta"),
    "no attributes": (_whole(b"") + b"\0" * 9, 1, "timestamp_delta"),
    "key of 2 GiB": (_whole(b"\0\0\0" + kb.varint((1 << 31) - 1) + b"\0" * 9), 1, "key"),
    "value beyond its record": (_whole(b"\0\0\0\1" + kb.varint(9) + b"\0" * 3) + GOOD, 2, "value"),
    "two billion headers": (_whole(b"\0\0\0\1\1" + kb.varint((1 << 31) - 1)), 1, "headers"),
    "a negative count of headers": (_whole(b"\0\0\0\1\1" + kb.varint(-5)), 1, "headers"),
    "a header has no key": (_whole(b"\0\0\0\1\1\2\1\1"), 1, "headers"),
    "bytes behind the headers": (_whole(b"\0\0\0\1\1\0\0\0"), 1, "headers"),
    "fewer records than stated": (GOOD, 2, "length"),
    "more records than stated": (GOOD + GOOD, 1, "count"),
    "a negative count": (GOOD, -1, "count"),
    "two billion records": (GOOD, (1 << 31) - 1, "count"),
}


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("codec", [Compression.NONE, Compression.LZ4])
def test_records_that_cannot_be(name: str, codec: Compression) -> None:
    payload, count, field = HOSTILE[name]
    if name == "fewer records than stated":
        payload += kb.record(1, 0, None, None)[:-1]
    batch, _ = decode_batch(b"." * 7 + kb.batch(compress(codec, payload), count, attributes=codec.value), 7, path="p")
    with pytest.raises(CorruptError) as told:
        list(batch.records())
    assert (told.value.field, told.value.path) == (field, "p")
    if codec is Compression.NONE:
        assert 7 + 61 <= told.value.position <= 7 + 61 + len(payload)
    else:
        assert told.value.position == 7


def test_an_unknown_codec_is_told_when_it_is_needed() -> None:
    batch, _ = decode_batch(kb.batch(GOOD, 1, attributes=6))
    with pytest.raises(CorruptError, match="codec"):
        _ = batch.compression
    with pytest.raises(CorruptError, match="codec"):
        list(batch.records())


def test_deltas_wrap_as_java_longs() -> None:
    raw = kb.batch(kb.record(5, (1 << 63) - 1, None, None), 1, base_offset=(1 << 63) - 2, base_ms=2, last_delta=0)
    (record,) = _records(raw)
    assert record.offset == -(1 << 63) + 3
    assert record.timestamp_ms == -(1 << 63) + 1


def _with(raw: bytes, at: int, code: str, value: int) -> bytes:
    harmed = bytearray(raw)
    struct.pack_into(code, harmed, at, value)
    return bytes(harmed)


WHOLE = encode_batch([Record(b"k", b"v" * 50, 5)], base_offset=3)


@pytest.mark.parametrize(
    ("raw", "kind", "field", "position"),
    [
        (b"", TruncatedError, "length", 4),
        (WHOLE[:16], TruncatedError, "length", 4),
        (WHOLE[:-1], TruncatedError, "length", 12),
        (_with(WHOLE, 8, ">i", -1), CorruptError, "length", 12),
        (_with(WHOLE, 8, ">i", 13), CorruptError, "length", 12),
        (_with(WHOLE, 8, ">i", 48), CorruptError, "length", 12),
        (_with(WHOLE, 8, ">i", (1 << 31) - 1), CorruptError, "length", 12),
        (_with(WHOLE, 16, ">b", 3), CorruptError, "magic", 20),
        (_with(WHOLE, 16, ">b", -1), CorruptError, "magic", 20),
        (_with(WHOLE, 17, ">I", 0), CrcMismatchError, "crc", 4),
        (bytes(100), CorruptError, "length", 12),
    ],
)
def test_what_is_no_batch_is_told_where(raw: bytes, kind: type[CorruptError], field: str, position: int) -> None:
    with pytest.raises(kind) as told:
        decode_batch(b"...." + raw, 4, path="some.log")
    assert (told.value.field, told.value.position, told.value.path) == (field, position, "some.log")


def test_a_wrong_checksum_can_be_left_unseen() -> None:
    batch, _ = decode_batch(_with(WHOLE, 17, ">I", 7), check_crc=False)
    assert (batch.crc, batch.base_offset) == (7, 3)
    with pytest.raises(CrcMismatchError):
        batch.check_crc()


@pytest.mark.parametrize("codec", [Compression.ZSTD, Compression.GZIP])
def test_more_records_than_the_bytes_can_hold_are_refused_before_decompression(codec: Compression) -> None:
    """Records that are all equal, as no broker accepts them: thousands per byte."""
    few, many = 5_000, 200_000 if codec is Compression.ZSTD else 20_000_000
    raw = kb.batch(compress(codec, kb.record(0, 0, None, None) * few), few, attributes=codec.value)
    assert len(_records(raw)) == few
    assert sum(part.num_rows for part in read_record_batches(raw)) == few
    raw = kb.batch(compress(codec, kb.record(0, 0, None, None) * 200_000), many, attributes=codec.value)
    assert many > len(raw) * limits.BATCH_RECORDS_PER_BYTE_MAX
    batch, _ = decode_batch(raw)
    with pytest.raises(CorruptError, match=f"at most {64 * len(raw)}, found {many}") as by_twin:
        next(batch.records())
    assert by_twin.value.field == "count"
    with pytest.raises(CorruptError, match=f"at most {64 * len(raw)}, found {many}"):
        next(read_record_batches(raw))


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"is_transactional": True}, "transactional"),
        ({"producer_id": 1, "base_sequence": 0}, "epoch"),
        ({"producer_id": 1, "producer_epoch": 0}, "sequence"),
        ({"last_offset": 9}, "last_offset"),
        ({"last_offset": 1 << 40}, "one batch"),
        ({"timestamp_type": TimestampType.LOG_APPEND_TIME}, "LogAppendTime"),
        ({"magic": 3}, "magic"),
        ({"magic": 1, "producer_id": 1}, "magic 1"),
        ({"magic": 1, "compression": Compression.ZSTD}, "zstd"),
        ({"leader_epoch": 1 << 31}, "fit"),
        ({"keep_offsets": True}, "increase"),
    ],
)
def test_what_no_batch_can_be_is_refused(changes: dict[str, object], text: str) -> None:
    with pytest.raises(UsageError, match=text):
        encode_batch([Record(b"k", b"v", 1)], base_offset=10, **changes)  # type: ignore[arg-type]


def test_records_that_no_batch_can_hold_are_refused() -> None:
    with pytest.raises(UsageError, match="timestamp"):
        encode_batch([Record(timestamp_ms=-2)], base_offset=0)
    with pytest.raises(UsageError, match="UTF-8"):
        encode_batch([Record(headers=(("\ud800", b""),))], base_offset=0)
    with pytest.raises(UsageError, match="headers"):
        encode_batch([Record(headers=(("h", b""),))], base_offset=0, magic=1)
    with pytest.raises(UsageError, match="increase"):
        encode_batch([Record(offset=5), Record(offset=5)], base_offset=0, keep_offsets=True)
