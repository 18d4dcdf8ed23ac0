"""Encodes and decodes single records of magic 2.

Source: ``docs/formats/kafka-record-batch.md``; Kafka's DefaultRecord. Accepts and refuses the same
bytes as the broker. Offsets and timestamps overflow as Java's long.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from logdex import limits
from logdex.errors import UsageError
from logdex.kafka.batch.record import NO_SEQUENCE, Header, Record, TimestampType
from logdex.layout.kafka import BATCH_LOG_APPEND_TIME, MAGIC_V0
from logdex.primitives.varint import read_varint, read_varlong, write_varint, write_varlong

SEQUENCE_SPAN = 1 << 31
"""Sequence numbers go from 0 to 2^31 - 1 and then wrap to 0."""


class MalformedRecordError(ValueError):
    """`field` of the record that begins at byte `at` of the uncompressed records is invalid."""

    def __init__(self, at: int, field: str, text: str) -> None:
        super().__init__(text)
        self.at = at
        self.field = field


class BatchContext(NamedTuple):
    """The header fields that a batch's records need. `log_append_time_ms` is None for
    CreateTime."""

    base_offset: int
    base_timestamp_ms: int
    base_sequence: int
    log_append_time_ms: int | None
    leader_epoch: int
    producer_id: int
    producer_epoch: int
    is_transactional: bool
    is_control: bool


def timestamp_type_of(magic: int, attributes: int) -> TimestampType:
    """The kind of the timestamps: none in magic 0, else as bit 3 of the attributes states."""
    if magic == MAGIC_V0:
        return TimestampType.NO_TIMESTAMP_TYPE
    return TimestampType.LOG_APPEND_TIME if attributes & BATCH_LOG_APPEND_TIME else TimestampType.CREATE_TIME


def wrapped_long(value: int) -> int:
    """`value` wrapped as in Java's long arithmetic."""
    return (value + (1 << 63)) % (1 << 64) - (1 << 63)


def sequence_after(base_sequence: int, delta: int) -> int:
    """The sequence number `delta` records later, wrapping to 0; -1 if the batch has none."""
    return NO_SEQUENCE if base_sequence < 0 else (base_sequence + delta) % SEQUENCE_SPAN


def read_records(data: bytes | memoryview, count: int, context: BatchContext) -> Iterator[Record]:
    """Yields the `count` records in `data`.

    Raises `MalformedRecordError` if a record is malformed or bytes remain after the last one.
    """
    if not 0 <= count <= len(data) // limits.RECORD_SIZE_BYTES_MIN:
        raise MalformedRecordError(0, "count", f"{len(data)} bytes cannot hold {count} records")
    at = 0
    for _ in range(count):
        record, at = _read_record(data, at, context)
        yield record
    if count and at != len(data):
        raise MalformedRecordError(at, "count", f"{len(data) - at} bytes after the last of {count} records")


def _read_record(data: bytes | memoryview, start: int, context: BatchContext) -> tuple[Record, int]:
    """Decodes the record at `start` and returns (record, position of the next record)."""
    field = "length"
    try:
        size, at = read_varint(data, start, len(data))
        end = at + size
        if size < 0 or end > len(data):
            raise ValueError(f"{size} bytes are stated, but {len(data) - at} are left")
        at += 1  # the attributes, which use no bit
        field = "timestamp_delta"
        timestamp_delta, at = read_varlong(data, at, end)
        field = "offset_delta"
        offset_delta, at = read_varint(data, at, end)
        field = "key"
        key, at = _read_bytes(data, at, end)
        field = "value"
        value, at = _read_bytes(data, at, end)
        field = "headers"
        headers, at = _read_headers(data, at, end)
        if at != end:
            raise ValueError(f"{end - at} bytes after the last header")
    except ValueError as error:
        raise MalformedRecordError(start, field, str(error)) from error
    created = context.log_append_time_ms is None
    record = Record(
        key=key,
        value=value,
        timestamp_ms=wrapped_long(context.base_timestamp_ms + timestamp_delta)
        if context.log_append_time_ms is None
        else context.log_append_time_ms,
        headers=headers,
        offset=wrapped_long(context.base_offset + offset_delta),
        timestamp_type=TimestampType.CREATE_TIME if created else TimestampType.LOG_APPEND_TIME,
        leader_epoch=context.leader_epoch,
        producer_id=context.producer_id,
        producer_epoch=context.producer_epoch,
        sequence=sequence_after(context.base_sequence, offset_delta),
        is_transactional=context.is_transactional,
        is_control=context.is_control,
    )
    return record, end


def _read_bytes(data: bytes | memoryview, at: int, end: int) -> tuple[bytes | None, int]:
    """Reads a varint length and that many bytes. A negative length means null."""
    size, at = read_varint(data, at, end)
    if size < 0:
        return None, at
    if size > end - at:
        raise ValueError(f"{size} bytes are stated, but {end - at} are left")
    return bytes(data[at : at + size]), at + size


def _read_headers(data: bytes | memoryview, at: int, end: int) -> tuple[tuple[Header, ...], int]:
    count, at = read_varint(data, at, end)
    if not 0 <= count <= end - at:
        raise ValueError(f"{count} headers are stated, but {end - at} bytes are left")
    headers: list[Header] = []
    for _ in range(count):
        key, at = _read_bytes(data, at, end)
        if key is None:
            raise ValueError("a header has no key")
        value, at = _read_bytes(data, at, end)
        headers.append((header_key_of(key), value))
    return tuple(headers), at


def header_key_of(key: bytes) -> str | bytes:
    """A stored header key as `Record` has it: text, or bytes if it is not UTF-8."""
    try:
        return key.decode()
    except UnicodeDecodeError:
        return key


def write_record(record: Record, *, offset_delta: int, timestamp_delta: int) -> bytes:
    """Returns a record's stored bytes, with the length in front.

    Raises `UsageError` for a header key that cannot be encoded as UTF-8, and for a key or value
    that is not bytes.
    """
    parts = [
        b"\x00",
        write_varlong(wrapped_long(timestamp_delta)),
        write_varint(offset_delta),
        _sized(record.key),
        _sized(record.value),
        write_varint(len(record.headers)),
    ]
    for key, value in record.headers:
        parts += _sized(header_key_bytes(key)), _sized(value)
    body = b"".join(parts)
    return write_varint(len(body)) + body


def header_key_bytes(key: str | bytes) -> bytes:
    """A header's key as stored. Raises `UsageError` for text that cannot be encoded as UTF-8."""
    if isinstance(key, bytes):
        return key
    try:
        return key.encode()
    except UnicodeEncodeError as error:
        raise UsageError(f"the header key {key!r} cannot be encoded as UTF-8", hint="give its bytes") from error


def _sized(data: bytes | None) -> bytes:
    try:
        return write_varint(-1) if data is None else write_varint(len(data)) + data
    except TypeError:
        raise UsageError(
            f"keys and values must be bytes or None, not {type(data).__name__}", hint="encode text: 'order-17'.encode()"
        ) from None
