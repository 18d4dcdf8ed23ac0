"""One segment's log, batch by batch: damage told apart, offsets in order, headers plausible,
records decoded.

Torn bytes, zeros and corrupt bytes are three things, each with whole batches behind it or without.
Behind damage the search for the next whole batch goes on, where a broker would cut the log.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from logdex.io.env import Env
from logdex.io.mapped.byte_array import ByteArray
from logdex.io.mapped.mapping import take_unreadable
from logdex.kafka.files.file_names import offset_file_name
from logdex.kafka.scan.resume import LogResume
from logdex.kafka.scan.rising_batches import Judged, RisingBatches
from logdex.kafka.scan.scanner import UNREADABLE, BatchScanner, BatchWindow, EndKind, ScanEnd, map_log
from logdex.kafka.verify.checks import Collector
from logdex.kafka.verify.segment.header_check import check_headers
from logdex.kafka.verify.segment.offset_order import OffsetOrder
from logdex.kafka.verify.segment.record_check import check_records
from logdex.kernels.kafka.batch_columns import BatchColumns, pick_columns
from logdex.kernels.kafka.batch_scan import OVERHEAD

WINDOW_BATCHES = 2_048
OFFSET_MAX = (1 << 63) - 1
_CORRUPT_CHECKS = {"crc": "batch-crc", "length": "batch-header", "magic": "batch-header", UNREADABLE: UNREADABLE}


class Hole(NamedTuple):
    """Bytes [start, end) of a log that are no batch that can be used; the offsets lost lie in
    [first_offset, next_offset)."""

    start: int
    end: int
    first_offset: int
    next_offset: int


class Segment(NamedTuple):
    """What a check must know of a segment: `next_base` is the base offset of the one behind it,
    None for the active."""

    path: str
    base_offset: int
    next_base: int | None
    preallocated_bytes: int = 0
    """A log of just this size that ends in zeros was preallocated; 0: none is."""
    files: Mapping[str, str] = MappingProxyType({})
    """The paths of its files that were found, by their suffixes: some may have a wrong name."""

    def beside(self, suffix: str) -> str:
        """Returns the path of its file with this suffix."""
        right = posixpath.join(posixpath.dirname(self.path), offset_file_name(self.base_offset, suffix))
        return self.files.get(suffix, right)


class SegmentPass:
    """Reads one segment. After `windows` has ended: `holes`, `end_position` and `next_offset` of
    the good batches."""

    def __init__(self, segment: Segment, out: Collector, env: Env) -> None:
        self.segment = segment
        self.path = segment.path
        self.holes: list[Hole] = []
        self.batches = 0
        self.records = 0
        self.end_position = 0
        self.next_offset = segment.base_offset
        self.size_bytes = 0
        self.has_bad_tail = False
        """Whether the log ends in bytes that are no batch."""
        self._out = out
        self._env = env
        self._order = OffsetOrder(segment.path, segment.base_offset, segment.next_base, out)
        self._rising = RisingBatches(segment.base_offset - 1)
        self._last_offset = self._last_read = segment.base_offset - 1
        self._open_hole: tuple[int, int] | None = None

    def windows(self) -> Iterator[BatchWindow]:
        """The good batches in windows; a batch whose offset contradicts its neighbours' is left
        out, and is a hole."""
        scanner = BatchScanner(window_batches=WINDOW_BATCHES, env=self._env, unreadable_is_damage=True)
        with map_log(self.path, self._env) as mapped:
            data = mapped.array
            self.size_bytes = data.size
            resume = LogResume(data, self.path, self._env)
            position = 0
            while True:
                for window in scanner.scan_bytes(data, position, path=self.path):
                    yield from self._take(window)
                end = scanner.end
                behind = self.segment.next_base if end.kind is EndKind.END else None
                yield from self._give(self._rising.flush(behind), data)
                position = self._damage(data, end, resume.behind(end).position)
                if position < 0:
                    break
        self._order.finish()

    def _take(self, window: BatchWindow) -> Iterator[BatchWindow]:
        columns = window.columns
        self.batches += window.count
        self.end_position = int(columns.position[-1]) + int(columns.size[-1])
        check_headers(columns, self.path, self._out)
        self.records += check_records(window, self._last_read, self._out)
        self._last_read = int(columns.last_offset[-1])
        yield from self._give(self._rising.add(columns), window.data)

    def _give(self, judged: Judged | None, data: ByteArray) -> Iterator[BatchWindow]:
        if judged is None:
            return
        columns, good = judged.columns, self._order.add(judged, self._last_offset)
        if not good.all():
            self._leave_out(columns, good)
            columns = pick_columns(columns, good)
        self._last_offset = self._rising.last_offset
        if not len(columns.position):
            return
        self._close_hole(int(columns.base_offset[0]))
        self.next_offset = max(self.next_offset, int(columns.last_offset[-1]) + 1)
        yield BatchWindow(columns, len(columns.position), data, self.path)

    def _leave_out(self, columns: BatchColumns, good: npt.NDArray[np.bool_]) -> None:
        for place in np.flatnonzero(~good).tolist():
            before = columns.last_offset[:place][good[:place]]
            behind = columns.base_offset[place + 1 :][good[place + 1 :]]
            first = int(before[-1]) + 1 if len(before) else self.next_offset
            start = int(columns.position[place])
            last = int(behind[0]) if len(behind) else OFFSET_MAX
            self.holes.append(Hole(start, start + int(columns.size[place]), first, last))

    def _close_hole(self, base_offset: int) -> None:
        if self._open_hole is not None:
            start, end = self._open_hole
            self.holes.append(Hole(start, end, self.next_offset, max(base_offset, self.next_offset)))
            self._open_hole = None

    def _damage(self, data: ByteArray, end: ScanEnd, following: int) -> int:
        """Tells of what ended a scan; `following` is where the log goes on, -1 for nowhere, and is
        returned."""
        if end.kind is EndKind.END:
            return -1
        take_unreadable(data)  # the scan that stopped has told of them
        if self._open_hole is not None:  # nothing good came between: one hole
            self._close_hole(self.next_offset)
        self._open_hole = (end.position, following if following >= 0 else data.size)
        if following >= 0:
            self._tell_middle(data, end, following)
            return following
        self.has_bad_tail = True
        start, stop = self._open_hole
        self.holes.append(Hole(start, stop, self.next_offset, OFFSET_MAX))
        self._open_hole = None
        self._tell_tail(data, end)
        return -1

    def _tell_middle(self, data: ByteArray, end: ScanEnd, following: int) -> None:
        start = end.position
        size = int.from_bytes(data[start + 8 : start + OVERHEAD].tobytes(), "big", signed=True)
        lost = f"{following - start} bytes, whole batches go on at byte {following}"
        if not data[start:following].any() and not end.is_unreadable:
            self._find("zero-hole", start, f"zeros between two batches: {lost}", expected="a batch", found="zeros")
        elif end.is_unreadable or (end.kind is EndKind.CORRUPT and start + OVERHEAD + size == following):
            self._find_error(end, f"{_reason(end)}: {lost}")
        else:
            self._find(
                "stray-bytes",
                start,
                f"bytes that are no whole batch between two batches ({_reason(end)}): {lost}",
                expected="a batch",
                found=f"{following - start} bytes",
            )

    def _tell_tail(self, data: ByteArray, end: ScanEnd) -> None:
        left = data.size - end.position
        if end.kind is EndKind.CORRUPT:
            self._find_error(end, f"{_reason(end)}; the last {left} bytes of the file hold no whole batch")
            return
        if end.kind is EndKind.TORN and data[end.position :].any():
            self._find(
                "torn-tail",
                end.position,
                f"the log ends inside a batch: {left} bytes",
                expected="the end of the file",
                found=f"{left} bytes",
            )
            return
        if data.size == self.segment.preallocated_bytes and self.segment.next_base is None:
            self._out.info("log-preallocated", self.path, f"preallocated: {left} zero bytes behind the last batch")
            return
        self._find(
            "zero-tail",
            end.position,
            f"{left} zero bytes behind the last batch",
            expected="the end of the file",
            found=f"{left} zeros",
        )

    def _find(self, check: str, position: int, message: str, *, expected: object, found: object) -> None:
        self._out.find(check, self.path, position, message, expected=expected, found=found, mend=self._out.recover)

    def _find_error(self, end: ScanEnd, message: str) -> None:
        error = end.error
        check = _CORRUPT_CHECKS.get((error and error.field) or "", "batch-header")
        expected, found = (error.expected, error.found) if error is not None else ("a batch", "other bytes")
        self._find(check, end.position, message, expected=expected, found=found)


def _reason(end: ScanEnd) -> str:
    """Why a scan ended, without place, field and values, which a finding states itself."""
    return end.description.partition(" [")[0]
