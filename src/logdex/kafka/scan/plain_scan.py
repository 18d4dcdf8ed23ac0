"""The plain twin of the batch scan kernel: it returns the same rows, read field by field.

Property tests compare the kernel with it. Programs use `logdex.kafka.scan.scanner`, which reads
only a few batches in this way.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable

from logdex.kafka.batch.record_format import wrapped_long
from logdex.kernels.kafka import batch_scan as kernel
from logdex.layout import kafka as layout
from logdex.primitives.crc32c import crc32c_by_table
from logdex.primitives.varint import read_varlong

Row = tuple[int, ...]
"""One batch: the fields of `logdex.kernels.kafka.batch_columns.BatchColumns`, in their order."""


def scan_plain(data: bytes, start: int = 0, *, check_crc: bool = True) -> tuple[list[Row], int, int]:
    """Returns the rows of the batches from `start` on, the position where the scan stopped, and the
    kernel's code for the reason."""
    rows: list[Row] = []
    at = start
    while True:
        reason = problem_of(data, at, crc32c_by_table if check_crc else None)
        if reason is not None:
            return rows, at, reason
        size = layout.LOG_OVERHEAD_SIZE_BYTES + struct.unpack_from(">i", data, at + 8)[0]
        rows.append(row_of(data[at : at + size], at))
        at += size


def row_of(raw: bytes, at: int) -> Row:
    """Returns the row of a whole batch, which is at position `at` of its log."""
    return _batch(raw, at) if raw[16] == 2 else _legacy(raw, at)


def problem_of(data: bytes, at: int, crc: Callable[[bytes], int] | None) -> int | None:
    """Returns the kernel's code for why no whole batch is at a position, or None if there is one.
    Its checksum is checked if `crc`, a function for CRC-32C, is given."""
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
    if crc is None:
        return None
    whole = data[at : at + 12 + size]
    if magic == 2:
        good = struct.unpack_from(">I", whole, 17)[0] == crc(whole[21:])
    else:
        good = struct.unpack_from(">I", whole, 12)[0] == zlib.crc32(whole[16:])
    return None if good else kernel.BAD_CRC


def _batch(raw: bytes, at: int) -> Row:
    fields = layout.RECORD_BATCH.struct.unpack_from(raw)
    offset, _, epoch, magic, crc, attributes, last, base_ms, max_ms, producer, producer_epoch, sequence, count = fields
    kind, coordinator_epoch, control_ms = _control(raw, attributes, base_ms, max_ms, count)
    return (
        at,
        offset,
        wrapped_long(offset + last),
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


def _legacy(raw: bytes, at: int) -> Row:
    offset, _, crc, magic, attributes = layout.LEGACY_RECORD_V0.struct.unpack_from(raw)
    attributes &= 0xFF
    ms = struct.unpack_from(">q", raw, 18)[0] if magic == 1 else -1
    count = -1 if attributes & layout.BATCH_CODEC_MASK else 1
    return (at, offset, offset, ms, ms, -1, -1, crc, len(raw), -1, magic, attributes, -1, -1, count, -1, -1)


def _control(raw: bytes, attributes: int, base_ms: int, max_ms: int, count: int) -> tuple[int, int, int]:
    """Returns the type, coordinator epoch and timestamp of a control batch's first record, each -1
    if absent."""
    if not attributes & layout.BATCH_CONTROL or attributes & layout.BATCH_CODEC_MASK or count <= 0:
        return -1, -1, -1
    try:
        _, at = read_varlong(raw, layout.RECORD_BATCH.size_bytes, len(raw))
        delta, at = read_varlong(raw, at + 1, len(raw))
        _, at = read_varlong(raw, at, len(raw))
        key_size, at = read_varlong(raw, at, len(raw))
    except ValueError:
        return -1, -1, -1
    if not 4 <= key_size <= len(raw) - at:
        return -1, -1, -1
    kind = struct.unpack_from(">h", raw, at + 2)[0]
    control_ms = max_ms if attributes & layout.BATCH_LOG_APPEND_TIME else wrapped_long(base_ms + delta)
    epoch = -1
    try:
        value_size, at = read_varlong(raw, at + key_size, len(raw))
        if kind in (layout.CONTROL_ABORT, layout.CONTROL_COMMIT) and 6 <= value_size <= len(raw) - at:
            epoch = struct.unpack_from(">i", raw, at + 2)[0]
    except ValueError:
        pass  # without a value there is no epoch
    return kind, epoch, control_ms


def find_next_plain(data: bytes, position: int) -> int:
    """Returns the first position after `position` where a whole batch with a right checksum and
    plausible fields begins, or -1."""
    for at in range(position + 1, len(data) - 17):
        if problem_of(data, at, crc32c_by_table) is None and _is_plausible(data, at):
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
