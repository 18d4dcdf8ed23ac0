"""Reads records as Arrow columns: checks, decompresses and decodes in one pass and bounded memory.

Reading ends where a scan ends (`logdex.kafka.scan.scanner`): at the end of the file, at an
incomplete last batch, or at zeros. A damaged batch raises a located error, or is passed to a
callback and skipped.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from logdex import limits
from logdex.errors import OffsetOrderError, UnreadableError, UsageError, VanishedError
from logdex.frames.arrow import pa
from logdex.io.env import DEFAULT_ENV, Env
from logdex.io.mapped.byte_array import ByteArray
from logdex.io.mapped.mapping import take_unreadable
from logdex.io.mapped.partly_loaded import loaded_part
from logdex.io.record_lock import Identity
from logdex.kafka.columns.read_order import OffsetRange, ReadOrder
from logdex.kafka.columns.record_decoder import OnBadBatch, RecordDecoder, Rows
from logdex.kafka.columns.record_window import RECORD_COLUMNS as RECORD_COLUMNS
from logdex.kafka.columns.record_window import record_schema as record_schema
from logdex.kafka.scan.resume import LogResume
from logdex.kafka.scan.scan_window import scan_window
from logdex.kafka.scan.scanner import EndKind, ScanEnd, end_at, reason_to_stop, whole_batches
from logdex.kernels.common.crc32c import crc_sources
from logdex.kernels.kafka import batch_scan
from logdex.kernels.kafka.batch_columns import BatchColumns, make_batch_columns

WINDOW_BYTES = 4 << 20
_SCAN_BATCHES = 4_096
_STEP_BYTES = 4 << 20
"""This much is checked at a time, so that decoding finds it in the processor's cache. A step costs
about 15 µs."""


def read_record_batches(
    path_or_data: str | bytes | ByteArray,
    *,
    start: int = 0,
    stop: int | None = None,
    columns: Iterable[str] | None = None,
    check_crc: bool = True,
    skip_control: bool = True,
    window_bytes: int = WINDOW_BYTES,
    on_bad_batch: OnBadBatch | None = None,
    decompressed_size_bytes_max: int = limits.BATCH_DECOMPRESSED_SIZE_BYTES_MAX,
    path: str | None = None,
    identity: Identity | None = None,
    offsets: OffsetRange | None = None,
    plain: bool = False,
    env: Env = DEFAULT_ENV,
) -> Generator[pa.RecordBatch, None, ScanEnd]:
    """Yields the records of the batches that begin in bytes [start, stop) as Arrow batches.

    The input is a .log file or bytes in memory, which errors call `path`. `start` is the first byte
    of a batch. `columns` selects columns of `RECORD_COLUMNS`, in the given order; others are not
    decoded. An Arrow batch has at most about `window_bytes` bytes of keys, of values and of
    headers, or one batch of the log. Memory is bounded by that and by the largest batch, which must
    not exceed `decompressed_size_bytes_max`. With `identity`, `VanishedError` is raised if another
    file has the path by now. With `offsets`, a batch whose offset contradicts its neighbours' or
    that range is damaged too. With `plain`, records that are decoded one by one come as
    `PlainRecords`, with all fields.

    Raises `CorruptError` (after the records before it) for a damaged batch. With `on_bad_batch`,
    that is called with the error, and reading resumes at the next good batch. Returns the scan's
    end: where and why the good batches end.
    """
    names = _names_of(columns)
    with _open_data(path_or_data, identity, env) as data:
        name = path_or_data if isinstance(path_or_data, str) else path or "<bytes>"
        decoder = RecordDecoder(
            data,
            name,
            names,
            skip_control=skip_control,
            window_bytes=window_bytes,
            on_bad_batch=on_bad_batch,
            size_bytes_max=decompressed_size_bytes_max,
            plain=plain,
        )
        resume = LogResume(data, name, env)
        order = None if offsets is None else ReadOrder(data, name, offsets, env)
        end = data.size if stop is None else stop
        return (yield from _read(data, name, start, end, check_crc, decoder, resume, order))


def _names_of(columns: Iterable[str] | None) -> Sequence[str]:
    names = RECORD_COLUMNS if columns is None else tuple(columns)
    unknown = [name for name in names if name not in RECORD_COLUMNS]
    if unknown:
        raise UsageError(f"there is no column {unknown[0]!r}", hint=f"choose from {', '.join(RECORD_COLUMNS)}")
    return names


@contextmanager
def _open_data(path_or_data: str | bytes | ByteArray, identity: Identity | None, env: Env) -> Iterator[ByteArray]:
    if isinstance(path_or_data, str):
        with env.map_read(path_or_data, partly=True) as mapped:
            if identity not in (None, mapped.identity):
                raise VanishedError("another file has this name by now", path=path_or_data)
            yield mapped.array
    elif isinstance(path_or_data, bytes):
        yield np.frombuffer(path_or_data, np.uint8)
    else:
        yield path_or_data


def _read(
    data: ByteArray,
    path: str,
    start: int,
    stop: int,
    check_crc: bool,
    decoder: RecordDecoder,
    resume: LogResume,
    order: ReadOrder | None,
) -> Generator[Rows, None, ScanEnd]:
    """Scans and decodes step by step; with a callback for errors, resumes after damage."""
    columns, crcs = make_batch_columns(_SCAN_BATCHES), crc_sources()
    addresses = batch_scan.ColumnAddresses._make([*(column.ctypes.data for column in columns), _SCAN_BATCHES])
    state = np.zeros(batch_scan.STATE_SIZE, np.int64)
    position = start
    while True:
        state[batch_scan.POSITION] = begin = position
        until = min(stop, position + _STEP_BYTES)
        part = loaded_part(data, position, stop)
        scan_window(part, until, check_crc, state, columns, addresses, crcs)
        position, count, reason = (int(place) for place in state)
        reason = reason_to_stop(data, part, position, until, reason)
        count, good = whole_batches(data, columns, count, begin, position)
        wrong = [] if order is None else order.find_wrong(columns, count, position, stop)
        if wrong:
            yield from _decode_others(decoder, columns, addresses, count, wrong)
        else:
            yield from decoder.decode(columns, addresses, count)
        is_on = reason == batch_scan.WINDOW_FULL or (reason == batch_scan.LIMIT and position < stop)
        if is_on and good == position:
            continue
        try:
            end = end_at(data, good, position, reason, path, unreadable_is_damage=decoder.goes_on)
        except UnreadableError:
            yield from decoder.flush()
            raise
        error = end.error if end.kind in (EndKind.CORRUPT, EndKind.TORN) else None
        following = resume.behind(end).position if error is not None and decoder.goes_on else -1
        is_known = not decoder.goes_on or take_unreadable(data) is None
        if error is not None and (following >= 0 or end.kind is EndKind.CORRUPT or not is_known):
            error.end_position = following if following >= 0 else data.size
            yield from decoder.refuse(error)
        if not 0 <= following < stop:
            yield from decoder.flush()
            return end
        position = following


def _decode_others(
    decoder: RecordDecoder,
    columns: BatchColumns,
    addresses: batch_scan.ColumnAddresses,
    count: int,
    wrong: list[tuple[int, OffsetOrderError]],
) -> Iterator[Rows]:
    """Decodes the first `count` batches without the wrong ones, and refuses each of these where it
    lies, so that whoever takes only the first rows has been told of those before them. Changes
    `columns`."""
    begin = 0
    for place, error in [*wrong, (count, None)]:
        for column in columns:
            column[: place - begin] = column[begin:place]
        yield from decoder.decode(columns, addresses, place - begin)
        if error is not None:
            yield from decoder.refuse(error)
        begin = place + 1
