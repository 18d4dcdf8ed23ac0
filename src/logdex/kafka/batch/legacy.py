"""Message sets of magic 0 and 1: uncompressed messages, and compressed ones in a wrapper message.

Source: ``docs/formats/kafka-legacy-records.md``; Kafka's LegacyRecord, AbstractLegacyRecordBatch,
MemoryRecordsBuilder. A wrapper's offset is the offset of its last inner message. Inner offsets are
absolute in magic 0. In magic 1 they are relative to the first inner message, except that a wrapper
at offset 0 has absolute ones (librdkafka). With LogAppendTime the inner messages have the wrapper's
timestamp. As in the broker, inner CRCs are not checked, because the wrapper's CRC covers them, and
an incomplete last inner message is ignored.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from logdex.errors import CorruptError, UsageError
from logdex.kafka.batch import compression
from logdex.kafka.batch.record import Compression, Record, TimestampType
from logdex.kafka.batch.record_format import timestamp_type_of, wrapped_long
from logdex.layout.kafka import (
    BATCH_CODEC_MASK,
    BATCH_LOG_APPEND_TIME,
    LEGACY_RECORD_V0,
    LEGACY_RECORD_V1,
    LEGACY_SIZE_MIN_V0,
    LOG_OVERHEAD_SIZE_BYTES,
    MAGIC_V0,
    MAGIC_V1,
)

_CRC_AT = LEGACY_RECORD_V0.offset_of("crc")
_MAGIC_AT = LEGACY_RECORD_V0.offset_of("magic")
_LENGTH = struct.Struct(">i")


class Message(NamedTuple):
    """A message or wrapper as stored.

    `timestamp_ms` is -1 in magic 0. The `value` of a wrapper is its message set.
    """

    offset: int
    crc: int
    magic: int
    attributes: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None

    @property
    def timestamp_type(self) -> TimestampType:
        """NO_TIMESTAMP_TYPE in magic 0, else as bit 3 of the attributes states."""
        return timestamp_type_of(self.magic, self.attributes)


def read_message(raw: bytes | memoryview, *, path: str, position: int) -> Message:
    """Decodes `raw`, which is exactly one message including its offset and size.

    `position` is the message's byte position in the file. Raises `CorruptError` for lengths that do
    not fit. Bytes after the value are ignored, as in the broker.
    """
    layout = LEGACY_RECORD_V1 if len(raw) > _MAGIC_AT and raw[_MAGIC_AT] == MAGIC_V1 else LEGACY_RECORD_V0
    if len(raw) < layout.size_bytes + 8:
        raise CorruptError(
            "a message is too short",
            path=path,
            position=position,
            field="size",
            expected=f"at least {layout.size_bytes + 8 - LOG_OVERHEAD_SIZE_BYTES}",
            found=len(raw) - LOG_OVERHEAD_SIZE_BYTES,
        )
    offset, _, crc, magic, attributes, *timestamp = layout.struct.unpack_from(raw)
    key, at = _read_sized(raw, layout.size_bytes, "key", path, position)
    value, _ = _read_sized(raw, at, "value", path, position)
    return Message(offset, crc, magic, attributes, timestamp[0] if timestamp else -1, key, value)


def message_crc(raw: bytes | bytearray | memoryview) -> int:
    """The CRC-32 from `magic` to the end, as the field `crc` must have it."""
    return zlib.crc32(raw[_MAGIC_AT:])


def read_records(
    message: Message, codec: Compression, *, path: str, position: int, size_bytes_max: int
) -> Iterator[Record]:
    """Yields the message, or the inner messages of a wrapper.

    Raises `CorruptError` for an invalid message set.
    """
    if codec is Compression.NONE:
        yield _record(message, message.offset, message)
        return

    def problem(text: str) -> CorruptError:
        return CorruptError(text, path=path, position=position, field="value")

    if codec is Compression.ZSTD:
        raise problem("a wrapper message uses zstd, which needs magic 2")
    if message.value is None:
        raise problem("a wrapper message has no value")
    plain = compression.decompress(
        codec, message.value, magic=message.magic, size_bytes_max=size_bytes_max, path=path, position=position
    )
    inner = list(_inner_messages(plain, path, position))
    if not inner:
        raise problem("a wrapper message contains no messages")
    first = 0
    if message.magic == MAGIC_V1 and message.offset != 0:
        first = message.offset - inner[-1].offset
        if first < 0:
            raise problem(f"the wrapper's offset {message.offset} is below its last relative offset {inner[-1].offset}")
    for each in inner:
        if each.attributes & BATCH_CODEC_MASK:
            raise problem("a wrapper message contains a compressed message")
        yield _record(each, wrapped_long(first + each.offset), message)


def _inner_messages(plain: bytes, path: str, position: int) -> Iterator[Message]:
    """Yields the messages of a decompressed set. Errors have the wrapper's position."""
    view, at = memoryview(plain), 0
    while at + LOG_OVERHEAD_SIZE_BYTES <= len(plain):
        (size,) = _LENGTH.unpack_from(plain, at + 8)
        if size < LEGACY_SIZE_MIN_V0:
            raise CorruptError(
                f"an inner message (byte {at} of the decompressed set) is too short",
                path=path,
                position=position,
                field="size",
                expected=f"at least {LEGACY_SIZE_MIN_V0}",
                found=size,
            )
        end = at + LOG_OVERHEAD_SIZE_BYTES + size
        if end > len(plain):
            return
        message = read_message(view[at:end], path=path, position=position)
        if message.magic not in (MAGIC_V0, MAGIC_V1):
            raise CorruptError(
                f"an inner message (byte {at} of the decompressed set) has an unknown format",
                path=path,
                position=position,
                field="magic",
                expected="0 or 1",
                found=message.magic,
            )
        yield message
        at = end


def _record(message: Message, offset: int, wrapper: Message) -> Record:
    """A message as a record. Its wrapper determines the timestamp."""
    kind, timestamp_ms = TimestampType.NO_TIMESTAMP_TYPE, -1
    if message.magic == MAGIC_V1:
        kind = wrapper.timestamp_type
        appended = kind is TimestampType.LOG_APPEND_TIME
        timestamp_ms = wrapper.timestamp_ms if appended else message.timestamp_ms
    return Record(message.key, message.value, timestamp_ms, offset=offset, timestamp_type=kind)


def _read_sized(raw: bytes | memoryview, at: int, field: str, path: str, position: int) -> tuple[bytes | None, int]:
    """Reads a length (negative for null) and that many bytes; returns (bytes, next position)."""
    size = _LENGTH.unpack_from(raw, at)[0] if at + 4 <= len(raw) else 0
    if at + 4 + max(size, 0) > len(raw):
        raise CorruptError(
            f"the {field} extends beyond its message",
            path=path,
            position=position,
            field=field,
            expected=f"at most {max(len(raw) - at - 4, 0)} bytes",
            found=size,
        )
    at += 4
    return (None, at) if size < 0 else (bytes(raw[at : at + size]), at + size)


def write_message(
    offset: int, magic: int, attributes: int, timestamp_ms: int, key: bytes | None, value: bytes | None
) -> bytes:
    """Returns a message's stored bytes. Magic 0 has no timestamp."""
    layout = LEGACY_RECORD_V1 if magic == MAGIC_V1 else LEGACY_RECORD_V0
    timestamp = (timestamp_ms,) if magic == MAGIC_V1 else ()
    body = b"".join(_LENGTH.pack(-1) if part is None else _LENGTH.pack(len(part)) + part for part in (key, value))
    size = layout.size_bytes + len(body) - LOG_OVERHEAD_SIZE_BYTES
    raw = bytearray(layout.pack(offset, size, 0, magic, attributes, *timestamp) + body)
    struct.pack_into(">I", raw, _CRC_AT, message_crc(raw))
    return bytes(raw)


def encode_message_set(
    records: Sequence[Record],
    offsets: Sequence[int],
    *,
    magic: int,
    codec: Compression,
    timestamp_type: TimestampType,
    log_append_time_ms: int,
    base_offset: int,
) -> bytes:
    """Returns consecutive messages, or one wrapper message, as MemoryRecordsBuilder writes them.

    Raises `UsageError` for headers and zstd, which these formats lack.
    """
    if codec is Compression.ZSTD:
        raise UsageError(f"magic {magic} has no zstd", hint="use gzip, snappy or lz4, or magic=2")
    if any(record.headers for record in records):
        raise UsageError(f"magic {magic} has no headers", hint="use magic=2")
    appended = magic == MAGIC_V1 and timestamp_type is TimestampType.LOG_APPEND_TIME
    kind = BATCH_LOG_APPEND_TIME if appended else 0
    stamps = [log_append_time_ms if appended else record.timestamp_ms for record in records]
    first = base_offset if magic == MAGIC_V1 and codec is not Compression.NONE else 0
    plain = b"".join(
        write_message(offset - first, magic, kind, stamp, record.key, record.value)
        for record, offset, stamp in zip(records, offsets, stamps, strict=True)
    )
    if codec is Compression.NONE or not records:
        return plain
    packed = compression.compress(codec, plain, magic=magic)
    return write_message(offsets[-1], magic, kind | codec.value, max(stamps), None, packed)
