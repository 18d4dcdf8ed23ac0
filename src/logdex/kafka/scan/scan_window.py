"""Fills a window with the batches of a part of a log: by the scan kernel, or, for a few batches,
without Numba, which takes longer to load (`logdex.kernels.compiled`)."""

from __future__ import annotations

from logdex.io.mapped.byte_array import ByteArray
from logdex.kafka.scan.plain_scan import Row, problem_of, row_of
from logdex.kernels.common.crc32c import CrcSources
from logdex.kernels.compiled import add_plain_work, is_plain_quicker
from logdex.kernels.kafka import batch_scan as kernel
from logdex.kernels.kafka.batch_columns import BatchColumns, Int64s
from logdex.layout.kafka import LOG_OVERHEAD_SIZE_BYTES
from logdex.primitives.crc32c import crc32c

_PLAIN_BATCHES_MAX, _PLAIN_RECORDS = 16, 256
"""A window ends behind so many batches or records: whoever wants a few records reads few others."""
_PLAIN_BATCH_US = 50
_HEAD_SIZE = kernel.SIZE_UP_TO_MAGIC + 1


def scan_window(
    data: ByteArray,
    stop: int,
    check_crc: bool,
    state: Int64s,
    columns: BatchColumns,
    addresses: kernel.ColumnAddresses,
    crcs: CrcSources,
) -> None:
    """Fills `columns`, whose arrays are at `addresses`, with the batches of `data` that begin at
    `state[POSITION]` or later and before `stop`. Puts the position, the number of batches and the
    reason to stop into `state`."""
    if is_plain_quicker():
        _scan_plain(data, stop, check_crc, state, columns)
        add_plain_work(_PLAIN_BATCH_US * int(state[kernel.COUNT]))
    else:
        kernel.scan_window(data.ctypes.data, data.size, stop, int(check_crc), state.ctypes.data, addresses, crcs)


def _scan_plain(data: ByteArray, stop: int, check_crc: bool, state: Int64s, columns: BatchColumns) -> None:
    at, count, records = int(state[kernel.POSITION]), 0, 0
    most = min(len(columns.position), _PLAIN_BATCHES_MAX)
    while True:
        reason: int | None
        if at >= data.size:
            reason = kernel.FILE_END
        elif at >= stop:
            reason = kernel.LIMIT
        elif count >= most or records >= _PLAIN_RECORDS:
            reason = kernel.WINDOW_FULL
        else:
            size = int.from_bytes(data[at + 8 : at + 12].tobytes(), "big", signed=True) + LOG_OVERHEAD_SIZE_BYTES
            raw = data[at : at + max(size, _HEAD_SIZE)].tobytes()
            reason = problem_of(raw, 0, crc32c if check_crc else None)
        if reason is not None:
            break
        _put_row(columns, count, row_of(raw, at))
        at += size
        records += int(columns.count[count])
        count += 1
    state[kernel.POSITION], state[kernel.COUNT], state[kernel.REASON] = at, count, reason


def _put_row(columns: BatchColumns, place: int, row: Row) -> None:
    for name, value in zip(BatchColumns._fields, row, strict=True):
        getattr(columns, name)[place] = value
