"""The plain twin of the batch scan kernel: the same rows, read one field after the other.

Kept as the truth that the kernel is held against, by property tests; `logdex.kafka.scan` is what runs.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass
from functools import cache

from logdex import layout
from logdex.kernels import batch_scan as kernel

_POLYNOMIAL = 0x82F63B78
_INT64 = 1 << 64


@dataclass(frozen=True, slots=True)
class PlainBatch:
    """One batch; the fields of `logdex.kernels.batch_columns.BatchColumns`."""

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


@cache
def _table() -> tuple[int, ...]:
    values = []
    for value in range(256):
        for _ in range(8):
            value = value >> 1 ^ (_POLYNOMIAL if value & 1 else 0)
        values.append(value)
    return tuple(values)


def crc32c_plain(data: bytes) -> int:
    """CRC-32C, a byte at a time.

    >>> hex(crc32c_plain(b"123456789"))
    '0xe3069283'
    """
    table, crc = _table(), 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ table[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


def scan_plain(data: bytes, start: int = 0, *, check_crc: bool = True) -> tuple[list[PlainBatch], int, int]:
    """Rows of the batches from `start` on, the byte where the scan stopped, and the kernel's reason for it."""
    rows: list[PlainBatch] = []
    at = start
    while True:
        reason = _problem(data, at, check_crc)
        if reason is not None:
            return rows, at, reason
        size = layout.LOG_OVERHEAD_SIZE_BYTES + struct.unpack_from(">i", data, at + 8)[0]
        rows.append(_batch(data[at : at + size], at) if data[at + 16] == 2 else _legacy(data[at : at + size], at))
        at += size


def _problem(data: bytes, at: int, check_crc: bool) -> int | None:
    if at >= len(data):
        return kernel.FILE_END
    if len(data) - at <= 17:
        return kernel.TORN
    size = struct.unpack_from(">i", data, at + 8)[0]
    if size < 14:
        return kernel.BAD_SIZE
    if at + 12 + size > len(data):
        return kernel.TORN
    magic = data[at + 16]
    if magic > 2:
        return kernel.BAD_MAGIC
    if size < (14, 22, 49)[magic]:
        return kernel.BAD_SIZE
    if not check_crc:
        return None
    whole = data[at : at + 12 + size]
    if magic == 2:
        good = struct.unpack_from(">I", whole, 17)[0] == crc32c_plain(whole[21:])
    else:
        good = struct.unpack_from(">I", whole, 12)[0] == zlib.crc32(whole[16:])
    return None if good else kernel.BAD_CRC


def _wrapped(value: int) -> int:
    """`value` as a Java long would hold it."""
    return (value + (1 << 63)) % _INT64 - (1 << 63)


def _batch(raw: bytes, at: int) -> PlainBatch:
    fields = layout.RECORD_BATCH.struct.unpack_from(raw)
    offset, _, epoch, magic, crc, attributes, last, base_ms, max_ms, producer, producer_epoch, sequence, count = fields
    kind, coordinator_epoch, control_ms = _control(raw, attributes, base_ms, max_ms, count)
    return PlainBatch(
        at,
        offset,
        _wrapped(offset + last),
        base_ms,
        max_ms,
        producer,
        control_ms,
        crc,
        len(raw),
        epoch,
        magic,
        attributes,
        producer_epoch,
        sequence,
        count,
        kind,
        coordinator_epoch,
    )


def _legacy(raw: bytes, at: int) -> PlainBatch:
    offset, _, crc, magic, attributes = layout.LEGACY_RECORD_V0.struct.unpack_from(raw)
    attributes &= 0xFF
    ms = struct.unpack_from(">q", raw, 18)[0] if magic == 1 else -1
    count = -1 if attributes & layout.BATCH_CODEC_MASK else 1
    return PlainBatch(at, offset, offset, ms, ms, -1, -1, crc, len(raw), -1, magic, attributes, -1, -1, count, -1, -1)


def _control(raw: bytes, attributes: int, base_ms: int, max_ms: int, count: int) -> tuple[int, int, int]:
    """Type, coordinator epoch and timestamp of a control batch's first record, -1 for what there is not."""
    if not attributes & layout.BATCH_CONTROL or attributes & layout.BATCH_CODEC_MASK or count <= 0:
        return -1, -1, -1
    try:
        _, at = _varint(raw, layout.RECORD_BATCH.size_bytes)
        delta, at = _varint(raw, at + 1)
        _, at = _varint(raw, at)
        key_size, at = _varint(raw, at)
    except IndexError:
        return -1, -1, -1
    if not 4 <= key_size <= len(raw) - at:
        return -1, -1, -1
    kind = struct.unpack_from(">h", raw, at + 2)[0]
    control_ms = max_ms if attributes & layout.BATCH_LOG_APPEND_TIME else _wrapped(base_ms + delta)
    epoch = -1
    try:
        value_size, at = _varint(raw, at + key_size)
        if kind in (layout.CONTROL_ABORT, layout.CONTROL_COMMIT) and 6 <= value_size <= len(raw) - at:
            epoch = struct.unpack_from(">i", raw, at + 2)[0]
    except IndexError:
        pass  # no value: no epoch
    return kind, epoch, control_ms


def _varint(raw: bytes, at: int) -> tuple[int, int]:
    """(value, position behind it) of a zigzag number of at most ten bytes; IndexError where there is none."""
    value = 0
    for i in range(10):
        byte = raw[at + i]
        value |= (byte & 0x7F) << 7 * i
        if byte < 0x80:
            value %= _INT64
            return value >> 1 ^ -(value & 1), at + i + 1
    raise IndexError("a varint of more than ten bytes")


def find_next_plain(data: bytes, position: int) -> int:
    """The first position behind `position` at which a whole batch with a right checksum and sound fields begins."""
    for at in range(position + 1, len(data) - 17):
        if _problem(data, at, check_crc=True) is None and _is_plausible(data, at):
            return at
    return -1


def _is_plausible(data: bytes, at: int) -> bool:
    size: int = struct.unpack_from(">i", data, at + 8)[0] + layout.LOG_OVERHEAD_SIZE_BYTES
    raw = data[at : at + size]
    if raw[16] == 2:
        fields = layout.RECORD_BATCH.struct.unpack_from(raw)
        offset, attributes, last, producer, count = (int(fields[i]) for i in (0, 5, 6, 9, 12))
        if attributes & ~0x7F or attributes & layout.BATCH_CODEC_MASK > 4:
            return False
        return offset >= 0 and 0 <= count <= last + 1 and producer >= -1
    start: int = 26 if raw[16] else 18
    if raw[17] & layout.BATCH_CODEC_MASK > 3 or raw[17] > (15 if raw[16] else 7) or raw[0] > 127:
        return False
    key_size: int = struct.unpack_from(">i", raw, start)[0]
    if key_size < -1 or key_size > size - start - 8:
        return False
    value_size: int = struct.unpack_from(">i", raw, start + 4 + max(key_size, 0))[0]
    return start + 8 + max(key_size, 0) + max(value_size, 0) == size
