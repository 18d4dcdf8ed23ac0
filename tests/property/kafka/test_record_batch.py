"""Batches of every magic and codec: what is encoded comes back; whatever is cut or flipped ends in
a typed error."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from logdex.errors import CorruptError, CrcMismatchError, TruncatedError
from logdex.kafka.batch import compression as codecs
from logdex.kafka.batch.record import Compression, Record
from logdex.kafka.batch.record_batch import RecordBatch, decode_batch, encode_batch, with_base_offset
from logdex.testing.kafka_strategies import EncodedBatch, encoded_batches, message_sets
from tests.examples import examples


def _read_all(data: bytes) -> tuple[list[RecordBatch], list[Record]]:
    batches, at = [], 0
    while at < len(data):
        batch, size = decode_batch(data, at)
        batches.append(batch)
        at += size
    return batches, [record for batch in batches for record in batch.records()]


@given(encoded_batches())
def test_a_batch_comes_back(made: EncodedBatch) -> None:
    (batch,), found = _read_all(made.raw)
    assert found == list(made.records)
    assert batch.raw == made.raw
    options = made.options
    assert batch.base_offset == options["base_offset"]
    assert batch.last_offset == options["last_offset"]
    assert batch.count == len(found)
    assert batch.compression is options["compression"]
    assert batch.timestamp_type is options["timestamp_type"]
    assert batch.delete_horizon_ms == options["delete_horizon_ms"]
    assert batch.max_timestamp_ms == max(record.timestamp_ms for record in found)
    assert batch.last_sequence == (
        -1 if batch.base_sequence < 0 else (batch.base_sequence + batch.last_offset - batch.base_offset) % (1 << 31)
    )


@given(encoded_batches())
def test_what_was_read_encodes_to_the_same_bytes(made: EncodedBatch) -> None:
    """Where the timestamps are the producers'. Under LogAppendTime the stored deltas are theirs,
    and not read."""
    (batch,), found = _read_all(made.raw)
    if made.options["max_timestamp_ms"] is None:
        assert encode_batch(found, **made.options) == batch.raw


@given(message_sets())
def test_a_message_set_comes_back(made: EncodedBatch) -> None:
    batches, found = _read_all(made.raw)
    assert found == list(made.records)
    assert b"".join(batch.raw for batch in batches) == made.raw
    assert encode_batch(found, **made.options) == made.raw
    assert batches[0].first_offset() == made.options["base_offset"]
    if made.options["compression"] is not Compression.NONE:
        (wrapper,) = batches
        assert (wrapper.count, wrapper.last_offset) == (-1, found[-1].offset)


@given(encoded_batches(), st.integers(0, 1 << 50), st.integers(0, 1 << 20))
def test_moved_to_another_offset(made: EncodedBatch, offset: int, epoch: int) -> None:
    batch, _ = decode_batch(with_base_offset(made.raw, offset, epoch))
    shift = offset - made.options["base_offset"]
    moved = [replace(record, offset=record.offset + shift, leader_epoch=epoch) for record in made.records]
    assert list(batch.records()) == moved


@given(st.sampled_from(list(Compression)), st.integers(0, 2), st.binary(max_size=300), st.integers(0, 700))
@settings(max_examples=examples(150))
def test_compressed_bytes_come_back(codec: Compression, magic: int, data: bytes, times: int) -> None:
    plain = data * times
    packed = codecs.compress(codec, plain, magic=magic)
    if plain or codec is not Compression.SNAPPY:
        assert codecs.decompress(codec, packed, magic=magic) == plain


def _samples() -> Iterator[tuple[str, bytes]]:
    """One batch of each magic and codec."""
    made = [
        Record(b"key", b"value" * 9, 1_700_000_000_000 + i, headers=(("h", b"x"), ("n", None)) if i % 2 else ())
        for i in range(4)
    ]
    plain = [replace(record, headers=()) for record in made]
    for codec in Compression:
        yield f"2-{codec.label}", encode_batch(made, base_offset=5, compression=codec)
        if codec is not Compression.ZSTD:
            for magic in (0, 1):
                raw = encode_batch(plain, base_offset=5, compression=codec, magic=magic)
                yield f"{magic}-{codec.label}", raw


SAMPLES = dict(_samples())


@pytest.mark.parametrize("name", SAMPLES)
def test_every_cut_is_told(name: str) -> None:
    raw = SAMPLES[name]
    whole = {batch.position + batch.size_bytes for batch in _read_all(raw)[0]}
    for end in range(1, len(raw)):
        if end in whole:
            assert _read_all(raw[:end])[0]
            continue
        with pytest.raises(TruncatedError) as told:
            _read_all(raw[:end])
        assert told.value.position <= end


@pytest.mark.parametrize("name", SAMPLES)
def test_every_flipped_bit_is_told_by_the_crc_or_before(name: str) -> None:
    """All bits, but for those that no checksum covers: offsets, a leader epoch."""
    raw = SAMPLES[name]
    batches, found = _read_all(raw)
    free = {batch.position + i for batch in batches for i in (*range(8), *(range(12, 16) if batch.magic == 2 else ()))}
    for at in range(len(raw)):
        for bit in range(8):
            harmed = bytearray(raw)
            harmed[at] ^= 1 << bit
            if at in free:
                _read_or_typed(bytes(harmed))
                continue
            with pytest.raises(CorruptError):
                _read_all(bytes(harmed))
    assert found


@pytest.mark.parametrize("name", SAMPLES)
def test_behind_a_right_checksum_only_typed_errors(name: str) -> None:
    """Flips, cuts and noise that no checksum tells: what a broken or hostile writer leaves."""
    raw = SAMPLES[name]
    chance = random.Random(name)
    for _ in range(600):
        harmed = bytearray(raw)
        for _ in range(chance.choice((1, 1, 2, 8))):
            harmed[chance.randrange(17, len(raw))] = chance.choice((0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256)))
        _read_or_typed(bytes(harmed), check_crc=False)


def _read_or_typed(data: bytes, *, check_crc: bool = True) -> None:
    """Reads all there is of the first batch; nothing but `CorruptError` may come."""
    told: CorruptError | None = None
    try:
        batch, _ = decode_batch(data, check_crc=check_crc)
        found = list(batch.records())
        batch.end_marker()
    except CorruptError as error:
        told = error
    if told is not None:
        assert check_crc or not isinstance(told, CrcMismatchError)
        assert 0 <= told.position <= len(data)
        return
    for record in found:
        assert -(1 << 63) <= record.offset < 1 << 63
        assert -(1 << 63) <= record.timestamp_ms < 1 << 63
        assert -1 <= record.sequence < 1 << 31
