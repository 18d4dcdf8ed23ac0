"""Encodes record batches: `encode_batch`, end transaction markers, and changes of the base offset.

Source: ``docs/formats/kafka-record-batch.md``; Kafka's MemoryRecordsBuilder,
DefaultRecordBatch.writeHeader.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence

from logdex.errors import UsageError
from logdex.kafka.batch import compression as codecs
from logdex.kafka.batch.legacy import encode_message_set
from logdex.kafka.batch.record import (
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    Compression,
    Record,
    TimestampType,
)
from logdex.kafka.batch.record_format import write_record
from logdex.layout.kafka import (
    BATCH_CONTROL,
    BATCH_DELETE_HORIZON,
    BATCH_LOG_APPEND_TIME,
    BATCH_TRANSACTIONAL,
    CONTROL_ABORT,
    CONTROL_COMMIT,
    CONTROL_RECORD_KEY,
    END_TXN_MARKER,
    LOG_OVERHEAD_SIZE_BYTES,
    MAGIC_V0,
    MAGIC_V2,
    RECORD_BATCH,
)
from logdex.primitives.crc32c import crc32c

_INT_BOUNDS = (-1, (1 << 31) - 1)
FIELD_BOUNDS = {
    "producer_id": (NO_PRODUCER_ID, (1 << 63) - 1),
    "producer_epoch": (NO_PRODUCER_EPOCH, (1 << 15) - 1),
    **dict.fromkeys(("base_sequence", "sequence", "leader_epoch", "coordinator_epoch"), _INT_BOUNDS),
}
"""The smallest number, which is none, and the largest number of a batch's fields and of what they
are called by callers."""
_ATTRIBUTES_AT = RECORD_BATCH.offset_of("attributes")
_CRC_AT = RECORD_BATCH.offset_of("crc")
_LEADER_EPOCH_AT = RECORD_BATCH.offset_of("leader_epoch")
_MAGIC_AT = RECORD_BATCH.offset_of("magic")


def encode_batch(
    records: Iterable[Record],
    *,
    base_offset: int,
    compression: Compression = Compression.NONE,
    leader_epoch: int = 0,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    is_transactional: bool = False,
    is_control: bool = False,
    timestamp_type: TimestampType = TimestampType.CREATE_TIME,
    max_timestamp_ms: int | None = None,
    delete_horizon_ms: int | None = None,
    last_offset: int | None = None,
    keep_offsets: bool = False,
    magic: int = MAGIC_V2,
) -> bytes:
    """Returns the bytes of a batch, as Kafka's MemoryRecordsBuilder writes it.

    Records get consecutive offsets from `base_offset`. With `keep_offsets` they keep their own
    increasing offsets, as in a compacted batch. Only key, value, headers and timestamp of a
    `Record` are used; the arguments set the rest.

    `max_timestamp_ms` is the append time for LogAppendTime, and may be given for a batch without
    records; otherwise it is the largest timestamp of the records. `last_offset` may exceed the last
    record's offset if compaction removed the last records. Magic 0 and 1 return a message set;
    without compression its messages are not wrapped.

    Raises `UsageError` for arguments that no batch can have.
    """
    kept = list(records)
    offsets = [record.offset for record in kept] if keep_offsets else list(range(base_offset, base_offset + len(kept)))
    appended = timestamp_type is TimestampType.LOG_APPEND_TIME
    _check(kept, offsets, base_offset, last_offset, magic)
    if appended and max_timestamp_ms is None and magic != MAGIC_V0:
        raise UsageError("LogAppendTime needs the append time", hint="give max_timestamp_ms")
    if magic != MAGIC_V2:
        if is_transactional or is_control or producer_id != NO_PRODUCER_ID or delete_horizon_ms is not None:
            raise UsageError(f"magic {magic} has neither producers nor transactions", hint="use magic=2")
        return encode_message_set(
            kept,
            offsets,
            magic=magic,
            codec=compression,
            timestamp_type=timestamp_type,
            log_append_time_ms=NO_TIMESTAMP if max_timestamp_ms is None else max_timestamp_ms,
            base_offset=base_offset,
        )
    check_producer(producer_id, producer_epoch, base_sequence, is_transactional, is_control)
    first = delete_horizon_ms if delete_horizon_ms is not None else kept[0].timestamp_ms if kept else NO_TIMESTAMP
    plain = b"".join(
        write_record(record, offset_delta=offset - base_offset, timestamp_delta=record.timestamp_ms - first)
        for record, offset in zip(kept, offsets, strict=True)
    )
    if max_timestamp_ms is None or (kept and not appended):
        max_timestamp_ms = max((record.timestamp_ms for record in kept), default=NO_TIMESTAMP)
    codec = compression if kept else Compression.NONE
    attributes = codec.value | _flags(appended, is_transactional, is_control, delete_horizon_ms is not None)
    end = last_offset if last_offset is not None else offsets[-1] if offsets else base_offset
    times = (first, max_timestamp_ms)
    rest = (attributes, end - base_offset, *times, producer_id, producer_epoch, base_sequence, len(kept))
    return _assemble(codecs.compress(codec, plain), base_offset=base_offset, leader_epoch=leader_epoch, rest=rest)


def encode_end_marker(
    is_commit: bool,
    *,
    producer_id: int,
    producer_epoch: int,
    coordinator_epoch: int,
    offset: int,
    timestamp_ms: int,
    leader_epoch: int = 0,
) -> bytes:
    """Returns the control batch at `offset` that ends a transaction by a commit or an abort."""
    kind = CONTROL_COMMIT if is_commit else CONTROL_ABORT
    marker = Record(CONTROL_RECORD_KEY.pack(0, kind), END_TXN_MARKER.pack(0, coordinator_epoch), timestamp_ms)
    return encode_batch(
        [marker],
        base_offset=offset,
        leader_epoch=leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        is_transactional=True,
        is_control=True,
    )


def with_base_offset(raw: bytes, offset: int, leader_epoch: int | None = None) -> bytes:
    """Returns a batch's bytes with another base offset and, if given, another leader epoch.

    The CRC covers neither. For a message of magic 0 or 1, `offset` is the message's own; the epoch
    is ignored.
    """
    moved = bytearray(raw)
    struct.pack_into(">q", moved, 0, offset)
    if leader_epoch is not None and moved[_MAGIC_AT] == MAGIC_V2:
        struct.pack_into(">i", moved, _LEADER_EPOCH_AT, leader_epoch)
    return bytes(moved)


def _flags(appended: bool, transactional: bool, control: bool, with_horizon: bool) -> int:
    """The attributes without the codec."""
    flags = (
        (appended, BATCH_LOG_APPEND_TIME),
        (transactional, BATCH_TRANSACTIONAL),
        (control, BATCH_CONTROL),
        (with_horizon, BATCH_DELETE_HORIZON),
    )
    return sum(bit for is_set, bit in flags if is_set)


def _assemble(body: bytes, *, base_offset: int, leader_epoch: int, rest: Sequence[int]) -> bytes:
    """Header, CRC and records. `rest` contains the header fields from `attributes` on."""
    length = RECORD_BATCH.size_bytes - LOG_OVERHEAD_SIZE_BYTES + len(body)
    try:
        raw = bytearray(RECORD_BATCH.pack(base_offset, length, leader_epoch, MAGIC_V2, 0, *rest) + body)
    except struct.error as error:
        raise UsageError(f"a value does not fit its field in the batch ({error})") from error
    struct.pack_into(">I", raw, _CRC_AT, crc32c(memoryview(raw)[_ATTRIBUTES_AT:]))
    return bytes(raw)


def _check(
    records: Sequence[Record], offsets: Sequence[int], base_offset: int, last_offset: int | None, magic: int
) -> None:
    """Raises `UsageError` for what MemoryRecordsBuilder refuses, whatever the magic."""
    if not 0 <= magic <= MAGIC_V2:
        raise UsageError(f"magic {magic} is unknown", hint="use 0, 1 or 2")
    if any(record.timestamp_ms < NO_TIMESTAMP for record in records):
        raise UsageError("a record's timestamp is negative", hint="use -1 for none")
    ends = [base_offset - 1, *offsets]
    if any(after <= before for before, after in zip(ends, offsets, strict=False)):
        raise UsageError(
            f"offsets do not increase from {base_offset} on", hint="leave out keep_offsets to have offsets assigned"
        )
    last = max(offsets, default=base_offset)
    if last_offset is not None and last_offset < last:
        raise UsageError(f"last_offset {last_offset} is before {last}")
    if max(last, last_offset or 0) - base_offset >= 1 << 31:
        raise UsageError(f"offsets from {base_offset} to {max(last, last_offset or 0)} do not fit in one batch")


def check_producer(
    producer_id: int, producer_epoch: int, base_sequence: int, is_transactional: bool, is_control: bool
) -> None:
    """Raises `UsageError` for what MemoryRecordsBuilder refuses in a producer's batch."""
    if is_transactional and producer_id == NO_PRODUCER_ID:
        raise UsageError("a transactional batch needs a producer", hint="give producer_id and producer_epoch")
    if producer_id != NO_PRODUCER_ID and producer_epoch < 0:
        raise UsageError(f"producer {producer_id} has no epoch", hint="give producer_epoch")
    if producer_id != NO_PRODUCER_ID and base_sequence < 0 and not is_control:
        raise UsageError(f"producer {producer_id} has no sequence", hint="give base_sequence")
