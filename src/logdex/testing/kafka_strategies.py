"""Hypothesis strategies for Kafka's records and batches.

They cover every magic and codec, unusual keys and headers, offset gaps and control batches.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from hypothesis import strategies as st

from logdex.kafka.batch.record import Compression, Header, Record, TimestampType
from logdex.kafka.batch.record_batch import encode_batch

TIMESTAMPS_MS = st.one_of(st.just(-1), st.integers(0, 2_000_000_000_000), st.integers(0, (1 << 63) - 1))
OFFSETS = st.one_of(st.integers(0, 100), st.integers(0, 1 << 40), st.integers(0, (1 << 63) - (1 << 32)))
_BYTES = st.one_of(st.binary(max_size=20), st.builds(lambda part: part * 50, st.binary(max_size=8)))
_MAYBE_BYTES = st.one_of(st.none(), _BYTES)


def _stored_key(key: bytes) -> str | bytes:
    """A header key as the reader returns it: text if it is UTF-8."""
    try:
        return key.decode()
    except UnicodeDecodeError:
        return key


@st.composite
def headers(draw: st.DrawFn) -> tuple[Header, ...]:
    """Up to four headers: keys may be empty, repeated or not UTF-8, values may be null."""
    text = st.one_of(st.sampled_from(["", "trace", "é"]), st.text(max_size=6))
    keys = st.one_of(text, st.one_of(st.just(b"\xff\xfe"), st.binary(max_size=6)).map(_stored_key))
    return tuple(draw(st.lists(st.tuples(keys, _MAYBE_BYTES), max_size=4)))


@st.composite
def records(draw: st.DrawFn, *, magic: int = 2) -> Record:
    """A record to append that fits a batch of `magic`."""
    return Record(
        key=draw(_MAYBE_BYTES),
        value=draw(_MAYBE_BYTES),
        timestamp_ms=draw(TIMESTAMPS_MS) if magic > 0 else -1,
        headers=draw(headers()) if magic == 2 else (),
    )


@dataclass(frozen=True)
class EncodedBatch:
    """A batch's bytes, the arguments of `encode_batch`, and the records that reading must
    return."""

    raw: bytes
    options: dict[str, Any]
    records: tuple[Record, ...]


def _producer(draw: st.DrawFn) -> dict[str, Any]:
    """No producer, an idempotent one, or one with a transaction."""
    if draw(st.booleans()):
        return {}
    return {
        "producer_id": draw(st.integers(0, (1 << 63) - 1)),
        "producer_epoch": draw(st.integers(0, (1 << 15) - 1)),
        "base_sequence": draw(st.one_of(st.integers(0, 9), st.integers((1 << 31) - 5, (1 << 31) - 1))),
        "is_transactional": draw(st.booleans()),
    }


@st.composite
def encoded_batches(
    draw: st.DrawFn, *, codecs: tuple[Compression, ...] = tuple(Compression), size_max: int = 6
) -> EncodedBatch:
    """A batch of magic 2. It may have offset gaps, and may have lost its last offsets to
    compaction."""
    base_offset = draw(OFFSETS)
    plain = draw(st.lists(records(), min_size=1, max_size=size_max))
    gaps = draw(st.lists(st.sampled_from([1, 1, 2, 1000]), min_size=len(plain), max_size=len(plain)))
    offsets = [base_offset + sum(gaps[: i + 1]) - 1 for i in range(len(plain))]
    appended = draw(st.booleans())
    log_append_time_ms = draw(st.integers(0, 1 << 41)) if appended else None
    options: dict[str, Any] = {
        "base_offset": base_offset,
        "compression": draw(st.sampled_from(codecs)),
        "leader_epoch": draw(st.integers(-1, 1 << 20)),
        "timestamp_type": TimestampType.LOG_APPEND_TIME if appended else TimestampType.CREATE_TIME,
        "max_timestamp_ms": log_append_time_ms,
        "delete_horizon_ms": draw(st.one_of(st.none(), st.integers(0, 1 << 41))),
        "last_offset": offsets[-1] + draw(st.integers(0, 3)),
        "keep_offsets": True,
        **_producer(draw),
    }
    placed = [replace(record, offset=offset) for record, offset in zip(plain, offsets, strict=True)]
    read = tuple(_as_read(record, options) for record in placed)
    return EncodedBatch(encode_batch(placed, **options), options, read)


def _as_read(record: Record, options: dict[str, Any]) -> Record:
    """`record` as reading must return it from a batch of magic 2."""
    sequence = options.get("base_sequence", -1)
    if sequence >= 0:
        sequence = (sequence + record.offset - options["base_offset"]) % (1 << 31)
    appended = options["timestamp_type"] is TimestampType.LOG_APPEND_TIME
    return replace(
        record,
        timestamp_ms=options["max_timestamp_ms"] if appended else record.timestamp_ms,
        timestamp_type=options["timestamp_type"],
        leader_epoch=options["leader_epoch"],
        producer_id=options.get("producer_id", -1),
        producer_epoch=options.get("producer_epoch", -1),
        sequence=sequence,
        is_transactional=options.get("is_transactional", False),
    )


@st.composite
def message_sets(draw: st.DrawFn, *, size_max: int = 6) -> EncodedBatch:
    """A message set of magic 0 or 1: uncompressed messages in a row, or one wrapper message."""
    magic = draw(st.integers(0, 1))
    base_offset = draw(OFFSETS)
    plain = draw(st.lists(records(magic=magic), min_size=1, max_size=size_max))
    codecs = (Compression.NONE, Compression.GZIP, Compression.SNAPPY, Compression.LZ4)
    appended = magic == 1 and draw(st.booleans())
    options: dict[str, Any] = {
        "base_offset": base_offset,
        "compression": draw(st.sampled_from(codecs)),
        "timestamp_type": TimestampType.LOG_APPEND_TIME if appended else TimestampType.CREATE_TIME,
        "max_timestamp_ms": draw(st.integers(0, 1 << 41)) if appended else None,
        "magic": magic,
    }
    kind = options["timestamp_type"] if magic == 1 else TimestampType.NO_TIMESTAMP_TYPE
    read = tuple(
        replace(
            record,
            offset=base_offset + i,
            timestamp_ms=options["max_timestamp_ms"] if appended else record.timestamp_ms,
            timestamp_type=kind,
        )
        for i, record in enumerate(plain)
    )
    return EncodedBatch(encode_batch(plain, **options), options, read)
