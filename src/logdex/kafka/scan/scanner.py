"""Scans a .log into columns: windows of batches, and where and why the log ends.

Recovery, rebuild, verify, look-ups and the folds of every index all use this scan. As for the
broker, the log ends at the first batch that is not whole or has a wrong checksum; `ScanEnd` states
which.

Source: Kafka's FileLogInputStream, LogSegment.recover.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from enum import Enum

import numpy as np

from logdex import limits
from logdex.errors import CorruptError, CrcMismatchError, TruncatedError, UnreadableError
from logdex.io.env import DEFAULT_ENV, Env, MappedBytes
from logdex.io.mapped.byte_array import ByteArray
from logdex.io.mapped.mapping import find_unreadable, readable_end, require_readable, take_unreadable
from logdex.io.mapped.partly_loaded import load, loaded_part, longer_part
from logdex.kafka.scan.scan_window import scan_window
from logdex.kernels.common.crc32c import crc_sources
from logdex.kernels.kafka import batch_scan as kernel
from logdex.kernels.kafka.batch_columns import BatchColumns, make_batch_columns, pick_columns

WINDOW_BATCHES = 8_192
"""With this size the columns of a window (100 bytes per batch) stay in the core's cache while they
are used."""

UNREADABLE = "unreadable"
"""The field that the error of a scan's end names where bytes cannot be read."""

_ZEROS_STEP, _ZEROS_FIRST_STEP = 1 << 20, 64


class EndKind(Enum):
    """Why a scan ended. ZEROS means that the file was extended but not written there. If too few
    bytes for a header are left, the end is TORN whatever they hold, because the broker silently
    ends there."""

    END = "end"
    TORN = "torn"
    ZEROS = "zeros"
    CORRUPT = "corrupt"


@dataclass(frozen=True, slots=True)
class ScanEnd:
    """The end of the good batches: `position` is that of the byte after the last one. `error` gives
    the details unless `kind` is END."""

    kind: EndKind
    position: int
    reason: str
    error: CorruptError | None = None
    is_unreadable: bool = False
    """Whether the bytes from there on cannot be read."""

    @property
    def description(self) -> str:
        """The reason, without file and position."""
        return self.reason if self.error is None else self.error.description


@dataclass(slots=True)
class BatchWindow:
    """`count` batches. `columns` have `count` elements each and are valid until the next window is
    requested. Positions are relative to the start of `data`, which holds the bytes of the whole
    file or buffer."""

    columns: BatchColumns
    count: int
    data: ByteArray
    path: str


class BatchScanner:
    """Scans files or bytes with one set of columns. Not thread-safe, and only one scan at a time.

    When all windows of a scan have been taken, `end` states where and why it ended. The generator
    returns the same value.
    """

    end: ScanEnd

    def __init__(
        self,
        check_crc: bool = True,
        window_batches: int = WINDOW_BATCHES,
        env: Env = DEFAULT_ENV,
        *,
        unreadable_is_damage: bool = False,
    ) -> None:
        self._unreadable_is_damage = unreadable_is_damage
        self.batches = 0
        """The number of batches scanned so far."""
        self._env = env
        self._check_crc = check_crc
        self._columns = make_batch_columns(window_batches)
        places = [column.ctypes.data for column in self._columns]
        self._addresses = kernel.ColumnAddresses._make([*places, window_batches])
        self._state = np.zeros(kernel.STATE_SIZE, np.int64)
        self._crcs = crc_sources()

    def scan_file(self, path: str, start: int = 0, stop: int | None = None) -> Generator[BatchWindow, None, ScanEnd]:
        """Yields windows of the batches that begin in bytes [start, stop) of a .log. `start` must
        be the first byte of a batch.

        The end is of kind END if `stop` was reached. Where bytes cannot be read or the file was
        truncated meanwhile, `UnreadableError` is raised behind the batches before it. With
        `unreadable_is_damage` the scan ends there as at a damaged batch.
        """
        with map_log(path, self._env) as mapped:
            return (yield from self.scan_bytes(mapped.array, start, stop, path=path))

    def scan_bytes(
        self, data: ByteArray | bytes, start: int = 0, stop: int | None = None, *, path: str = "<bytes>"
    ) -> Generator[BatchWindow, None, ScanEnd]:
        """Yields windows as `scan_file` does, of bytes in memory. `path` is the name used in
        errors."""
        array = np.frombuffer(data, np.uint8) if isinstance(data, bytes) else data
        state, position, reason = self._state, start, kernel.WINDOW_FULL
        until = array.size if stop is None else stop
        good = start
        while reason == kernel.WINDOW_FULL and good == position:
            state[kernel.POSITION], part = position, loaded_part(array, position, until)
            scan_window(part, until, self._check_crc, state, self._columns, self._addresses, self._crcs)
            begin, (position, count, reason) = position, (int(place) for place in state)
            reason = reason_to_stop(array, part, position, until, reason)
            count, good = whole_batches(array, self._columns, count, begin, position)
            if count:
                self.batches += count
                yield BatchWindow(pick_columns(self._columns, slice(count)), count, array, path)
                if not self._unreadable_is_damage:
                    require_readable(array, begin, good)  # whoever took the window has read its bytes again
        self.end = end_at(array, good, position, reason, path, unreadable_is_damage=self._unreadable_is_damage)
        return self.end


def reason_to_stop(data: ByteArray, part: ByteArray, position: int, until: int, reason: int) -> int:
    """Returns why the kernel stopped at `position` of `part`, those bytes of `data` that are
    loaded: WINDOW_FULL if only they end there. Then more are loaded."""
    if part.size == data.size or reason not in (kernel.TORN, kernel.FILE_END):
        return reason
    if position >= until:
        return kernel.LIMIT
    longer_part(data, part, position)
    return kernel.WINDOW_FULL


def map_log(path: str, env: Env) -> MappedBytes:
    """Maps a .log, a remote one partly. Of a file that is larger than a broker's can be, a hole
    behind that size is left out."""
    with env.open_read(path) as file:
        mapped = file.map(partly=True)
        largest = limits.SEGMENT_SIZE_BYTES_MAX
        if mapped.array.size > largest and file.next_data(largest) is None:
            mapped.array = mapped.array[:largest]
    return mapped


def whole_batches(data: ByteArray, columns: BatchColumns, count: int, begin: int, end: int) -> tuple[int, int]:
    """How many of the first `count` batches of a window over bytes [begin, end) could be read, and
    where these end: at `end` if all bytes could be read."""
    readable = readable_end(data, begin, end)
    if readable == end:
        return count, end
    ends = columns.position[:count] + columns.size[:count]
    whole = int(np.searchsorted(ends, readable, side="right"))
    return whole, int(ends[whole - 1]) if whole else begin


def end_at(
    data: ByteArray, good: int, position: int, reason: int, path: str, *, unreadable_is_damage: bool = False
) -> ScanEnd:
    """The end of a scan of `data`, where the kernel stopped at `position` for `reason`, and the
    batches up to `good` could be read. Raises `UnreadableError` if it stopped because bytes cannot
    be read, unless that counts as damage."""
    stop = position
    if good == position:
        end, stop = scan_end(data, position, reason, path), data.size
        if end.kind is EndKind.END or readable_end(data, position, stop) == stop:
            return end
    error = find_unreadable(data, good, stop)
    if error is None:  # the file was truncated, and has grown again
        error = UnreadableError(path=path, position=good, end_position=stop)
    if not unreadable_is_damage:
        raise error
    take_unreadable(data)
    wanted = "a batch that can be read"
    bad = CrcMismatchError(error.reason, path=path, position=good, field=UNREADABLE, expected=wanted, found="none")
    return ScanEnd(EndKind.CORRUPT, good, bad.message, bad, is_unreadable=True)


def scan_end(data: ByteArray, position: int, reason: int, path: str) -> ScanEnd:
    """Returns the end of the whole log `data` for the kernel's `reason` to stop at `position`."""
    if reason == kernel.FILE_END:
        return ScanEnd(EndKind.END, position, "the last batch ends where the file ends")
    if reason == kernel.LIMIT:
        return ScanEnd(EndKind.END, position, "the scan was to stop here")
    error = batch_error(data, position, reason, path)
    if reason == kernel.BAD_SIZE and only_zeros(data, position):
        return ScanEnd(EndKind.ZEROS, position, "nothing but zeros from here to the end of the file", error)
    kind = EndKind.TORN if reason == kernel.TORN else EndKind.CORRUPT
    return ScanEnd(kind, position, error.message, error)


def only_zeros(data: ByteArray, position: int) -> bool:
    """Whether all bytes from `position` to the end are zeros. Bytes that cannot be read are not,
    though they are zeros in `data`."""
    first = position + _ZEROS_FIRST_STEP  # usually the first byte decides
    load(data, position, first)
    if data[position:first].any():
        return False
    for at in range(first, data.size, _ZEROS_STEP):
        load(data, at, at + _ZEROS_STEP)
        if data[at : at + _ZEROS_STEP].any():
            return False
    return readable_end(data, position, data.size) == data.size


def batch_error(data: ByteArray, position: int, reason: int, path: str) -> CorruptError:
    """Returns the error, with its place, for the batch at `position` where the kernel stopped for
    `reason`."""
    left = data.size - position
    if left <= kernel.SIZE_UP_TO_MAGIC:
        return TruncatedError(
            "the file ends within a batch's header",
            path=path,
            position=position,
            expected=f"more than {kernel.SIZE_UP_TO_MAGIC} bytes",
            found=f"{max(left, 0)} bytes",
        )
    at = data.ctypes.data + position
    size = int.from_bytes(data[position + 8 : position + 12].tobytes(), "big", signed=True)
    magic = int(data[position + 16])
    if reason == kernel.TORN:
        room = left - kernel.OVERHEAD
        return TruncatedError(
            "the batch runs past the end of the file",
            path=path,
            position=position,  # of the batch: from there on the bytes are cut off, as verify says
            field="length",
            expected=f"at most {room}",
            found=size,
        )
    if reason == kernel.BAD_MAGIC:
        return CorruptError(
            "not a batch", path=path, position=position + 16, field="magic", expected="0, 1 or 2", found=magic
        )
    if reason == kernel.BAD_SIZE:
        least = kernel.SIZE_MIN_V0 if size < kernel.SIZE_MIN_V0 else int(kernel.size_min(magic))
        return CorruptError(
            "no batch is that short",
            path=path,
            position=position + 8,
            field="length",
            expected=f"at least {least}",
            found=size,
        )
    return CrcMismatchError(
        "the batch's bytes are not those that were written",
        path=path,
        position=position,
        field="crc",
        expected=f"{int(kernel.stored_crc(at)):#010x} as stored",
        found=f"{int(kernel.batch_crc(at, crc_sources())):#010x} of the bytes",
    )
