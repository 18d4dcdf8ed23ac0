"""Appends batches: assigns offsets, checks producers, rolls segments, writes.

Source: Kafka's UnifiedLog.append, LogValidator. Batches are encoded and compressed before the log's
lock is taken. Base offset and leader epoch are set last, because a batch's CRC covers neither.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from logdex import limits
from logdex.errors import CorruptError, InvalidRecordError, RecordTooLargeError, UsageError
from logdex.io.env import ByteArray
from logdex.kafka.batch.batch_writer import encode_batch, encode_end_marker
from logdex.kafka.batch.record import NO_LEADER_EPOCH, NO_TIMESTAMP, Compression, Record, TimestampType
from logdex.kafka.batch.record_batch import decode_batch
from logdex.kafka.log.core import LogCore
from logdex.kafka.scan.scanner import BatchScanner, EndKind
from logdex.kafka.segment.log_segment import LogSegment
from logdex.kafka.state.producer_batches import increment_sequence
from logdex.kafka.state.producer_state import PreparedAppend, aborted_of
from logdex.kafka.state.written_batches import WrittenBatches, find_written
from logdex.kernels.kafka.batch_columns import BatchColumns, Int64s, join_columns, pick_columns
from logdex.layout.kafka import BATCH_CONTROL, BATCH_LOG_APPEND_TIME, LOG_OVERHEAD_SIZE_BYTES, MAGIC_V2, RECORD_BATCH
from logdex.primitives.crc32c import crc32c

_OFFSET_END = (1 << 63) - 1
"""The largest log end offset: the last record's offset is below it."""
_AT_EPOCH = RECORD_BATCH.offset_of("leader_epoch")
_AT_CRC = RECORD_BATCH.offset_of("crc")
_AT_ATTRIBUTES = RECORD_BATCH.offset_of("attributes")
_AT_MAX_TIMESTAMP = RECORD_BATCH.offset_of("max_timestamp_ms")


@dataclass(frozen=True, slots=True)
class AppendInfo:
    """The result of an append.

    The offsets are those of the first and last record that were written; for a compressed batch of
    magic 0 or 1 both are the last record's. `duplicate_batches` counts the leading batches that
    the producer had sent before: they are in the log and were not written again. With
    `is_duplicate` all of them were, nothing was written, and the offsets are those of the earlier
    append, -1 if they are no longer known. `log_append_time_ms` is -1 unless the log uses
    LogAppendTime.
    """

    first_offset: int
    last_offset: int
    max_timestamp_ms: int
    log_append_time_ms: int = NO_TIMESTAMP
    size_bytes: int = 0
    batches: int = 0
    is_duplicate: bool = False
    duplicate_batches: int = 0


@dataclass(frozen=True, slots=True)
class EncodedAppend:
    """Batches to append, and their columns; `data` may be modified.

    With `is_client` they are checked as a producer's and get offsets; otherwise they are a
    replica's and keep theirs. `trusts_sequences` is as of `find_written`.
    """

    data: bytearray | memoryview
    columns: BatchColumns
    is_client: bool = True
    leader_epoch: int | None = None
    log_append_time_ms: int = NO_TIMESTAMP
    trusts_sequences: bool = False

    def without_first(self, batches: int) -> EncodedAppend:
        """The append without its first batches, of which at least one other is left."""
        start = int(self.columns.position[batches])
        columns = pick_columns(self.columns, slice(batches, None))
        columns = columns._replace(position=columns.position - start)
        return replace(self, data=memoryview(self.data)[start:], columns=columns)


def parse_compression(value: str | Compression) -> Compression:
    """Parses ``none``, ``gzip``, ``snappy``, ``lz4`` or ``zstd``; a `Compression` is returned
    unchanged.

    Raises `UsageError` for anything else.
    """
    if isinstance(value, Compression):
        return value
    try:
        return Compression[value.upper()]
    except (KeyError, AttributeError):
        raise UsageError(f"compression is {value!r}", hint="say none, gzip, snappy, lz4 or zstd") from None


def encode_records(
    core: LogCore,
    records: Record | Iterable[Record],
    *,
    compression: str | Compression,
    producer_id: int,
    producer_epoch: int,
    sequence: int,
    transactional: bool,
    leader_epoch: int | None,
) -> EncodedAppend:
    """Encodes records as one batch at offset 0.

    Raises `UsageError` and `InvalidRecordError` for records that this log cannot have.
    """
    kept = [records] if isinstance(records, Record) else list(records)
    if not kept:
        raise InvalidRecordError("no records to append", path=core.path)
    require_keys(core, any(record.key is None for record in kept))
    now_ms = core.now_ms()
    stamped = [
        Record(each.key, each.value, now_ms if each.timestamp_ms == NO_TIMESTAMP else each.timestamp_ms, each.headers)
        for each in kept
    ]
    appended = core.config.message_timestamp_type == "LogAppendTime"
    data = encode_batch(
        stamped,
        base_offset=0,
        compression=parse_compression(compression),
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=sequence,
        is_transactional=transactional,
        timestamp_type=TimestampType.LOG_APPEND_TIME if appended else TimestampType.CREATE_TIME,
        max_timestamp_ms=now_ms if appended else None,
    )
    columns = columns_of_batch(data)
    return EncodedAppend(bytearray(data), columns, True, leader_epoch, now_ms if appended else NO_TIMESTAMP)


def encode_marker(
    core: LogCore, *, commit: bool, producer_id: int, producer_epoch: int, coordinator_epoch: int, timestamp_ms: int
) -> EncodedAppend:
    """Encodes the control batch that ends a producer's transaction."""
    data = encode_end_marker(
        commit,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        coordinator_epoch=coordinator_epoch,
        offset=0,
        timestamp_ms=core.now_ms() if timestamp_ms == NO_TIMESTAMP else timestamp_ms,
    )
    return _encoded(data, core)


def check_batches(core: LogCore, raw: bytes, *, assign_offsets: bool, leader_epoch: int | None) -> EncodedAppend:
    """Checks raw batches as a broker does those of a client or, without `assign_offsets`, of a
    leader.

    Batches must be whole, with correct CRCs, allowed sizes and increasing offsets. Raises
    `InvalidRecordError`.
    """
    encoded = _encoded(raw, core, is_client=assign_offsets, leader_epoch=leader_epoch, check_crc=True)
    columns = encoded.columns
    if (columns.last_offset[1:] <= columns.last_offset[:-1]).any() and not assign_offsets:
        raise InvalidRecordError("offsets do not rise", path=core.path)
    if not assign_offsets:
        return encoded
    if (columns.magic != MAGIC_V2).any():
        raise InvalidRecordError("only batches of magic 2 are given offsets", path=core.path)
    if (columns.attributes & BATCH_CONTROL).any():
        raise InvalidRecordError("control batches are not a client's to append", path=core.path)
    if (columns.count != columns.last_offset - columns.base_offset + 1).any() or (columns.count <= 0).any():
        raise InvalidRecordError("a batch has other offsets than its records need", path=core.path)
    if core.config.is_compacted:
        _require_keys_in(core, raw, columns)
    if core.config.message_timestamp_type == "LogAppendTime":
        return with_append_time(encoded, core.now_ms())
    return encoded


def _encoded(
    data: bytes, core: LogCore, *, is_client: bool = True, leader_epoch: int | None = None, check_crc: bool = False
) -> EncodedAppend:
    scanner = BatchScanner(check_crc=check_crc, window_batches=256, env=core.env)
    windows = [
        BatchColumns._make(column.copy() for column in window.columns)
        for window in scanner.scan_bytes(data, path="<append>")
    ]
    end = scanner.end
    if end.kind is not EndKind.END:
        raise InvalidRecordError(f"{end.kind.value}: {end.reason}", path=core.path) from end.error
    if not windows:
        raise InvalidRecordError("no batch to append", path=core.path)
    return EncodedAppend(bytearray(data), join_columns(windows), is_client, leader_epoch)


def require_keys(core: LogCore, is_keyless: bool) -> None:
    """Refuses a record without a key in a compacted log."""
    if is_keyless and core.config.is_compacted:
        raise InvalidRecordError("a compacted log takes no record without a key", path=core.path)


def _require_keys_in(core: LogCore, raw: bytes, columns: BatchColumns) -> None:
    for position in columns.position.tolist():
        try:
            batch, _ = decode_batch(raw, position, path="<append>", check_crc=False)
            keyless = any(record.key is None for record in batch.records())
        except CorruptError as error:
            raise InvalidRecordError(error.message, path=core.path) from error
        require_keys(core, keyless)


def with_append_time(encoded: EncodedAppend, now_ms: int) -> EncodedAppend:
    """Sets the records' timestamps to the append time, in `encoded` itself."""
    data, columns = encoded.data, encoded.columns
    view = memoryview(data)
    for place, (position, size) in enumerate(zip(columns.position.tolist(), columns.size.tolist(), strict=True)):
        attributes = int(columns.attributes[place]) | BATCH_LOG_APPEND_TIME
        struct.pack_into(">H", data, position + _AT_ATTRIBUTES, attributes & 0xFFFF)
        struct.pack_into(">q", data, position + _AT_MAX_TIMESTAMP, now_ms)
        crc = crc32c(view[position + _AT_ATTRIBUTES : position + size])
        struct.pack_into(">I", data, position + _AT_CRC, crc)
        columns.crc[place], columns.attributes[place] = crc, attributes
    columns.max_timestamp_ms[:] = now_ms
    return replace(encoded, data=data, columns=columns, is_client=True, log_append_time_ms=now_ms)


def columns_of_batch(raw: bytes) -> BatchColumns:
    """The columns of one batch of magic 2, as a scan returns them, but faster."""
    (base_offset, length, epoch, magic, crc, attributes, last_delta, first_ms, last_ms, *producer) = (
        RECORD_BATCH.struct.unpack_from(raw)
    )
    producer_id, producer_epoch, sequence, count = producer
    wide = np.array([0, base_offset, base_offset + last_delta, first_ms, last_ms, producer_id, -1, crc], np.int64)
    size = LOG_OVERHEAD_SIZE_BYTES + length
    narrow = np.array([size, epoch, magic, attributes, producer_epoch, sequence, count, -1, -1], np.int32)
    return BatchColumns._make([*wide.reshape(-1, 1), *narrow.reshape(-1, 1)])


def next_sequence(core: LogCore, producer_id: int, producer_epoch: int) -> int:
    """A producer's next sequence number; 0 for a new producer or epoch. Call it with the lock
    held."""
    state = core.producers.states.get(producer_id)
    if state is None or state.producer_epoch != producer_epoch:
        return 0
    return increment_sequence(state.last_sequence, 1)


# -- under the lock ----------------------------------------------------------------------------------------------------
def append_encoded(core: LogCore, encoded: EncodedAppend) -> AppendInfo:
    """Appends batches at the log end, all or none; with ``flush="sync"`` they are then on disk.

    Raises `ProducerStateError`, `RecordTooLargeError` and `InvalidRecordError` before anything is
    written. If writing fails, raises `StorageError`, and `LogFailedError` from then on.
    """
    info, ticket = write_encoded(core, encoded)
    return acknowledge(core, info, ticket)


def acknowledge(core: LogCore, info: AppendInfo, ticket: int) -> AppendInfo:
    """Waits until the append is on disk if ``flush="sync"``. Call it without the lock."""
    if core.config.flush == "sync":
        core.wait_durable(ticket)
    return info


def write_encoded(core: LogCore, encoded: EncodedAppend) -> tuple[AppendInfo, int]:
    """As `append_encoded`, but does not wait; also returns the ticket for `acknowledge`."""
    with core.lock:
        core.require_usable()
        states, written = core.producers.states, WrittenBatches(0)
        if encoded.is_client:
            written = find_written(states, encoded.columns, trusts_sequences=encoded.trusts_sequences)
        if written.batches == len(encoded.columns.position):
            known = written.first_offset, written.last_offset, written.timestamp_ms
            info = AppendInfo(*known, is_duplicate=True, duplicate_batches=written.batches)
            return info, core.last_ticket
        if written.batches:
            encoded = encoded.without_first(written.batches)
        columns = _placed(core, encoded)
        prepared = states.prepare(columns, is_client=encoded.is_client)
        _check_sizes(core, columns)
        with core.writing():
            _write(core, encoded.data, columns, prepared)
        info = AppendInfo(
            int(columns.base_offset[0]),
            int(columns.last_offset[-1]),
            int(columns.max_timestamp_ms.max()),
            encoded.log_append_time_ms,
            len(encoded.data),
            len(columns.position),
            duplicate_batches=written.batches,
        )
        return info, core.next_ticket()


def _placed(core: LogCore, encoded: EncodedAppend) -> BatchColumns:
    """Sets the batches' offsets and leader epoch; returns their new columns."""
    columns = encoded.columns
    if not encoded.is_client:
        first = int(columns.base_offset[0])
        if first < core.next_offset:
            raise InvalidRecordError(f"offset {first} is below the log end offset {core.next_offset}", path=core.path)
        _check_spans(core, columns)
        return columns
    counts = columns.last_offset - columns.base_offset + 1
    if core.next_offset + int(counts.sum()) > _OFFSET_END:
        raise InvalidRecordError(f"the log ends at {core.next_offset}: no offsets are left", path=core.path)
    base_offset = core.next_offset + np.cumsum(counts) - counts
    epoch = core.leader_epoch if encoded.leader_epoch is None else encoded.leader_epoch
    if not NO_LEADER_EPOCH <= epoch < 1 << 31:
        raise UsageError(f"leader_epoch is {epoch}", hint=f"say {NO_LEADER_EPOCH} (none) to {(1 << 31) - 1}")
    patch_batches(np.frombuffer(encoded.data, np.uint8), columns.position, base_offset, epoch)
    return columns._replace(
        base_offset=base_offset,
        last_offset=base_offset + counts - 1,
        leader_epoch=np.full(len(counts), epoch, np.int32),
    )


def patch_batches(data: ByteArray, position: Int64s, base_offset: Int64s, leader_epoch: int) -> None:
    """Sets base offsets and the leader epoch in batches of magic 2. No CRC covers these fields."""
    if len(position) == 1:
        at = int(position[0])
        data[at : at + 8] = np.frombuffer(struct.pack(">q", int(base_offset[0])), np.uint8)
        data[at + _AT_EPOCH : at + _AT_EPOCH + 4] = np.frombuffer(struct.pack(">i", leader_epoch), np.uint8)
        return
    data[position[:, None] + np.arange(8)] = base_offset.astype(">i8").view(np.uint8).reshape(-1, 8)
    data[position[:, None] + np.arange(_AT_EPOCH, _AT_EPOCH + 4)] = np.frombuffer(
        struct.pack(">i", leader_epoch), np.uint8
    )


def _check_spans(core: LogCore, columns: BatchColumns) -> None:
    """Refuses batches that not even an empty segment can hold, because of their last offset."""
    base, last = columns.base_offset, columns.last_offset
    bad = np.flatnonzero((last < base) | (last >= _OFFSET_END) | (last - base > limits.RELATIVE_OFFSET_MAX))
    if len(bad):
        raise InvalidRecordError(
            f"a batch from offset {base[bad[0]]} on ends at {last[bad[0]]}: at most {limits.RELATIVE_OFFSET_MAX} "
            f"offsets follow the first one, and they end at {_OFFSET_END - 1}",
            path=core.path,
        )


def _check_sizes(core: LogCore, columns: BatchColumns) -> None:
    largest = int(columns.size.max())
    bound = min(core.config.max_message_bytes, core.config.segment_bytes)
    if largest > bound:
        raise RecordTooLargeError(
            f"a batch of {largest} bytes, at most {bound} are taken",
            path=core.path,
            hint="append fewer records at once, or raise max_message_bytes (and segment_bytes)",
        )


def _write(core: LogCore, data: bytearray | memoryview, columns: BatchColumns, prepared: PreparedAppend) -> None:
    """Writes batches that have their offsets, as many at once as a segment takes, rolling in
    between."""
    latest = core.epochs.latest_epoch
    if (latest is None or int(columns.leader_epoch.max()) > latest) and core.epochs.add(columns):
        core.save_epochs()
    view, start, count = memoryview(data), 0, len(columns.position)
    ends = columns.position + columns.size
    while start < count:
        segment = core.segments.active
        begin = int(columns.position[start])
        room = max(core.config.segment_bytes - segment.size_bytes, 0)
        farthest = min(segment.base_offset + limits.RELATIVE_OFFSET_MAX, _OFFSET_END)
        near = int(np.searchsorted(columns.last_offset, farthest, "right"))  # the rest is for the next segment
        stop = max(min(int(np.searchsorted(ends, begin + room, "right")), near), start + 1)
        if segment.should_roll(
            incoming_size_bytes=int(ends[stop - 1]) - begin,
            max_timestamp_ms=int(columns.max_timestamp_ms[start:stop].max()),
            max_offset=int(columns.last_offset[stop - 1]),
            now_ms=core.now_ms(),
        ):
            rolled = core.roll(int(columns.base_offset[start]))
            if rolled is not segment:
                continue
        start = segment.append_some(view, columns, start, stop)
        core.next_offset = int(columns.last_offset[start - 1]) + 1
        _take_in_producers(core, segment, prepared)


def _take_in_producers(core: LogCore, segment: LogSegment, prepared: PreparedAppend) -> None:
    """Adds the batches written to `segment` to the producer state, before the segment is rolled.

    A roll takes a producer snapshot, which must not include later batches, and an aborted
    transaction belongs in the index of the segment with its marker.
    """
    completed = core.producers.states.commit(prepared, core.next_offset)
    for txn in completed:
        core.note_completed(txn.first_offset, txn.last_offset)
    segment.txn_index.append(*aborted_of(completed))
