"""A record batch as stored: its header, its records, its raw bytes. The kernels' reference.

Source: ``docs/formats/kafka-record-batch.md``; Kafka's DefaultRecordBatch and FileLogInputStream. A
message of magic 0 or 1, wrapper or not, is a batch too (`logdex.kafka.batch.legacy`).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from logdex import limits
from logdex.errors import CorruptError, CrcMismatchError, TruncatedError
from logdex.kafka.batch import compression as codecs
from logdex.kafka.batch import legacy
from logdex.kafka.batch.batch_writer import encode_batch, encode_end_marker, with_base_offset
from logdex.kafka.batch.record import (
    NO_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    Compression,
    Record,
    TimestampType,
)
from logdex.kafka.batch.record_format import (
    BatchContext,
    MalformedRecordError,
    read_records,
    sequence_after,
    timestamp_type_of,
    wrapped_long,
)
from logdex.layout.kafka import (
    BATCH_CODEC_MASK,
    BATCH_CONTROL,
    BATCH_DELETE_HORIZON,
    BATCH_TRANSACTIONAL,
    CONTROL_ABORT,
    CONTROL_COMMIT,
    CONTROL_RECORD_KEY,
    END_TXN_MARKER,
    LEGACY_RECORD_V0,
    LEGACY_RECORD_V1,
    LEGACY_SIZE_MIN_V0,
    LEGACY_SIZE_MIN_V1,
    LOG_OVERHEAD_SIZE_BYTES,
    MAGIC_V1,
    MAGIC_V2,
    RECORD_BATCH,
)
from logdex.primitives.crc32c import crc32c

__all__ = ["EndMarker", "RecordBatch", "decode_batch", "encode_batch", "encode_end_marker", "with_base_offset"]

_ATTRIBUTES_AT = RECORD_BATCH.offset_of("attributes")
_MAGIC_AT = RECORD_BATCH.offset_of("magic")
_LENGTH_AT = RECORD_BATCH.offset_of("length")


class EndMarker(NamedTuple):
    """The content of an end transaction marker."""

    is_commit: bool
    coordinator_epoch: int


@dataclass(frozen=True, slots=True)
class RecordBatch:
    """One batch. Offsets are absolute, times in milliseconds, `position` a byte position in the
    file.

    For magic 0 and 1, `base_offset` and `last_offset` are both the stored offset (of a wrapper, its
    last message's), both timestamps are the stored one (-1 in magic 0), `count` is 1, or -1 for a
    wrapper, and fields that these formats lack are -1.
    """

    base_offset: int
    last_offset: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    base_timestamp_ms: int
    max_timestamp_ms: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    count: int
    position: int
    path: str
    raw: bytes = field(repr=False)
    """All bytes of the batch, as stored."""

    @property
    def size_bytes(self) -> int:
        """The size of the whole batch, including its base offset and length fields."""
        return len(self.raw)

    @property
    def compression(self) -> Compression:
        """The codec. Raises `CorruptError` for an unknown codec number."""
        number = self.attributes & BATCH_CODEC_MASK
        try:
            return Compression(number)
        except ValueError:
            raise self._problem("the codec is unknown", "attributes", expected="codec 0 to 4", found=number) from None

    @property
    def timestamp_type(self) -> TimestampType:
        """The kind of the records' timestamps."""
        return timestamp_type_of(self.magic, self.attributes)

    @property
    def is_transactional(self) -> bool:
        """Whether the records belong to a transaction."""
        return self.magic == MAGIC_V2 and bool(self.attributes & BATCH_TRANSACTIONAL)

    @property
    def is_control(self) -> bool:
        """Whether this is a control batch: a transaction marker or a message of the quorum."""
        return self.magic == MAGIC_V2 and bool(self.attributes & BATCH_CONTROL)

    @property
    def delete_horizon_ms(self) -> int | None:
        """When compaction may remove the tombstones and markers; None if it is not set.

        It is stored in place of the base timestamp.
        """
        marked = self.magic == MAGIC_V2 and self.attributes & BATCH_DELETE_HORIZON
        return self.base_timestamp_ms if marked else None

    @property
    def last_sequence(self) -> int:
        """The sequence number of the last record, wrapping after 2^31 - 1; -1 without a producer
        id."""
        return sequence_after(self.base_sequence, self.last_offset - self.base_offset)

    @property
    def computed_crc(self) -> int:
        """The checksum of the bytes."""
        if self.magic != MAGIC_V2:
            return legacy.message_crc(self.raw)
        return crc32c(memoryview(self.raw)[_ATTRIBUTES_AT:])

    def check_crc(self) -> None:
        """Raises `CrcMismatchError` if the stored checksum differs from that of the bytes."""
        found = self.computed_crc
        if found != self.crc:
            raise CrcMismatchError(
                "the batch's CRC is wrong",
                path=self.path,
                position=self.position,
                field="crc",
                expected=f"{self.crc:#010x} as stored",
                found=f"{found:#010x}",
                hint="logdex verify lists all damage, logdex recover saves what comes after it",
            )

    def records(self, *, size_bytes_max: int = limits.BATCH_DECOMPRESSED_SIZE_BYTES_MAX) -> Iterator[Record]:
        """Yields the records; decompresses at most `size_bytes_max` bytes, at the first record.

        Raises `CorruptError`, with the position and the field, for malformed records.
        """
        if self.magic != MAGIC_V2:
            message = legacy.read_message(self.raw, path=self.path, position=self.position)
            yield from legacy.read_records(
                message, self.compression, path=self.path, position=self.position, size_bytes_max=size_bytes_max
            )
            return
        if self.count == 0:  # compaction removed all records
            return
        codec = self.compression
        plain: bytes | memoryview = memoryview(self.raw)[RECORD_BATCH.size_bytes :]
        if codec is not Compression.NONE:
            self._check_count_before_decompression()
            plain = codecs.decompress(
                codec, plain, size_bytes_max=size_bytes_max, path=self.path, position=self.position
            )
        try:
            yield from read_records(plain, self.count, self._context())
        except MalformedRecordError as error:
            if codec is Compression.NONE:
                at, where = self.position + RECORD_BATCH.size_bytes + error.at, "a record is malformed"
            else:
                at, where = self.position, f"a record (byte {error.at} of the decompressed records) is malformed"
            raise CorruptError(f"{where}: {error}", path=self.path, position=at, field=error.field) from error

    def _check_count_before_decompression(self) -> None:
        count_max = len(self.raw) * limits.BATCH_RECORDS_PER_BYTE_MAX
        if self.count > count_max:
            raise self._problem(
                "the batch states more records than its bytes can hold",
                "count",
                expected=f"at most {count_max}",
                found=self.count,
            )

    def first_offset(self) -> int:
        """The offset of the first record, which Kafka calls the base offset.

        A wrapper of magic 0 or 1 must be decompressed for it.
        """
        if self.magic == MAGIC_V2 or self.count == 1:
            return self.base_offset
        return next(self.records()).offset

    @property
    def control_type(self) -> int | None:
        """The type of a control batch's first record: 0 abort, 1 commit, others belong to the
        quorum.

        None for any other batch, and for a control batch that compaction emptied. Raises
        `CorruptError` for a malformed key.
        """
        found = self._control_record()
        return None if found is None else found[0]

    def end_marker(self) -> EndMarker | None:
        """The content of a commit or abort marker; None for any other batch and an emptied one.

        Raises `CorruptError` for a malformed marker.
        """
        found = self._control_record()
        if found is None or found[0] not in (CONTROL_ABORT, CONTROL_COMMIT):
            return None
        value = found[1].value or b""
        if len(value) < END_TXN_MARKER.size_bytes:
            raise self._problem("a marker is truncated", "value", expected="at least 6 bytes", found=len(value))
        version, coordinator_epoch = END_TXN_MARKER.struct.unpack_from(value)
        if version < 0:
            raise self._problem("a marker's version is negative", "version", expected="0 or more", found=version)
        return EndMarker(found[0] == CONTROL_COMMIT, coordinator_epoch)

    def _control_record(self) -> tuple[int, Record] | None:
        """(type, record) of a control batch's first record."""
        record = next(self.records(), None) if self.is_control else None
        if record is None:
            return None
        key = record.key or b""
        if len(key) < CONTROL_RECORD_KEY.size_bytes:
            raise self._problem(
                "a control record's key is truncated", "key", expected="at least 4 bytes", found=len(key)
            )
        version, kind = CONTROL_RECORD_KEY.struct.unpack_from(key)
        if version < 0:
            raise self._problem(
                "a control record's version is negative", "version", expected="0 or more", found=version
            )
        return kind, record

    def _context(self) -> BatchContext:
        appended = self.timestamp_type is TimestampType.LOG_APPEND_TIME
        return BatchContext(
            base_offset=self.base_offset,
            base_timestamp_ms=self.base_timestamp_ms,
            base_sequence=self.base_sequence,
            log_append_time_ms=self.max_timestamp_ms if appended else None,
            leader_epoch=self.leader_epoch,
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            is_transactional=self.is_transactional,
            is_control=self.is_control,
        )

    def _problem(self, text: str, name: str, *, expected: object, found: object) -> CorruptError:
        return CorruptError(text, path=self.path, position=self.position, field=name, expected=expected, found=found)


def decode_batch(
    buffer: bytes | bytearray | memoryview, position: int = 0, *, path: str = "<batch>", check_crc: bool = True
) -> tuple[RecordBatch, int]:
    """Decodes the batch at byte `position` of `buffer` and returns (batch, size in bytes).

    Errors name `path`, and take `position` for the position in that file. The records are not
    decoded. Raises `TruncatedError` if the buffer ends before the batch, `CorruptError` for an
    invalid size or magic, and, if `check_crc` is set, `CrcMismatchError`.
    """
    raw = _cut_out(memoryview(buffer), position, path)
    batch = (_current_batch if raw[_MAGIC_AT] == MAGIC_V2 else _legacy_batch)(raw, position, path)
    if check_crc:
        batch.check_crc()
    return batch, len(raw)


def _cut_out(view: memoryview, position: int, path: str) -> bytes:
    """The bytes of the batch at `position`. Checks length and magic in the broker's order."""
    left = len(view) - position
    if left <= _MAGIC_AT:
        raise TruncatedError(
            "the batch's header is truncated",
            path=path,
            position=position,
            field="length",
            expected=f"at least {_MAGIC_AT + 1} bytes",
            found=max(left, 0),
        )
    (length,) = struct.unpack_from(">i", view, position + _LENGTH_AT)
    magic = view[position + _MAGIC_AT]
    _check_length(length, LEGACY_SIZE_MIN_V0, position, path)
    size = LOG_OVERHEAD_SIZE_BYTES + length
    if size > left:
        raise TruncatedError(
            "the batch is truncated",
            path=path,
            position=position + _LENGTH_AT,
            field="length",
            expected=f"at most {left - LOG_OVERHEAD_SIZE_BYTES} to the end",
            found=length,
        )
    if magic > MAGIC_V2:
        raise CorruptError(
            "the batch's magic is unknown",
            path=path,
            position=position + _MAGIC_AT,
            field="magic",
            expected="0, 1 or 2",
            found=magic,
        )
    if magic == MAGIC_V2:
        _check_length(length, RECORD_BATCH.size_bytes - LOG_OVERHEAD_SIZE_BYTES, position, path)
    elif magic == MAGIC_V1:
        _check_length(length, LEGACY_SIZE_MIN_V1, position, path)
    return bytes(view[position : position + size])


def _check_length(length: int, length_min: int, position: int, path: str) -> None:
    if length_min <= length <= limits.BATCH_SIZE_BYTES_MAX - LOG_OVERHEAD_SIZE_BYTES:
        return
    raise CorruptError(
        "the batch's length is invalid",
        path=path,
        position=position + _LENGTH_AT,
        field="length",
        expected=f"at least {length_min}",
        found=length,
    )


def _current_batch(raw: bytes, position: int, path: str) -> RecordBatch:
    """Decodes a header of magic 2."""
    head = RECORD_BATCH.struct.unpack_from(raw)
    base_offset, _, leader_epoch, magic, crc, attributes, last_delta, first_ms, last_ms, *producer, count = head
    return RecordBatch(
        base_offset=base_offset,
        last_offset=wrapped_long(base_offset + last_delta),
        leader_epoch=leader_epoch,
        magic=magic,
        crc=crc,
        attributes=attributes,
        base_timestamp_ms=first_ms,
        max_timestamp_ms=last_ms,
        producer_id=producer[0],
        producer_epoch=producer[1],
        base_sequence=producer[2],
        count=count,
        position=position,
        path=path,
        raw=raw,
    )


def _legacy_batch(raw: bytes, position: int, path: str) -> RecordBatch:
    """Decodes the fixed fields of a message of magic 0 or 1."""
    layout = LEGACY_RECORD_V1 if raw[_MAGIC_AT] == MAGIC_V1 else LEGACY_RECORD_V0
    offset, _, crc, magic, attributes, *timestamp = layout.struct.unpack_from(raw)
    timestamp_ms = timestamp[0] if timestamp else NO_TIMESTAMP
    return RecordBatch(
        base_offset=offset,
        last_offset=offset,
        leader_epoch=NO_LEADER_EPOCH,
        magic=magic,
        crc=crc,
        attributes=attributes,
        base_timestamp_ms=timestamp_ms,
        max_timestamp_ms=timestamp_ms,
        producer_id=NO_PRODUCER_ID,
        producer_epoch=NO_PRODUCER_EPOCH,
        base_sequence=NO_SEQUENCE,
        count=-1 if attributes & BATCH_CODEC_MASK else 1,
        position=position,
        path=path,
        raw=raw,
    )
