"""The batch scan kernel: reads the batch headers of a mapped .log into columns, and verifies CRCs.

Twin: `logdex.kafka.scan.plain_scan`. Every length is compared with the end of the bytes before use;
there is no other check of addresses. The log ends by the rules of the broker's FileLogInputStream,
DefaultRecordBatch.ensureValid and LegacyRecord.ensureValid.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from logdex.kernels.common.crc import crc32
from logdex.kernels.common.crc32c import CrcSources, crc32c
from logdex.kernels.common.memory import load_be16, load_be32, load_be64, load_i64, load_u8, store_i32, store_i64
from logdex.kernels.compiled import inner_kernel, kernel
from logdex.kernels.kafka import batch_fields as field
from logdex.kernels.kafka.varint import read_varint, varint_size
from logdex.layout import kafka as layout

# Why a call of the kernel stopped: `state[REASON]`.
WINDOW_FULL, FILE_END, LIMIT, TORN, BAD_SIZE, BAD_MAGIC, BAD_CRC = range(7)

# The elements of `state` (int64).
POSITION, COUNT, REASON = range(3)
STATE_SIZE = 3

OVERHEAD = layout.LOG_OVERHEAD_SIZE_BYTES
SIZE_UP_TO_MAGIC = field.MAGIC + 1
SIZE_MIN_V0 = layout.LEGACY_SIZE_MIN_V0
SIZE_MIN_V2 = layout.RECORD_BATCH.size_bytes - OVERHEAD

_HEADER_SIZE = layout.RECORD_BATCH.size_bytes
_LEGACY_AT_CRC = layout.LEGACY_RECORD_V1.offset_of("crc")
_LEGACY_AT_ATTRIBUTES = layout.LEGACY_RECORD_V1.offset_of("attributes")
_LEGACY_AT_TIMESTAMP = layout.LEGACY_RECORD_V1.offset_of("timestamp_ms")
_CODEC = layout.BATCH_CODEC_MASK
_LOG_APPEND_TIME = layout.BATCH_LOG_APPEND_TIME
_CONTROL = layout.BATCH_CONTROL


class ColumnAddresses(NamedTuple):
    """The addresses of the arrays of a `BatchColumns`, in its order, and their length."""

    position: int
    base_offset: int
    last_offset: int
    base_timestamp_ms: int
    max_timestamp_ms: int
    producer_id: int
    control_timestamp_ms: int
    crc: int
    size: int
    leader_epoch: int
    magic: int
    attributes: int
    producer_epoch: int
    base_sequence: int
    count: int
    control_type: int
    coordinator_epoch: int
    capacity: int


@kernel
def size_min(magic: int) -> int:
    """The smallest size field of a batch of this magic."""
    if magic == 2:
        return SIZE_MIN_V2
    return layout.LEGACY_SIZE_MIN_V1 if magic == 1 else SIZE_MIN_V0


@kernel
def head_problem(at: int, end: int) -> int:
    """A reason to stop; -1 if a whole batch of a possible size is at address `at`, before `end`."""
    if end - at <= SIZE_UP_TO_MAGIC:
        return FILE_END if end == at else TORN
    size = load_be32(at + field.LENGTH)
    if size < SIZE_MIN_V0:
        return BAD_SIZE
    if size > end - at - OVERHEAD:
        return TORN
    magic = load_u8(at + field.MAGIC)
    if magic > 2:
        return BAD_MAGIC
    return BAD_SIZE if size < size_min(magic) else -1


@kernel
def batch_crc(at: int, crcs: CrcSources) -> int:
    """The checksum computed over the whole batch at address `at`."""
    end = at + OVERHEAD + load_be32(at + field.LENGTH)
    if load_u8(at + field.MAGIC) == 2:
        return crc32c(crcs.crc32c_function, crcs.crc32c_table, at + field.ATTRIBUTES, end - at - field.ATTRIBUTES)
    return crc32(crcs.crc32_function, crcs.crc32_table, at + field.MAGIC, end - at - field.MAGIC)


@kernel
def stored_crc(at: int) -> int:
    """The stored checksum of the batch at address `at`, unsigned."""
    place = field.CRC if load_u8(at + field.MAGIC) == 2 else _LEGACY_AT_CRC
    return load_be32(at + place) & 0xFFFFFFFF


@inner_kernel
def _put_control(at: int, i: int, attributes: int, c: ColumnAddresses) -> None:
    """Stores type, coordinator epoch and timestamp of a control batch's first record; -1 if
    missing."""
    kind = epoch = timestamp = np.int64(-1)
    end = at + OVERHEAD + load_be32(at + field.LENGTH)
    if attributes & _CONTROL and not attributes & _CODEC and load_be32(at + field.COUNT) > 0:
        p = at + _HEADER_SIZE
        p += varint_size(p, end)  # the record's length
        p += 1  # its attributes
        delta = read_varint(p, end)
        p += varint_size(p, end)
        p += varint_size(p, end)  # the offset delta
        key_size = read_varint(p, end)
        p += varint_size(p, end)
        if 4 <= key_size <= end - p:
            kind = load_be16(p + 2)
            base = field.MAX_TIMESTAMP if attributes & _LOG_APPEND_TIME else field.BASE_TIMESTAMP
            timestamp = load_be64(at + base) + (0 if attributes & _LOG_APPEND_TIME else delta)
            p += key_size
            value_size = read_varint(p, end)
            p += varint_size(p, end)
            if kind in (layout.CONTROL_ABORT, layout.CONTROL_COMMIT) and 6 <= value_size <= end - p:
                epoch = load_be32(p + 2)
    store_i32(c.control_type + 4 * i, kind)
    store_i32(c.coordinator_epoch + 4 * i, epoch)
    store_i64(c.control_timestamp_ms + 8 * i, timestamp)


@inner_kernel
def _put_batch(at: int, i: int, c: ColumnAddresses) -> None:
    base_offset = load_be64(at)
    attributes = load_be16(at + field.ATTRIBUTES)
    store_i64(c.base_offset + 8 * i, base_offset)
    store_i64(c.last_offset + 8 * i, base_offset + load_be32(at + field.LAST_OFFSET_DELTA))
    store_i64(c.base_timestamp_ms + 8 * i, load_be64(at + field.BASE_TIMESTAMP))
    store_i64(c.max_timestamp_ms + 8 * i, load_be64(at + field.MAX_TIMESTAMP))
    store_i64(c.producer_id + 8 * i, load_be64(at + field.PRODUCER_ID))
    store_i32(c.leader_epoch + 4 * i, load_be32(at + field.LEADER_EPOCH))
    store_i32(c.attributes + 4 * i, attributes)
    store_i32(c.producer_epoch + 4 * i, load_be16(at + field.PRODUCER_EPOCH))
    store_i32(c.base_sequence + 4 * i, load_be32(at + field.BASE_SEQUENCE))
    store_i32(c.count + 4 * i, load_be32(at + field.COUNT))
    _put_control(at, i, attributes, c)


@inner_kernel
def _put_legacy(at: int, i: int, magic: int, c: ColumnAddresses) -> None:
    offset = load_be64(at)
    attributes = load_u8(at + _LEGACY_AT_ATTRIBUTES)
    timestamp = load_be64(at + _LEGACY_AT_TIMESTAMP) if magic == 1 else np.int64(-1)
    store_i64(c.base_offset + 8 * i, offset)
    store_i64(c.last_offset + 8 * i, offset)
    store_i64(c.base_timestamp_ms + 8 * i, timestamp)
    store_i64(c.max_timestamp_ms + 8 * i, timestamp)
    store_i64(c.producer_id + 8 * i, -1)
    store_i32(c.leader_epoch + 4 * i, -1)
    store_i32(c.attributes + 4 * i, attributes)
    store_i32(c.producer_epoch + 4 * i, -1)
    store_i32(c.base_sequence + 4 * i, -1)
    store_i32(c.count + 4 * i, -1 if attributes & _CODEC else 1)
    store_i32(c.control_type + 4 * i, -1)
    store_i32(c.coordinator_epoch + 4 * i, -1)
    store_i64(c.control_timestamp_ms + 8 * i, -1)


@kernel
def scan_window(
    base: int, end: int, stop: int, check_crc: int, state: int, c: ColumnAddresses, crcs: CrcSources
) -> None:
    """Scans from `state[POSITION]` until there is a reason to stop.

    `end` is the number of bytes at address `base`. No batch is started at position `stop` or later.
    `state` is the address of `STATE_SIZE` int64s.
    """
    position = load_i64(state + 8 * POSITION)
    i = np.int64(0)
    reason = -1
    while reason < 0:
        at = base + position
        if position >= end:
            reason = FILE_END
        elif position >= stop:
            reason = LIMIT
        elif i >= c.capacity:
            reason = WINDOW_FULL
        else:
            reason = head_problem(at, base + end)
        if reason < 0 and check_crc and batch_crc(at, crcs) != stored_crc(at):
            reason = BAD_CRC
        if reason >= 0:
            break
        size = load_be32(at + field.LENGTH) + OVERHEAD
        magic = load_u8(at + field.MAGIC)
        store_i64(c.position + 8 * i, position)
        store_i32(c.size + 4 * i, size)
        store_i32(c.magic + 4 * i, magic)
        store_i64(c.crc + 8 * i, stored_crc(at))
        if magic == 2:
            _put_batch(at, i, c)
        else:
            _put_legacy(at, i, magic, c)
        position += size
        i += 1
    store_i64(state + 8 * POSITION, position)
    store_i64(state + 8 * COUNT, i)
    store_i64(state + 8 * REASON, reason)


@inner_kernel
def _is_plausible(at: int) -> bool:
    """Whether the fields of a possible batch are valid: a cheap test before its checksum."""
    if load_be64(at) < 0:
        return False
    magic = load_u8(at + field.MAGIC)
    if magic == 2:
        attributes = load_be16(at + field.ATTRIBUTES)
        count, last = load_be32(at + field.COUNT), load_be32(at + field.LAST_OFFSET_DELTA)
        known = attributes & ~layout.BATCH_KNOWN_ATTRIBUTES == 0 and attributes & _CODEC <= layout.BATCH_CODEC_MAX
        return known and 0 <= count <= last + 1 and load_be64(at + field.PRODUCER_ID) >= -1
    attributes = load_u8(at + _LEGACY_AT_ATTRIBUTES)
    largest = _LOG_APPEND_TIME | _CODEC if magic == 1 else _CODEC
    if attributes & _CODEC > layout.LEGACY_CODEC_MAX or attributes > largest:
        return False
    size, fixed = load_be32(at + field.LENGTH), size_min(magic)
    at += OVERHEAD + fixed - 8
    key_size = load_be32(at)
    if not -1 <= key_size <= size - fixed:
        return False
    return max(key_size, 0) + max(load_be32(at + 4 + max(key_size, 0)), 0) + fixed == size


@kernel
def find_batch(base: int, position: int, end: int, budget: int, crcs: CrcSources) -> tuple[int, int]:
    """The first position from `position` on where a valid batch with a correct CRC begins, or -1,
    and what is left of `budget`.

    `budget` bounds the bytes over which CRCs are computed, because bytes that look like large
    batches everywhere would otherwise take quadratic time. A candidate larger than the remaining
    budget is skipped.
    """
    while end - position > SIZE_UP_TO_MAGIC:
        at = base + position
        if load_u8(at + field.MAGIC) <= 2 and head_problem(at, base + end) < 0 and _is_plausible(at):
            size = load_be32(at + field.LENGTH)
            if size <= budget:
                budget -= size
                if batch_crc(at, crcs) == stored_crc(at):
                    return position, budget
        position += 1
    return -1, budget
