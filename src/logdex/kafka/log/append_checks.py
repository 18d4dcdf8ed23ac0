"""Checks what is appended, and refuses what a broker refuses.

Source: Kafka's UnifiedLog.analyzeAndValidateRecords, LogValidator.
"""

from __future__ import annotations

import numpy as np
import pyarrow.compute as pc

from logdex import limits
from logdex.errors import CorruptError, InvalidRecordError, RecordTooLargeError, UsageError
from logdex.kafka.batch.batch_writer import FIELD_BOUNDS
from logdex.kafka.batch.record import NO_PRODUCER_ID, NO_SEQUENCE, NO_TIMESTAMP
from logdex.kafka.columns.record_columns import read_record_batches
from logdex.kafka.log.core import LogCore
from logdex.kafka.log.encoded_append import (
    EncodedAppend,
    columns_of,
    has_timestamp_bounds,
    require_keys,
    require_timestamps,
    set_max_timestamp,
    with_append_time,
)
from logdex.kernels.kafka.batch_columns import BatchColumns
from logdex.layout.kafka import (
    BATCH_CODEC_MASK,
    BATCH_CODEC_MAX,
    BATCH_CONTROL,
    BATCH_LOG_APPEND_TIME,
    BATCH_TRANSACTIONAL,
    MAGIC_V2,
)
from logdex.primitives.wrong_questions import require_bool, require_whole, require_within

OFFSET_END = (1 << 63) - 1
"""The largest log end offset: the last record's offset is below it."""


def require_producer(
    *, producer_id: int, producer_epoch: int, sequence: int | None, transactional: bool, leader_epoch: int | None
) -> None:
    """Raises `UsageError` for what the arguments of `Log.append` cannot be."""
    require_bool("transactional", transactional)
    require_whole(producer_id=producer_id, producer_epoch=producer_epoch)
    if producer_id != NO_PRODUCER_ID and isinstance(sequence, int) and sequence < 0:
        raise UsageError(f"sequence is {sequence}", hint="give 0 or more, or leave it out for the next one")
    require_within(
        FIELD_BOUNDS,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        sequence=sequence,
        leader_epoch=leader_epoch,
    )


def check_batches(core: LogCore, raw: bytes, *, assign_offsets: bool, leader_epoch: int | None) -> EncodedAppend:
    """Checks raw batches as a broker does those of a client or, without `assign_offsets`, of a
    leader.

    Batches must be whole, with correct CRCs. A client's batch must be one that a producer writes,
    down to its records, and comes alone; its header gets the highest time of its records, as the
    broker sets it. A leader's batches must not overlap and their offsets must rise. Raises
    `InvalidRecordError`, and `UsageError` for what is no bytes.
    """
    require_bool("assign_offsets", assign_offsets)
    require_within(FIELD_BOUNDS, leader_epoch=leader_epoch)
    if not isinstance(raw, (bytes, bytearray, memoryview)):
        raise UsageError(f"append_batches takes bytes, not {type(raw).__name__}", hint="append takes records")
    columns = columns_of(core, raw, check_crc=True)
    encoded = EncodedAppend(bytearray(raw), columns, assign_offsets, leader_epoch)
    if not assign_offsets:
        _refuse(core, columns.last_offset < columns.base_offset, "a batch ends before it begins")
        _refuse(
            core, columns.base_offset[1:] <= columns.last_offset[:-1], "offsets do not increase from batch to batch"
        )
        return encoded
    _check_client_headers(core, columns)
    max_timestamp_ms = _check_client_records(core, raw, columns)
    if core.config.message_timestamp_type == "LogAppendTime":
        return with_append_time(encoded, core.now_ms())
    if max_timestamp_ms != columns.max_timestamp_ms[0]:
        set_max_timestamp(encoded, max_timestamp_ms)
    return encoded


def _refuse(core: LogCore, wrong: np.ndarray[tuple[int], np.dtype[np.bool_]], why: str) -> None:
    if wrong.any():
        raise InvalidRecordError(why, path=core.path)


def _check_client_headers(core: LogCore, columns: BatchColumns) -> None:
    """Checks that there is one batch, and its header as analyzeAndValidateRecords and
    LogValidator.validateBatch do, and the timestamp type and codec."""
    attributes = columns.attributes
    spans = columns.last_offset - columns.base_offset + 1
    has_producer = columns.producer_id != NO_PRODUCER_ID
    if len(columns.position) > 1:
        raise InvalidRecordError("a client appends one batch at a time", path=core.path)
    _refuse(core, columns.magic != MAGIC_V2, "offsets can only be assigned to batches of magic 2")
    _refuse(core, columns.base_offset != 0, "the base offset of a client's batch must be 0")
    _refuse(core, attributes & BATCH_CONTROL != 0, "clients cannot append control batches")
    _refuse(core, (columns.count != spans) | (columns.count <= 0), "a batch's offsets do not fit its records")
    _refuse(core, attributes & BATCH_CODEC_MASK > BATCH_CODEC_MAX, "a batch has an unknown compression codec")
    _refuse(core, attributes & BATCH_LOG_APPEND_TIME != 0, "a client's batch must not have LogAppendTime")
    _refuse(core, has_producer & (columns.base_sequence <= NO_SEQUENCE), "a producer's batch has no sequence")
    _refuse(core, (attributes & BATCH_TRANSACTIONAL != 0) & ~has_producer, "a transactional batch has no producer id")


def _check_client_records(core: LogCore, raw: bytes, columns: BatchColumns) -> int:
    """Decodes all records and checks their number, offsets and times, and that keys exist in a
    compacted log. Returns their highest time, -1 if none has one."""
    found, max_timestamp_ms, now_ms = [np.empty(0, np.int64)], NO_TIMESTAMP, core.now_ms()
    names = ("offset", "key", "timestamp_ms")
    try:
        for batch in read_record_batches(raw, columns=names, check_crc=False, path="<append>"):
            offsets, keys, times = batch.columns
            found.append(offsets.to_numpy())
            require_keys(core, keys.null_count > 0)
            if not batch.num_rows:
                continue
            max_timestamp_ms = max(max_timestamp_ms, pc.max(times).as_py())
            if has_timestamp_bounds(core):
                require_timestamps(core, times, now_ms)
    except CorruptError as error:
        raise InvalidRecordError(error.message, path=core.path) from error
    if not np.array_equal(np.concatenate(found), np.arange(int(columns.count[0]))):
        raise InvalidRecordError("a batch's records have other offsets than its header states", path=core.path)
    return max_timestamp_ms


def check_spans(core: LogCore, columns: BatchColumns) -> None:
    """Refuses batches that not even an empty segment can hold, because of their last offset."""
    base, last = columns.base_offset, columns.last_offset
    bad = np.flatnonzero((last < base) | (last >= OFFSET_END) | (last - base > limits.RELATIVE_OFFSET_MAX))
    if len(bad):
        raise InvalidRecordError(
            f"a batch from offset {base[bad[0]]} on ends at {last[bad[0]]}: at most {limits.RELATIVE_OFFSET_MAX} "
            f"offsets follow the first one, and they end at {OFFSET_END - 1}",
            path=core.path,
        )


def check_sizes(core: LogCore, columns: BatchColumns, *, is_client: bool) -> None:
    """Raises `RecordTooLargeError` for a batch above segment_bytes, or a client's above
    max_message_bytes. A leader's was accepted already, so a follower does not ask that."""
    largest = int(columns.size.max())
    bound = core.config.segment_bytes
    if is_client:
        bound = min(bound, core.config.max_message_bytes)
    if largest > bound:
        raise RecordTooLargeError(
            f"a batch has {largest} bytes, but at most {bound} are allowed",
            path=core.path,
            hint="append fewer records at once, or raise max_message_bytes (and segment_bytes)",
        )
