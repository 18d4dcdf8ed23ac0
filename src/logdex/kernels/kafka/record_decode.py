"""The record decode kernel: decodes batches of magic 2, compressed or not, into buffers of Arrow
columns.

Twin: `RecordBatch.records` of `logdex.kafka.batch.record_batch`. It is fast because outputs are raw
addresses, and a batch's state is in locals. Numbers are read without a check, since `SLACK` bytes
after every batch's records are readable; the position is compared with the record's end before that
length is used. Keys and values are copied in steps that may write up to `SLACK` bytes too many.
Null bits are collected in locals until a byte is complete. A batch's output counts only once all of
it is valid, so that it can be dropped at any byte.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from logdex import limits
from logdex.kernels.common.memory import copy_bytes, load_i32, load_i64, load_u8, store_i32, store_i64, store_u8
from logdex.kernels.common.vectors import copy_64
from logdex.kernels.compiled import inner_kernel, kernel
from logdex.kernels.kafka.batch_scan import ColumnAddresses
from logdex.kernels.kafka.decompress import inflate_lz4, inflate_zstd
from logdex.layout import kafka as layout

SLACK = 64
"""Readable bytes after the records of a batch, and writable bytes after each output."""

# Why a call of the kernel stopped: `state[REASON]`.
DONE, FULL, HEADERS_FULL, PLEASE_GIVE, LEGACY, BAD = range(6)

# The elements of `state` (int64): the next batch, the reason, then counts of the output.
(
    NEXT,
    REASON,
    ROWS,
    KEY_BYTES,
    VALUE_BYTES,
    HEADERS,
    HEADER_KEY_BYTES,
    HEADER_VALUE_BYTES,
    KEY_NULLS,
    VALUE_NULLS,
    HEADER_NULLS,
    GIVEN,
    GIVEN_SIZE,
    NEED_ROWS,
    NEED_BYTES,
) = range(15)
STATE_SIZE = 16
"""`GIVEN` is the address of batch NEXT's decompressed records (0: none), `GIVEN_SIZE` bytes and
`SLACK`."""

_HEADER_SIZE = layout.RECORD_BATCH.size_bytes
_CODEC = layout.BATCH_CODEC_MASK
_LOG_APPEND_TIME = layout.BATCH_LOG_APPEND_TIME
_CONTROL = layout.BATCH_CONTROL
_NONE, _LZ4, _ZSTD = 0, 3, 4
_CODEC_MAX = 4
_RECORD_SIZE_MIN = limits.RECORD_SIZE_BYTES_MIN
_RECORDS_PER_BYTE_MAX = limits.BATCH_RECORDS_PER_BYTE_MAX
_COPY_STEP = 64
_LONG_COPY = 512


class RecordTargets(NamedTuple):
    """The addresses of the outputs (0: not wanted), and their room.

    `…_ends` are Arrow's int32 offsets, `…_valid` its bitmaps. `data_room` is the size of each data
    buffer.
    """

    offset: int
    timestamp_ms: int
    sequence: int
    key_ends: int
    key_valid: int
    key_data: int
    value_ends: int
    value_valid: int
    value_data: int
    header_ends: int
    header_key_ends: int
    header_key_data: int
    header_value_ends: int
    header_value_valid: int
    header_value_data: int
    rows: int
    data_room: int
    headers: int


class Sources(NamedTuple):
    """The input: `base` is the address of the file, of which bytes before `readable_end` can be
    read.

    `arena` has `arena_room` bytes and `SLACK` for a decompressed batch. `skip_control` is 1 or 0.
    """

    base: int
    readable_end: int
    arena: int
    arena_room: int
    lz4_function: int
    zstd_function: int
    zstd_context: int
    skip_control: int


@inner_kernel
def _copy(target: int, source: int, size: int) -> None:
    """Copies `size` bytes, and up to `_COPY_STEP` - 1 more."""
    if size > _LONG_COPY:
        copy_bytes(target, source, size)
        return
    if size <= 0:
        return
    copy_64(target, source)  # no loop, as most are this short
    if size > _COPY_STEP:
        copy_64(target + _COPY_STEP, source + _COPY_STEP)
    done = np.int64(2 * _COPY_STEP)
    while done < size:
        copy_64(target + done, source + done)
        done += _COPY_STEP


@inner_kernel
def _long_number(at: int, past: int, bytes_max: int) -> tuple[int, int]:
    """(zigzag number of up to `bytes_max` bytes, address after it), or (0, `past`) if it is
    longer."""
    value, shift = np.uint64(0), np.uint64(0)
    for k in range(bytes_max):
        byte = np.uint64(load_u8(at + k))
        value |= (byte & np.uint64(0x7F)) << shift
        if byte < np.uint64(0x80):
            if bytes_max == 5:
                value &= np.uint64(0xFFFFFFFF)
            return np.int64(value >> np.uint64(1)) ^ -np.int64(value & np.uint64(1)), at + k + 1
        shift += np.uint64(7)
    return np.int64(0), past


@inner_kernel
def _number(at: int, past: int, bytes_max: int) -> tuple[int, int]:
    """As `_long_number`, without a loop for one and two bytes. The caller checks the address."""
    low = load_u8(at)
    if low < 0x80:
        return (low >> 1) ^ -(low & 1), at + 1
    high = load_u8(at + 1)
    if high < 0x80:
        value = (low & 0x7F) | high << 7
        return (value >> 1) ^ -(value & 1), at + 2
    return _long_number(at, past, bytes_max)


@inner_kernel
def _put_bit(bitmap: int, row: int, bit: int) -> None:
    """Sets bit `row` of a bitmap that is written in order, and clears later bits of its byte."""
    at, place = bitmap + (row >> 3), row & 7
    before = load_u8(at) & ((1 << place) - 1)
    store_u8(at, before | bit << place)


@inner_kernel
def _bits_before(row: int, bitmap: int) -> int:
    """The bits below bit `row` in its byte of a bitmap (0: none)."""
    return load_u8(bitmap + (row >> 3)) & ((1 << (row & 7)) - 1) if bitmap != 0 else np.int64(0)


@inner_kernel
def _put_bits(row: int, key_bits: int, value_bits: int, t: RecordTargets) -> None:
    """Stores the byte with bit `row` of both bitmaps."""
    if t.key_valid != 0:
        store_u8(t.key_valid + (row >> 3), key_bits)
    if t.value_valid != 0:
        store_u8(t.value_valid + (row >> 3), value_bits)


@inner_kernel
def _put_bytes(row: int, at: int, stored: int, ends: int, data: int, used: int) -> int:
    """Appends `stored` bytes at address `at` as `row`, after `used` bytes; returns the bytes then
    used."""
    if ends == 0:
        return used
    _copy(data + used, at, stored)
    store_i32(ends + 4 * row + 4, used + stored)
    return used + stored


@inner_kernel
def _put_numbers(row: int, offset: int, timestamp_ms: int, base_sequence: int, delta: int, t: RecordTargets) -> None:
    if t.offset != 0:
        store_i64(t.offset + 8 * row, offset)
    if t.timestamp_ms != 0:
        store_i64(t.timestamp_ms + 8 * row, timestamp_ms)
    if t.sequence != 0:
        store_i32(t.sequence + 4 * row, (base_sequence + delta) & 0x7FFFFFFF if base_sequence >= 0 else -1)


@inner_kernel
def _put_headers(at: int, end: int, past: int, count: int, t: RecordTargets, state: int) -> int:
    """Appends `count` headers from address `at` on.

    Returns the address after them, -1 for invalid headers, or -2 without room.
    """
    row = load_i64(state + 8 * HEADERS)
    key_bytes = load_i64(state + 8 * HEADER_KEY_BYTES)
    value_bytes = load_i64(state + 8 * HEADER_VALUE_BYTES)
    nulls = load_i64(state + 8 * HEADER_NULLS)
    if t.header_ends != 0 and row + count > t.headers:
        return -2
    for _ in range(count):
        size, at = _number(at, past, 5)
        if size < 0 or size > end - at:
            return -1
        key, at = at, at + size
        value_size, at = _number(at, past, 5)
        stored = max(value_size, 0)
        if at > end or stored > end - at:
            return -1
        if t.header_ends != 0:
            _copy(t.header_key_data + key_bytes, key, size)
            key_bytes += size
            store_i32(t.header_key_ends + 4 * row + 4, key_bytes)
            value_bytes = _put_bytes(row, at, stored, t.header_value_ends, t.header_value_data, value_bytes)
            _put_bit(t.header_value_valid, row, np.int64(value_size >= 0))
            nulls += value_size < 0
            row += 1
        at += stored
    store_i64(state + 8 * HEADERS, row)
    store_i64(state + 8 * HEADER_KEY_BYTES, key_bytes)
    store_i64(state + 8 * HEADER_VALUE_BYTES, value_bytes)
    store_i64(state + 8 * HEADER_NULLS, nulls)
    return at


@inner_kernel
def _put_header_end(row: int, t: RecordTargets, state: int) -> None:
    if t.header_ends != 0:
        store_i32(t.header_ends + 4 * row + 4, load_i64(state + 8 * HEADERS))


@inner_kernel
def _put_records(at: int, stop: int, count: int, batch: int, c: ColumnAddresses, t: RecordTargets, state: int) -> int:
    """Appends the `count` records between addresses `at` and `stop`; returns -1 or the reason not
    to."""
    past = stop + 1
    row = load_i64(state + 8 * ROWS)
    last_row = row + count
    key_bytes, value_bytes = load_i64(state + 8 * KEY_BYTES), load_i64(state + 8 * VALUE_BYTES)
    key_nulls, value_nulls = load_i64(state + 8 * KEY_NULLS), load_i64(state + 8 * VALUE_NULLS)
    base_offset = load_i64(c.base_offset + 8 * batch)
    base_sequence = load_i32(c.base_sequence + 4 * batch)
    appended = load_i32(c.attributes + 4 * batch) & _LOG_APPEND_TIME
    base_ms = load_i64((c.max_timestamp_ms if appended else c.base_timestamp_ms) + 8 * batch)
    created = np.int64(0) if appended else np.int64(-1)
    key_bits, value_bits = _bits_before(row, t.key_valid), _bits_before(row, t.value_valid)
    while row < last_row:
        size, at = _number(at, past, 5)
        if size < 0 or size > stop - at:
            return BAD
        end = at + size
        delta_ms, at = _number(at + 1, past, 10)
        delta, at = _number(at, past, 5)
        _put_numbers(row, base_offset + delta, base_ms + (delta_ms & created), base_sequence, delta, t)
        key_size, at = _number(at, past, 5)
        stored = max(key_size, 0)
        if stored > end - at:
            return BAD
        key_bytes = _put_bytes(row, at, stored, t.key_ends, t.key_data, key_bytes)
        key_bits |= np.int64(key_size >= 0) << (row & 7)
        key_nulls += key_size < 0
        value_size, at = _number(at + stored, past, 5)
        stored = max(value_size, 0)
        if stored > end - at:
            return BAD
        value_bytes = _put_bytes(row, at, stored, t.value_ends, t.value_data, value_bytes)
        value_bits |= np.int64(value_size >= 0) << (row & 7)
        value_nulls += value_size < 0
        headers, at = _number(at + stored, past, 5)
        if headers < 0 or headers > end - at:
            return BAD
        if headers:
            at = _put_headers(at, end, past, headers, t, state)
        if at != end:
            return HEADERS_FULL if at == -2 else BAD
        _put_header_end(row, t, state)
        if row & 7 == 7:
            _put_bits(row, key_bits, value_bits, t)
            key_bits = value_bits = np.int64(0)
        row += 1
    if at != stop:
        return BAD
    _put_bits(row, key_bits, value_bits, t)
    store_i64(state + 8 * ROWS, row)
    store_i64(state + 8 * KEY_BYTES, key_bytes)
    store_i64(state + 8 * VALUE_BYTES, value_bytes)
    store_i64(state + 8 * KEY_NULLS, key_nulls)
    store_i64(state + 8 * VALUE_NULLS, value_nulls)
    return -1


@inner_kernel
def _find_records(batch: int, codec: int, c: ColumnAddresses, s: Sources, state: int) -> tuple[int, int]:
    """(address, size) of a batch's uncompressed records. Size -1: Python must decompress them."""
    given = load_i64(state + 8 * GIVEN)
    if given != 0:
        return given, load_i64(state + 8 * GIVEN_SIZE)
    source = s.base + load_i64(c.position + 8 * batch) + _HEADER_SIZE
    size = load_i32(c.size + 4 * batch) - _HEADER_SIZE
    if codec == _NONE:
        return source, size if source + size + SLACK <= s.readable_end else np.int64(-1)
    if codec == _LZ4:
        return s.arena, inflate_lz4(s.lz4_function, source, size, s.arena, s.arena_room)
    if codec == _ZSTD:
        return s.arena, inflate_zstd(s.zstd_function, s.zstd_context, source, size, s.arena, s.arena_room)
    return s.arena, np.int64(-1)


@inner_kernel
def _decode_batch(batch: int, c: ColumnAddresses, t: RecordTargets, s: Sources, state: int) -> int:
    """Appends one batch; returns -1, or the reason why nothing was appended."""
    if load_i32(c.magic + 4 * batch) < 2:
        return LEGACY
    attributes, count = load_i32(c.attributes + 4 * batch), load_i32(c.count + 4 * batch)
    if count == 0 or (s.skip_control and attributes & _CONTROL):
        return -1
    codec = attributes & _CODEC
    if codec > _CODEC_MAX or count < 0 or count > load_i32(c.size + 4 * batch) * _RECORDS_PER_BYTE_MAX:
        return BAD
    at, size = _find_records(batch, codec, c, s, state)
    if size < 0:
        return PLEASE_GIVE
    if count > size // _RECORD_SIZE_MIN:
        return BAD
    room = t.data_room - max(load_i64(state + 8 * KEY_BYTES), load_i64(state + 8 * VALUE_BYTES))
    room = min(room, t.data_room - load_i64(state + 8 * HEADER_KEY_BYTES))
    room = min(room, t.data_room - load_i64(state + 8 * HEADER_VALUE_BYTES))
    if load_i64(state + 8 * ROWS) + count > t.rows or size > room:
        store_i64(state + 8 * NEED_ROWS, count)
        store_i64(state + 8 * NEED_BYTES, size)
        store_i64(state + 8 * GIVEN, at)  # so that it is not decompressed again
        store_i64(state + 8 * GIVEN_SIZE, size)
        return FULL
    headers, header_keys = load_i64(state + 8 * HEADERS), load_i64(state + 8 * HEADER_KEY_BYTES)
    header_values, header_nulls = load_i64(state + 8 * HEADER_VALUE_BYTES), load_i64(state + 8 * HEADER_NULLS)
    reason = _put_records(at, at + size, count, batch, c, t, state)
    if reason >= 0:
        store_i64(state + 8 * HEADERS, headers)
        store_i64(state + 8 * HEADER_KEY_BYTES, header_keys)
        store_i64(state + 8 * HEADER_VALUE_BYTES, header_values)
        store_i64(state + 8 * HEADER_NULLS, header_nulls)
    return reason


@kernel
def decode_batches(batches: int, c: ColumnAddresses, t: RecordTargets, s: Sources, state: int) -> None:
    """Decodes the `batches` batches of the columns from `state[NEXT]` on, until there is a reason
    to stop.

    The reasons: DONE; FULL: the batch needs `NEED_ROWS` and `NEED_BYTES`; HEADERS_FULL: no room for
    its headers; PLEASE_GIVE: Python must decompress it; LEGACY: it has magic 0 or 1; BAD: its
    records are invalid. `state` is the address of `STATE_SIZE` int64s. If `state[ROWS]` is 0, the
    outputs start empty.
    """
    if load_i64(state + 8 * ROWS) == 0:
        for ends in (t.key_ends, t.value_ends, t.header_ends, t.header_key_ends, t.header_value_ends):
            if ends != 0:
                store_i32(ends, 0)
    batch = load_i64(state + 8 * NEXT)
    reason = DONE
    while batch < batches:
        problem = _decode_batch(batch, c, t, s, state)
        if problem >= 0:
            reason = problem
            break
        store_i64(state + 8 * GIVEN, 0)
        batch += 1
    store_i64(state + 8 * NEXT, batch)
    store_i64(state + 8 * REASON, reason)
