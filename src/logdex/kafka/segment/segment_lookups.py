"""Looks up many offsets or timestamps in one segment by scanning its headers once, and one offset
by checksums.

The functions for many are twins of `LogSegment.translate_offset` and `find_offset_by_timestamp`,
which are faster for a few look-ups.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Protocol

import numpy as np

from logdex.errors import CorruptError
from logdex.io.env import Env
from logdex.kafka.columns.record_columns import read_record_batches
from logdex.kafka.scan.resume import LogResume
from logdex.kafka.scan.scanner import WINDOW_BATCHES, BatchScanner, EndKind
from logdex.kafka.segment.file_records import FileRecords, LogOffsetPosition, TimestampAndOffset
from logdex.kernels.kafka.batch_columns import BatchColumns, Int64s
from logdex.kernels.kafka.sparse_lookup import first_at_least, first_in_runs

_FEW_BATCHES = 64
_FEW_QUERIES = 16
"""So many offsets are looked up one by one, which needs no kernel."""

SCAN_BYTES_A_QUERY = 200_000
"""A single look-up takes about as long as scanning the headers of this many bytes of a .log."""

_TIME_WINDOW_BATCHES = 1024
"""For look-ups by time: bounds how much is decoded at once."""
_GAP_BATCHES = 4
"""Up to this many unwanted batches are decoded together with their neighbours, to save calls."""


class SearchedSegment(Protocol):
    """The methods of `LogSegment` that these functions use."""

    base_offset: int
    log: FileRecords
    env: Env

    @property
    def size_bytes(self) -> int:
        """The size of the .log."""

    def translate_offset(self, offset: int) -> LogOffsetPosition | None:
        """The first batch with a last offset of at least `offset`."""

    def find_offset_by_timestamp(self, timestamp_ms: int) -> TimestampAndOffset | None:
        """The first record with at least this timestamp."""


Found = tuple[Int64s, Int64s, BatchColumns]
"""Rows of the queries, the index of each one's batch in a window, and that window."""


def translate_offsets(segment: SearchedSegment, offsets: Int64s) -> Int64s:
    """(base offset, position, size)[n, 3] of the first batch with a last offset of at least each of
    `offsets`.

    -1 in all three means that there is none. Raises as `LogSegment.translate_offset` does.
    """
    found = np.full((len(offsets), 3), -1, np.int64)
    rest = np.arange(len(offsets))
    if len(offsets) > _FEW_QUERIES and len(offsets) * SCAN_BYTES_A_QUERY >= segment.size_bytes:
        sweep = _Sweep(segment, offsets, "last_offset", WINDOW_BATCHES)
        for rows, places, columns in sweep:
            found[rows, 0] = columns.base_offset[places]
            found[rows, 1] = columns.position[places]
            found[rows, 2] = columns.size[places]
            for place in np.unique(places[columns.count[places] < 0]):  # the first offset of a wrapper is inside it
                base_offset = segment.log.batch_at(int(columns.position[place])).first_offset()
                found[rows[places == place], 0] = base_offset
        rest = sweep.unanswered
    for row in rest:
        batch = segment.translate_offset(int(offsets[row]))
        if batch is not None:
            found[row] = batch
    return found


def find_offsets_by_timestamps(segment: SearchedSegment, timestamps_ms: Int64s) -> Int64s:
    """(timestamp, offset, leader epoch)[n, 3] of the first record with at least each of
    `timestamps_ms`.

    Timestamp and offset are -1 if there is none. Raises as `LogSegment.find_offset_by_timestamp`
    does.
    """
    found = np.full((len(timestamps_ms), 3), -1, np.int64)
    rest = np.arange(len(timestamps_ms))
    if len(timestamps_ms) * SCAN_BYTES_A_QUERY >= segment.size_bytes:
        sweep = _Sweep(segment, timestamps_ms, "max_timestamp_ms", _TIME_WINDOW_BATCHES)
        for rows, places, columns in sweep:
            # batches that are close to each other are decoded at once
            for part in np.split(np.arange(len(places)), np.flatnonzero(np.diff(places) > _GAP_BATCHES) + 1):
                _find_in_run(segment, timestamps_ms, rows[part], places[part], columns, found)
        rest = sweep.unanswered
    for row in rest:
        _find_alone(int(timestamps_ms[row]), segment.find_offset_by_timestamp, found[row])
    return found


def _find_alone(timestamp_ms: int, search: Callable[[int], TimestampAndOffset | None], answer: Int64s) -> None:
    record = search(timestamp_ms)
    if record is not None:
        answer[:] = record


def _find_in_run(
    segment: SearchedSegment, wanted: Int64s, rows: Int64s, places: Int64s, columns: BatchColumns, found: Int64s
) -> None:
    """Answers the queries `rows` (ascending), whose batches are those at `places`."""
    first, last = int(places[0]), int(places[-1])
    ends = columns.position + columns.size
    try:
        timestamps, offsets = _records(segment, int(columns.position[first]), int(ends[last]))
    except CorruptError:  # A batch of the run is damaged; looking up each query alone fails only those that need it.
        for row in rows:
            _find_alone(int(wanted[row]), segment.find_offset_by_timestamp, found[row])
        return
    past = np.searchsorted(offsets, columns.last_offset[first : last + 1], side="right")
    at = np.empty(len(rows), np.int64)
    first_in_runs(timestamps, np.concatenate(([0], past[:-1])), past, places - first, wanted[rows], at)
    hits, at_hits = rows[at >= 0], at[at >= 0]
    found[hits, 0], found[hits, 1] = timestamps[at_hits], offsets[at_hits]
    found[hits, 2] = columns.leader_epoch[places[at >= 0]]
    for row, place in zip(rows[at < 0], places[at < 0], strict=True):
        # a header may state a later timestamp than its records have
        behind = partial(segment.log.search_for_timestamp, position=int(ends[place]), start_offset=segment.base_offset)
        _find_alone(int(wanted[row]), behind, found[row])


def _records(segment: SearchedSegment, start: int, stop: int) -> tuple[Int64s, Int64s]:
    """The timestamps and offsets of all records in bytes [start, stop) of the .log."""
    names = ["timestamp_ms", "offset"]
    read = read_record_batches(
        segment.log.path, start=start, stop=stop, columns=names, check_crc=False, skip_control=False, env=segment.env
    )
    none = np.empty(0, np.int64)
    parts = [(none, none), *(tuple(column.to_numpy() for column in batch.columns) for batch in read)]
    return np.concatenate([part[0] for part in parts]), np.concatenate([part[1] for part in parts])


def _rises(values: Int64s, above: np.int64) -> bool:
    return bool(values[0] > above and (values[1:] > values[:-1]).all())


class _Sweep:
    """Scans the headers once and yields, per window, the queries whose batch is in that window.

    A query's batch is the first whose `column` is at least the wanted value.
    """

    def __init__(self, segment: SearchedSegment, wanted: Int64s, column: str, window_batches: int) -> None:
        self._segment = segment
        self._wanted = wanted
        self._column = column
        self._window_batches = window_batches
        self.unanswered = np.arange(0)
        """Rows that must be looked up one by one after the scan, because headers were invalid or
        offsets decreased."""

    def __iter__(self) -> Iterator[Found]:
        order = np.argsort(self._wanted)
        rising_wanted = self._wanted[order]
        done, highest = 0, np.int64(np.iinfo(np.int64).min)
        scanner = BatchScanner(False, self._window_batches, self._segment.env)
        for window in scanner.scan_file(self._segment.log.path, stop=self._segment.size_bytes):
            columns = window.columns
            if self._column == "last_offset" and not _rises(columns.last_offset, highest):
                self.unanswered = order[done:]  # A header is damaged, so the result depends on where a search begins.
                return
            rising = np.maximum.accumulate(np.maximum(getattr(columns, self._column), highest))
            highest = rising[-1]
            upto = int(np.searchsorted(rising_wanted, highest, side="right"))
            if upto > done:
                yield order[done:upto], first_at_least(rising, rising_wanted[done:upto]), columns
                done = upto
            if done == len(order):
                return
        if scanner.end.kind in (EndKind.CORRUPT, EndKind.ZEROS):
            self.unanswered = order[done:]


# -- by checksums, where a damaged length may lead headers into the value of a record ------------
def is_undamaged(segment: SearchedSegment, start: int, stop: int) -> bool:
    """Whether bytes [start, stop) are whole batches with right checksums."""
    scanner = BatchScanner(window_batches=_FEW_BATCHES, env=segment.env)
    for _ in scanner.scan_bytes(segment.log.read(start, stop - start)):
        pass
    return scanner.end.kind is EndKind.END


def find_behind_damage(segment: SearchedSegment, offset: int, start: int) -> LogOffsetPosition | None:
    """The first whole batch from byte `start` on with a last offset of at least `offset`, as all
    readers find it; None if there is none.

    Raises `CorruptError` if damage lies right before that batch, or before the end of the log, and
    the batch does not hold `offset` itself: the damaged one may.
    """
    path, env = segment.log.path, segment.env
    with segment.log.map() as mapped:
        data = mapped.array[: segment.size_bytes]
        scanner, resume = BatchScanner(window_batches=_FEW_BATCHES, env=env), LogResume(data, path, env)
        position, error = start, None
        while position >= 0:
            for window in scanner.scan_bytes(data, position, path=path):
                columns = window.columns
                places = np.flatnonzero(columns.last_offset >= offset)
                if len(places):
                    place = int(places[0])
                    first, at, size = (int(c[place]) for c in (columns.base_offset, columns.position, columns.size))
                    if columns.count[place] < 0:  # the first offset of a wrapper is inside it
                        first = segment.log.batch_at(at).first_offset()
                    if first > offset and place == 0 and error is not None:
                        raise error
                    return LogOffsetPosition(first, at, size)
                error = None
            end = scanner.end
            position = resume.behind(end).position
            if end.kind is EndKind.CORRUPT or (end.kind is EndKind.TORN and position >= 0):
                error = end.error
    if error is not None:
        raise error
    return None
