"""Reads a log step by step: scans some batches, has them decoded, and goes on behind damage.

What is made of the batches is the decoder's business.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from typing import Protocol, TypeVar

import numpy as np

from logdex.errors import CorruptError, OffsetOrderError, UnreadableError, UsageError, VanishedError
from logdex.io.env import Env
from logdex.io.mapped.byte_array import ByteArray
from logdex.io.mapped.mapping import take_unreadable
from logdex.io.mapped.partly_loaded import loaded_part
from logdex.io.record_lock import Identity
from logdex.kafka.columns.read_order import ReadOrder
from logdex.kafka.scan.resume import LogResume
from logdex.kafka.scan.scan_window import scan_window
from logdex.kafka.scan.scanner import EndKind, ScanEnd, end_at, reason_to_stop, whole_batches
from logdex.kernels.common.crc32c import crc_sources
from logdex.kernels.kafka import batch_scan
from logdex.kernels.kafka.batch_columns import BatchColumns, make_batch_columns

_SCAN_BATCHES = 4_096
_STEP_BYTES = 4 << 20
"""This much is checked at a time, so that decoding finds it in the processor's cache. A step costs
about 15 µs."""

T = TypeVar("T", covariant=True)


class Decoder(Protocol[T]):
    """Makes rows of batches that were scanned, in log order."""

    @property
    def goes_on(self) -> bool:
        """Whether bad batches are skipped."""

    def decode(self, columns: BatchColumns, addresses: batch_scan.ColumnAddresses, count: int) -> Iterator[T]:
        """Decodes the first `count` batches of `columns`, whose arrays are at `addresses`."""

    def flush(self) -> Iterator[T]:
        """Yields the rows that were decoded but not yet yielded."""

    def refuse(self, error: CorruptError) -> Iterator[T]:
        """Notes the error of a bad batch, or raises it after the rows before it."""


def names_of(columns: Iterable[str] | None, known: tuple[str, ...]) -> tuple[str, ...]:
    """Returns the names of the columns to read, all that are known for None. Raises `UsageError`
    for another name."""
    names = known if columns is None else tuple(columns)
    unknown = [name for name in names if name not in known]
    if unknown:
        raise UsageError(f"there is no column {unknown[0]!r}", hint=f"choose from {', '.join(known)}")
    return names


@contextmanager
def open_data(path_or_data: str | bytes | ByteArray, identity: Identity | None, env: Env) -> Iterator[ByteArray]:
    """Opens a .log file, or takes bytes in memory. Raises `VanishedError` if the file is not
    `identity` by now."""
    if isinstance(path_or_data, str):
        with env.map_read(path_or_data, partly=True) as mapped:
            if identity not in (None, mapped.identity):
                raise VanishedError("another file has this name by now", path=path_or_data)
            yield mapped.array
    elif isinstance(path_or_data, bytes):
        yield np.frombuffer(path_or_data, np.uint8)
    else:
        yield path_or_data


def read_steps(
    data: ByteArray,
    path: str,
    start: int,
    stop: int,
    check_crc: bool,
    decoder: Decoder[T],
    resume: LogResume,
    order: ReadOrder | None,
) -> Generator[T, None, ScanEnd]:
    """Scans the batches that begin in bytes [start, stop) and decodes them step by step; resumes
    after damage if the decoder goes on. Returns the scan's end."""
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
    decoder: Decoder[T],
    columns: BatchColumns,
    addresses: batch_scan.ColumnAddresses,
    count: int,
    wrong: list[tuple[int, OffsetOrderError]],
) -> Iterator[T]:
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
