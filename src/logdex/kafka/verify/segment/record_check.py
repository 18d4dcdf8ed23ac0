"""Checks that the records of a window's batches can be decoded and that their offsets rise within
each batch.

The batches of a window go through the decode kernel all at once. A window with batches of magic 0
or 1 is decoded batch by batch.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import numpy.typing as npt

from logdex import limits
from logdex.errors import CorruptError
from logdex.frames.arrow import pa
from logdex.kafka.batch.record_batch import decode_batch
from logdex.kafka.columns.record_decoder import OnBadBatch, RecordDecoder
from logdex.kafka.scan.scanner import BatchWindow
from logdex.kafka.verify.checks import RESTORE_BATCH, Collector
from logdex.kernels.kafka.batch_columns import BatchColumns, Int64s, pick_columns
from logdex.kernels.kafka.batch_scan import ColumnAddresses
from logdex.layout.kafka import MAGIC_V2

_WINDOW_BYTES = 16 << 20


def check_records(window: BatchWindow, last_offset: int, out: Collector) -> int:
    """Reports findings for the batches whose records are wrong. Returns the number of records.
    `last_offset` is that of the batch before the window, or the one before the segment's base."""
    if (window.columns.magic < MAGIC_V2).any():
        before = [last_offset, *window.columns.last_offset[:-1].tolist()]
        return sum(_check_batch(window, place, before[place], out) for place in range(window.count))
    bad: dict[int, CorruptError] = {}
    columns = window.columns

    def refuse(error: CorruptError) -> None:
        place = int(np.searchsorted(columns.position, error.position, "right")) - 1
        bad[place] = error

    offsets = _column(_decode(window, columns, ("offset",), refuse), "offset")
    counts = np.maximum(columns.count.astype(np.int64), 0)
    counts[list(bad)] = 0
    if counts.sum() == len(offsets):
        _check_offsets(window, offsets, counts, out)
    for place, error in bad.items():
        _tell(window, place, error.description, error.expected, error.found, out)
    return len(offsets)


def offsets_of_largest_times(window: BatchWindow, batches: npt.NDArray[np.intp]) -> Int64s:
    """Returns the offset of the first record with its batch's largest timestamp, per batch at
    `batches` in the window; -1 if its records cannot be decoded or none has it."""
    wanted = np.zeros(window.count, np.bool_)
    wanted[batches] = True
    columns = pick_columns(window.columns, wanted)
    parts = _decode(window, columns, ("offset", "timestamp_ms"), lambda error: None)
    offsets, times = _column(parts, "offset"), _column(parts, "timestamp_ms")
    batch = np.minimum(np.searchsorted(columns.last_offset, offsets), len(columns.position) - 1)
    has_it = times == columns.max_timestamp_ms[batch]
    having, first = np.unique(batch[has_it], return_index=True)
    found = np.full(window.count, -1, np.int64)
    found[np.flatnonzero(wanted)[having]] = offsets[has_it][first]
    return found[batches]


def _decode(
    window: BatchWindow, columns: BatchColumns, names: tuple[str, ...], refuse: OnBadBatch
) -> list[pa.RecordBatch]:
    """Returns the records of some batches of a window as Arrow batches."""
    decoder = RecordDecoder(
        window.data,
        window.path,
        names,
        skip_control=False,
        window_bytes=_WINDOW_BYTES,
        on_bad_batch=refuse,
        size_bytes_max=limits.BATCH_DECOMPRESSED_SIZE_BYTES_MAX,
    )
    columns = BatchColumns._make(np.ascontiguousarray(column) for column in columns)
    count = len(columns.position)
    addresses = ColumnAddresses._make([*(column.ctypes.data for column in columns), count])
    return [*decoder.decode(columns, addresses, count), *decoder.flush()]


def _column(parts: list[pa.RecordBatch], name: str) -> Int64s:
    return np.concatenate([np.empty(0, np.int64), *(part.column(name).to_numpy() for part in parts)])


def _check_offsets(window: BatchWindow, offsets: Int64s, counts: Int64s, out: Collector) -> None:
    columns = pick_columns(window.columns, slice(window.count))
    batch = np.repeat(np.arange(window.count), counts)
    wrong = (offsets < columns.base_offset[batch]) | (offsets > columns.last_offset[batch])
    wrong[1:] |= (offsets[1:] <= offsets[:-1]) & (batch[1:] == batch[:-1])
    if not wrong.any():
        return
    places: npt.NDArray[np.intp] = np.unique(batch[wrong])
    for place in out.some("batch-records", places):
        found = offsets[batch == place]
        expected = f"rising from {int(columns.base_offset[place])} to {int(columns.last_offset[place])}"
        _tell(window, place, "the records' offsets do not rise within the batch", expected, _few(found), out)


def _few(offsets: Int64s) -> str:
    shown = ", ".join(map(str, offsets[:8].tolist()))
    return f"{shown}, …" if len(offsets) > 8 else shown


def _check_batch(window: BatchWindow, place: int, before: int, out: Collector) -> int:
    """Checks a single batch without the kernel and returns its number of records. A wrapper of
    magic 0 or 1 may hold any rising offsets up to its own that are above those `before` it: its
    header, by which batches are put in order, does not have its first one."""
    position = int(window.columns.position[place])
    size = int(window.columns.size[place])
    raw = window.data[position : position + size].tobytes()
    try:
        batch, _ = decode_batch(raw, path=window.path, check_crc=False)
        offsets = [record.offset for record in batch.records()]
    except CorruptError as error:
        _tell(window, place, error.description, error.expected, error.found, out)
        return 0
    last = int(window.columns.last_offset[place])
    if any(b <= a for a, b in pairwise(offsets)) or (offsets and offsets[-1] > last):
        found = _few(np.array(offsets, np.int64))
        _tell(window, place, "the records' offsets do not rise within the batch", f"rising to {last}", found, out)
    elif batch.magic < MAGIC_V2 and offsets and offsets[0] <= before < last:
        message = "the records' offsets begin before the end of what precedes the batch"
        _tell(window, place, message, f"at least {before + 1}", offsets[0], out)
    return len(offsets)


def _tell(window: BatchWindow, place: int, message: str, expected: object, found: object, out: Collector) -> None:
    out.find(
        "batch-records",
        window.path,
        int(window.columns.position[place]),
        f"offset {int(window.columns.base_offset[place])}: {message}",
        expected="" if expected is None else expected,
        found="" if found is None else found,
        mend=RESTORE_BATCH,
    )
