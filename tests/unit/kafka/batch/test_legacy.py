"""Message sets of magic 0 and 1: the rules of wrappers, as the broker reads them."""

from __future__ import annotations

import struct

import pytest

from logdex.errors import CorruptError, CrcMismatchError
from logdex.kafka.batch.compression import compress
from logdex.kafka.batch.record import Compression, Record, TimestampType
from logdex.kafka.batch.record_batch import decode_batch, encode_batch
from tests.unit.kafka.batch import batch_bytes as kb

GZIP = Compression.GZIP


def _wrapper(magic: int, offset: int, inner: bytes, *, codec: Compression = GZIP, kind: int = 0, ms: int = 99) -> bytes:
    packed = compress(codec, inner, magic=magic)
    return kb.legacy(magic, offset, None, packed, attributes=codec.value | kind, ms=ms)


def _records(raw: bytes) -> list[Record]:
    batch, size = decode_batch(raw)
    assert size == len(raw)
    return list(batch.records())


def _offsets(raw: bytes) -> list[int]:
    return [record.offset for record in _records(raw)]


def test_a_plain_message_is_a_batch_of_its_own() -> None:
    old, _ = decode_batch(kb.legacy(0, 7, b"k", None))
    assert (old.base_offset, old.last_offset, old.max_timestamp_ms, old.count, old.magic) == (7, 7, -1, 1, 0)
    assert old.timestamp_type is TimestampType.NO_TIMESTAMP_TYPE
    new, _ = decode_batch(kb.legacy(1, 8, None, b"v", attributes=8, ms=55))
    assert (new.base_timestamp_ms, new.max_timestamp_ms, new.last_sequence, new.leader_epoch) == (55, 55, -1, -1)
    assert list(old.records()) == [
        Record(b"k", None, offset=7, timestamp_type=TimestampType.NO_TIMESTAMP_TYPE, timestamp_ms=-1)
    ]
    assert list(new.records()) == [Record(None, b"v", 55, offset=8, timestamp_type=TimestampType.LOG_APPEND_TIME)]
    assert not new.is_transactional
    assert not new.is_control
    assert new.delete_horizon_ms is None
    assert new.end_marker() is None


def test_inner_offsets_are_relative_in_magic_1_and_absolute_in_magic_0() -> None:
    first, second = kb.legacy(1, 0, b"a", b"1", ms=10), kb.legacy(1, 2, b"b", b"2", ms=20)
    assert _offsets(_wrapper(1, 102, first + second)) == [100, 102]
    old = kb.legacy(0, 100, b"a", b"1") + kb.legacy(0, 102, b"b", b"2")
    assert _offsets(_wrapper(0, 102, old)) == [100, 102]


def test_a_wrapper_at_offset_0_holds_offsets_as_they_are() -> None:
    """As some versions of librdkafka produced them."""
    inner = kb.legacy(1, 0, None, b"1") + kb.legacy(1, 1, None, b"2")
    batch, _ = decode_batch(_wrapper(1, 0, inner))
    assert _offsets(batch.raw) == [0, 1]
    assert batch.first_offset() == 0


def test_timestamps_are_the_messages_or_the_wrappers() -> None:
    inner = kb.legacy(1, 0, None, b"1", ms=10) + kb.legacy(1, 1, None, b"2", ms=20)
    created, appended = _records(_wrapper(1, 1, inner)), _records(_wrapper(1, 1, inner, kind=8))
    assert [record.timestamp_ms for record in created] == [10, 20]
    assert [record.timestamp_ms for record in appended] == [99, 99]
    assert {record.timestamp_type for record in appended} == {TimestampType.LOG_APPEND_TIME}


def test_inner_checksums_are_the_wrappers_matter_and_a_cut_last_message_is_passed_over() -> None:
    inner = bytearray(kb.legacy(1, 0, None, b"1") + kb.legacy(1, 1, None, b"2"))
    inner[12] ^= 0xFF
    assert _offsets(_wrapper(1, 5, bytes(inner))) == [4, 5]
    assert _offsets(_wrapper(1, 5, bytes(inner[:-1]))) == [5]
    assert _offsets(_wrapper(1, 5, bytes(inner) + b"\0" * 11)) == [4, 5]


def test_bytes_behind_the_value_are_passed_over() -> None:
    raw = bytearray(kb.legacy(1, 3, b"k", b"value"))
    struct.pack_into(">i", raw, len(raw) - 9, 2)
    batch, _ = decode_batch(bytes(raw), check_crc=False)
    assert [record.value for record in batch.records()] == [b"va"]


PLAIN = kb.legacy(1, 0, b"k", b"v")


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (_wrapper(1, 5, kb.legacy(1, 9, b"k", b"v")), "last relative offset 9"),
        (_wrapper(1, 5, _wrapper(1, 0, PLAIN)), "contains a compressed message"),
        (_wrapper(1, 5, b""), "contains no messages"),
        (_wrapper(1, 5, PLAIN[:20]), "contains no messages"),
        (_wrapper(1, 5, PLAIN[:8] + struct.pack(">i", 13) + PLAIN[12:]), "too short"),
        (_wrapper(1, 5, PLAIN[:8] + struct.pack(">i", -1) + PLAIN[12:]), "too short"),
        (_wrapper(1, 5, PLAIN[:16] + b"\x02" + PLAIN[17:]), "an unknown format"),
        (_wrapper(1, 5, PLAIN[:26] + struct.pack(">i", 1 << 30) + PLAIN[30:]), "extends beyond"),
        (kb.legacy(1, 5, None, None, attributes=1), "has no value"),
        (kb.legacy(1, 5, None, b"xyz", attributes=1), "gzip"),
        (_wrapper(1, 5, PLAIN, codec=Compression.ZSTD), "magic 2"),
        (kb.legacy(1, 5, None, b"xyz", attributes=7), "codec"),
    ],
)
def test_wrappers_that_cannot_be(raw: bytes, text: str) -> None:
    batch, _ = decode_batch(b"." * 6 + raw, 6, path="old.log")
    with pytest.raises(CorruptError, match=text) as told:
        list(batch.records())
    assert (told.value.position, told.value.path) == (6, "old.log")


def test_lengths_are_held_against_the_message() -> None:
    for magic, at in ((0, 18), (1, 26)):
        raw = bytearray(kb.legacy(magic, 3, b"key", b"value"))
        struct.pack_into(">i", raw, at, 1 << 30)
        with pytest.raises(CrcMismatchError):
            decode_batch(bytes(raw))
        batch, _ = decode_batch(bytes(raw), check_crc=False)
        with pytest.raises(CorruptError, match="key"):
            list(batch.records())


@pytest.mark.parametrize(("magic", "least"), [(0, 14), (1, 22)])
def test_the_shortest_message(magic: int, least: int) -> None:
    raw = kb.legacy(magic, 3, None, None)
    assert int.from_bytes(raw[8:12], "big") == least
    assert _records(raw)[0].value is None
    with pytest.raises(CorruptError, match="length"):
        decode_batch(raw[:8] + struct.pack(">i", least - 1) + raw[12:])


def test_magic_0_has_its_own_lz4_header_checksum() -> None:
    """Java's bytes: 0x82 is right by the frame's definition, 0x1a is what magic 0 was always
    written with."""
    records = [Record(b"k", b"v" * 100, 5)]
    frames = {
        magic: decode_batch(encode_batch(records, base_offset=0, compression=Compression.LZ4, magic=magic))[0].raw
        for magic in (0, 1)
    }
    assert bytes.fromhex("04224d1860401a") in frames[0]
    assert bytes.fromhex("04224d18604082") in frames[1]


def test_a_wrong_lz4_header_checksum_is_read_in_magic_0_alone() -> None:
    for magic in (0, 1):
        packed = bytearray(compress(Compression.LZ4, kb.legacy(magic, 0, None, b"v"), magic=magic))
        packed[6] ^= 0x55
        batch, _ = decode_batch(kb.legacy(magic, 1, None, bytes(packed), attributes=3))
        if magic == 0:
            assert [record.value for record in batch.records()] == [b"v"]
        else:
            with pytest.raises(CorruptError, match="checksum"):
                list(batch.records())
