"""Appends batches: assigns offsets, checks producers, rolls segments, writes.

Source: Kafka's UnifiedLog.append, LogValidator. Batches are encoded and compressed before the log's
lock is taken. Base offset and leader epoch are set last, because a batch's CRC covers neither.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

import numpy as np

from logdex import limits
from logdex.errors import InvalidRecordError
from logdex.io.mapped.byte_array import ByteArray
from logdex.kafka.batch.record import NO_TIMESTAMP
from logdex.kafka.log.append_checks import OFFSET_END, check_sizes, check_spans
from logdex.kafka.log.core import LogCore
from logdex.kafka.log.encoded_append import EncodedAppend
from logdex.kafka.segment.log_segment import LogSegment
from logdex.kafka.state.producer_batches import increment_sequence
from logdex.kafka.state.producer_state import PreparedAppend, aborted_of
from logdex.kafka.state.written_batches import WrittenBatches, find_written
from logdex.kernels.kafka.batch_columns import BatchColumns, Int64s
from logdex.layout.kafka import MAGIC_V2, RECORD_BATCH

_AT_EPOCH = RECORD_BATCH.offset_of("leader_epoch")


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


def next_sequence(core: LogCore, producer_id: int, producer_epoch: int) -> int:
    """A producer's next sequence number; 0 for a new producer or epoch. Call it with the lock
    held."""
    state = core.producers.states.get(producer_id)
    if state is None or state.producer_epoch != producer_epoch:
        return 0
    return increment_sequence(state.last_sequence, 1)


# -- under the lock ------------------------------------------------------------------------------
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
        core.group_commit.wait(ticket)
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
            return info, core.group_commit.last_ticket
        if written.batches:
            encoded = encoded.without_first(written.batches)
        columns = _placed(core, encoded)
        prepared = states.prepare(columns, is_client=encoded.is_client)
        check_sizes(core, columns, is_client=encoded.is_client)
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
        return info, core.group_commit.next_ticket()


def _placed(core: LogCore, encoded: EncodedAppend) -> BatchColumns:
    """Sets the batches' offsets and leader epoch; returns their new columns."""
    columns = encoded.columns
    if not encoded.is_client:
        first = int(columns.base_offset[0])
        if first < core.next_offset:
            raise InvalidRecordError(f"offset {first} is below the log end offset {core.next_offset}", path=core.path)
        check_spans(core, columns)
        return columns
    counts = columns.last_offset - columns.base_offset + 1
    if core.next_offset + int(counts.sum()) > OFFSET_END:
        raise InvalidRecordError(f"the log ends at {core.next_offset}, and no offsets are left", path=core.path)
    base_offset = core.next_offset + np.cumsum(counts) - counts
    epoch = core.leader_epoch if encoded.leader_epoch is None else encoded.leader_epoch
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
        farthest = min(segment.base_offset + limits.RELATIVE_OFFSET_MAX, OFFSET_END)
        near = int(np.searchsorted(columns.last_offset, farthest, "right"))  # the rest is for the next segment
        stop = max(min(int(np.searchsorted(ends, begin + room, "right")), near), start + 1)
        if segment.should_roll(
            incoming_size_bytes=int(ends[stop - 1]) - begin,
            max_timestamp_ms=int(columns.max_timestamp_ms[start:stop].max()),
            max_offset=int(columns.last_offset[stop - 1]),
            now_ms=core.now_ms(),
        ):
            rolled = core.roll(_first_offset_at_least(columns, start))
            if rolled is not segment:
                continue
        start = segment.append_some(view, columns, start, stop)
        core.next_offset = int(columns.last_offset[start - 1]) + 1
        _take_in_producers(core, segment, prepared)


def _first_offset_at_least(columns: BatchColumns, place: int) -> int:
    """Returns an offset that no record of a batch is below, for the name of a segment that begins
    with it. As in the broker: the header of a batch of magic 0 or 1 has the last offset alone."""
    if int(columns.magic[place]) == MAGIC_V2:
        return int(columns.base_offset[place])
    return max(int(columns.last_offset[place]) - limits.RELATIVE_OFFSET_MAX, 0)


def _take_in_producers(core: LogCore, segment: LogSegment, prepared: PreparedAppend) -> None:
    """Adds the batches written to `segment` to the producer state, before the segment is rolled.

    A roll takes a producer snapshot, which must not include later batches, and an aborted
    transaction belongs in the index of the segment with its marker.
    """
    completed = core.producers.states.commit(prepared, core.next_offset)
    for txn in completed:
        core.note_completed(txn.first_offset, txn.last_offset)
    segment.txn_index.append(*aborted_of(completed))
