"""The encode kernel: encodes Arrow columns of records to many batches of magic 2, with compression
and CRC.

Twin: `logdex.kafka.batch.record_batch.encode_batch`. Sizes are computed and compared with the room
before bytes are written. A batch that does not fit is left out, and the caller continues with its
first record. Source: ``docs/formats/kafka-record-batch.md``; Kafka's DefaultRecordBatch,
DefaultRecord.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from logdex.kernels.common.crc32c import crc32c
from logdex.kernels.common.memory import (
    copy_bytes,
    count_leading_zeros,
    load_i32,
    load_i64,
    store_be16,
    store_be32,
    store_be64,
    store_i64,
    store_u8,
)
from logdex.kernels.compiled import inner_kernel, kernel
from logdex.kernels.kafka import batch_fields as field
from logdex.kernels.kafka.compress import CODEC_NONE, compress, compress_bound
from logdex.kernels.kafka.spans import Spans, binary_at, is_null
from logdex.layout import kafka as layout

# Why a call stopped.
INPUT_END, OUTPUT_FULL, SCRATCH_FULL, ROWS_FULL, REFUSED, TOO_LARGE = range(6)
_CLOSED = 6

# The elements of `state` (int64), all of them outputs.
RECORDS, BATCHES, SIZE, NEEDED, SEQUENCE = range(5)
STATE_SIZE = 5
"""The next record; batches and bytes written; the room that a batch needs; the next sequence
number."""

ROW = ("position", "base_offset", "last_offset", "base_timestamp_ms", "max_timestamp_ms", "crc", "size", "count")
ROW += ("base_sequence",)
"""The columns of `rows` (int64), one row per batch: the fields of `BatchColumns` that differ by
batch."""
_ROW_BYTES = 8 * len(ROW)

_HEADER_SIZE = layout.RECORD_BATCH.size_bytes
_OVERHEAD = layout.LOG_OVERHEAD_SIZE_BYTES
_SEQUENCES = 1 << 31
_SEVEN, _LOW, _MORE = np.uint64(7), np.uint64(0x7F), np.uint64(0x80)


class Records(NamedTuple):
    """The columns of `count` records.

    `header_lists` is the list array, whose offsets count headers; its addresses are 0 without
    headers.
    """

    count: int
    timestamps: int
    key: Spans
    value: Spans
    header_lists: Spans
    header_key: Spans
    header_value: Spans


class Target(NamedTuple):
    """The output (addresses, bytes, rows) and the compression; `scratch` is for uncompressed
    records.

    No batch may have more than `records_size_max` bytes of records.
    """

    out: int
    out_size: int
    records_size_max: int
    scratch: int
    scratch_size: int
    rows: int
    rows_max: int
    codec: int
    compress_function: int
    compress_context: int
    crc_function: int
    crc_table: int


NO_APPEND_TIMESTAMP = -2
"""A log append time is -1 or above."""


class BatchRule(NamedTuple):
    """The end of batches (`batch_records`; `batch_bytes` of header and uncompressed records) and
    common fields.

    `base_offset` is that of record 0 of the input. With `is_final` the last batch ends with the
    input, even if it has room. `append_timestamp`, unless `NO_APPEND_TIMESTAMP`, is every batch's
    max timestamp.
    """

    batch_records: int
    batch_bytes: int
    is_final: int
    base_offset: int
    leader_epoch: int
    attributes: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    append_timestamp: int


@inner_kernel
def _zigzag(value: int) -> int:
    return (np.uint64(value) << np.uint64(1)) ^ np.uint64(value >> 63)


@inner_kernel
def _size_of(word: int) -> int:
    """The encoded size of a zigzagged number."""
    if word < _MORE:
        return 1
    return ((64 - count_leading_zeros(word)) * 9 + 64) >> 6


@inner_kernel
def _put(at: int, word: int) -> int:
    """Writes a zigzagged number and returns the address after it."""
    while word >= _MORE:
        store_u8(at, np.int64((word & _LOW) | _MORE))
        word >>= _SEVEN
        at += 1
    store_u8(at, np.int64(word))
    return at + 1


@inner_kernel
def _bytes_size(size: int) -> int:
    """The encoded size of a value of `size` bytes with its length; -1 means null."""
    return _size_of(_zigzag(size)) + max(size, 0)


@inner_kernel
def _put_bytes(at: int, source: int, size: int) -> int:
    at = _put(at, _zigzag(size))
    if size > 0:
        copy_bytes(at, source, size)
        at += size
    return at


@inner_kernel
def _header_range(lists: Spans, i: int) -> tuple[int, int]:
    """(first, end) of record i's headers. A null list has none, whatever its offsets are."""
    first = load_i32(lists.offsets + 4 * i)
    return first, first if is_null(lists, i) else load_i32(lists.offsets + 4 * i + 4)


@inner_kernel
def _headers_size(records: Records, i: int) -> int:
    first, end = _header_range(records.header_lists, i)
    size = _size_of(_zigzag(end - first))
    for k in range(first, end):
        size += _bytes_size(binary_at(records.header_key, k)[1]) + _bytes_size(binary_at(records.header_value, k)[1])
    return size


@inner_kernel
def _put_headers(at: int, records: Records, i: int) -> int:
    first, end = _header_range(records.header_lists, i)
    at = _put(at, _zigzag(end - first))
    for k in range(first, end):
        source, size = binary_at(records.header_key, k)
        at = _put_bytes(at, source, size)
        source, size = binary_at(records.header_value, k)
        at = _put_bytes(at, source, size)
    return at


@inner_kernel
def _fill_batch(records: Records, rule: BatchRule, first: int, start: int, end: int) -> tuple[int, int, int, int]:
    """Writes records from `first` on between two addresses.

    Returns (count, size, max timestamp, why it ended). After OUTPUT_FULL, size is the room needed
    at least.
    """
    base_time = load_i64(records.timestamps + 8 * first)
    max_time = base_time
    at = start
    stop = min(records.count, first + rule.batch_records)
    room = rule.batch_bytes - _HEADER_SIZE
    for i in range(first, stop):
        time = load_i64(records.timestamps + 8 * i)
        time_word, offset_word = _zigzag(time - base_time), _zigzag(i - first)
        key, key_size = binary_at(records.key, i)
        value, value_size = binary_at(records.value, i)
        body = 1 + _size_of(time_word) + _size_of(offset_word) + _bytes_size(key_size) + _bytes_size(value_size)
        body += 1 if records.header_lists.offsets == 0 else _headers_size(records, i)
        size = body + _size_of(_zigzag(body))
        if i > first and at + size - start > room:
            return i - first, at - start, max_time, _CLOSED
        if at + size > end:
            return i - first, at + size - start, max_time, OUTPUT_FULL
        at = _put(at, _zigzag(body))
        store_u8(at, 0)
        at = _put(_put(at + 1, time_word), offset_word)
        at = _put_bytes(at, key, key_size)
        at = _put_bytes(at, value, value_size)
        if records.header_lists.offsets == 0:
            store_u8(at, 0)
            at += 1
        else:
            at = _put_headers(at, records, i)
        max_time = max(max_time, time)
    ended = _CLOSED if stop == first + rule.batch_records or rule.is_final else INPUT_END
    return stop - first, at - start, max_time, ended


@inner_kernel
def _put_head(
    at: int, size: int, rule: BatchRule, offset: int, count: int, base_time: int, max_time: int, sequence: int
) -> None:
    """Writes the header, without CRC, of a batch of `size` bytes whose records are in place."""
    store_be64(at, offset)
    store_be32(at + field.LENGTH, size - _OVERHEAD)
    store_be32(at + field.LEADER_EPOCH, rule.leader_epoch)
    store_u8(at + field.MAGIC, layout.MAGIC_V2)
    store_be16(at + field.ATTRIBUTES, rule.attributes)
    store_be32(at + field.LAST_OFFSET_DELTA, count - 1)
    store_be64(at + field.BASE_TIMESTAMP, base_time)
    store_be64(at + field.MAX_TIMESTAMP, max_time)
    store_be64(at + field.PRODUCER_ID, rule.producer_id)
    store_be16(at + field.PRODUCER_EPOCH, rule.producer_epoch)
    store_be32(at + field.BASE_SEQUENCE, sequence)
    store_be32(at + field.COUNT, count)


@inner_kernel
def _put_row(
    row: int, at: int, size: int, crc: int, offset: int, count: int, base_time: int, max_time: int, sequence: int
) -> None:
    """Writes one row of `rows`, in the order of `ROW`."""
    store_i64(row, at)
    store_i64(row + 8, offset)
    store_i64(row + 16, offset + count - 1)
    store_i64(row + 24, base_time)
    store_i64(row + 32, max_time)
    store_i64(row + 40, crc)
    store_i64(row + 48, size)
    store_i64(row + 56, count)
    store_i64(row + 64, sequence)


@kernel
def encode_records(records: Records, first: int, rule: BatchRule, target: Target, state: int) -> int:
    """Writes whole batches from record `first` on, and returns why it stopped. `state` is described
    above."""
    packed = target.codec != CODEC_NONE
    at = batches = needed = np.int64(0)
    sequence = np.int64(rule.base_sequence)
    reason = INPUT_END
    while first < records.count:
        if batches == target.rows_max:
            reason = ROWS_FULL
            break
        head = target.out + at
        body_at = head + _HEADER_SIZE
        start = target.scratch if packed else body_at
        end = target.scratch + target.scratch_size if packed else target.out + target.out_size
        end = min(end, start + target.records_size_max)
        count, size, max_time, ended = _fill_batch(records, rule, first, start, end)
        if ended == OUTPUT_FULL:
            reason, needed = (SCRATCH_FULL, size) if packed else (OUTPUT_FULL, size + _HEADER_SIZE)
            if size > target.records_size_max:
                reason = TOO_LARGE
            break
        if ended == INPUT_END:
            break
        if packed:
            bound = compress_bound(target.codec, size)
            if body_at + bound > target.out + target.out_size:
                reason, needed = OUTPUT_FULL, bound + _HEADER_SIZE
                break
            size = compress(target.codec, target.compress_function, target.compress_context, start, size, body_at)
            if size < 0:
                reason = REFUSED
                break
        size += _HEADER_SIZE
        base_time = load_i64(records.timestamps + 8 * first)
        max_time = max_time if rule.append_timestamp == NO_APPEND_TIMESTAMP else rule.append_timestamp
        offset = rule.base_offset + first
        _put_head(head, size, rule, offset, count, base_time, max_time, sequence)
        crc = crc32c(target.crc_function, target.crc_table, head + field.ATTRIBUTES, size - field.ATTRIBUTES)
        store_be32(head + field.CRC, crc)
        row = target.rows + _ROW_BYTES * batches
        _put_row(row, at, size, crc, offset, count, base_time, max_time, sequence)
        if rule.base_sequence >= 0:
            sequence = (sequence + count) % _SEQUENCES
        first += count
        at += size
        batches += 1
    store_i64(state + 8 * RECORDS, first)
    store_i64(state + 8 * BATCHES, batches)
    store_i64(state + 8 * SIZE, at)
    store_i64(state + 8 * NEEDED, needed)
    store_i64(state + 8 * SEQUENCE, sequence)
    return reason
