"""Looking up many offsets or timestamps in one segment: its headers are scanned once for all of them.

Twins of `LogSegment.translate_offset` and `find_offset_by_timestamp`, which stay the better choice for a few.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from logdex.kafka.scan import BatchScanner, EndKind
from logdex.kernels.batch_columns import BatchColumns, Int64s
from logdex.kernels.index_lookup import first_at_least

if TYPE_CHECKING:
    from logdex.kafka.log_segment import LogSegment

SCAN_BYTES_A_QUERY = 200_000
"""One look-up by itself takes about as long as scanning the headers of this many bytes of log."""

Found = tuple[Int64s, Int64s, BatchColumns]
"""Rows of the queries, the place of each one's batch in a window, and that window."""


def translate_offsets(segment: LogSegment, offsets: Int64s) -> Int64s:
    """(base offset, position, size)[n, 3] of the first batch whose last offset is at or above each of `offsets`; -1 in
    all three where there is none. Raises as `LogSegment.translate_offset`."""
    found = np.full((len(offsets), 3), -1, np.int64)
    rest = np.arange(len(offsets))
    if len(offsets) * SCAN_BYTES_A_QUERY >= segment.size_bytes:
        sweep = _Sweep(segment, offsets, "last_offset")
        for rows, places, columns in sweep:
            found[rows, 0] = columns.base_offset[places]
            found[rows, 1] = columns.position[places]
            found[rows, 2] = columns.size[places]
            for place in np.unique(places[columns.count[places] < 0]):  # wrappers: their first offset is within
                base_offset = segment.log.batch_at(int(columns.position[place])).first_offset()
                found[rows[places == place], 0] = base_offset
        rest = sweep.unanswered
    for row in rest:
        batch = segment.translate_offset(int(offsets[row]))
        if batch is not None:
            found[row] = batch
    return found


def find_offsets_by_timestamps(segment: LogSegment, timestamps_ms: Int64s) -> Int64s:
    """(timestamp, offset, leader epoch)[n, 3] of the first record at or after each of `timestamps_ms`; offset and
    timestamp are -1 where there is none. Raises as `LogSegment.find_offset_by_timestamp`."""
    found = np.full((len(timestamps_ms), 3), -1, np.int64)
    rest = np.arange(len(timestamps_ms))
    if len(timestamps_ms) * SCAN_BYTES_A_QUERY >= segment.size_bytes:
        sweep = _Sweep(segment, timestamps_ms, "max_timestamp_ms")
        for rows, places, columns in sweep:
            for part in np.split(np.arange(len(places)), np.flatnonzero(np.diff(places)) + 1):
                _find_in_batch(segment, timestamps_ms, rows[part], int(places[part[0]]), columns, found)
        rest = sweep.unanswered
    for row in rest:
        record = segment.find_offset_by_timestamp(int(timestamps_ms[row]))
        if record is not None:
            found[row] = record
    return found


def _find_in_batch(
    segment: LogSegment, wanted: Int64s, rows: Int64s, place: int, columns: BatchColumns, found: Int64s
) -> None:
    """Answers the queries `rows`, whose batch is that at `place`."""
    position, size = int(columns.position[place]), int(columns.size[place])
    timestamps, offsets = segment.log.record_times(position)
    at = np.searchsorted(np.maximum.accumulate(timestamps), wanted[rows])
    there = at < len(timestamps)
    hits, at = rows[there], at[there]
    found[hits, 0], found[hits, 1] = timestamps[at], offsets[at]
    found[hits, 2] = columns.leader_epoch[place]
    for row in rows[~there]:  # the header's timestamp is above all of its records'
        record = segment.log.search_for_timestamp(int(wanted[row]), position + size, segment.base_offset)
        if record is not None:
            found[row] = record


class _Sweep:
    """Goes through the headers once and yields, window by window, which queries find their batch there: the first one
    whose `column` is at or above what is wanted."""

    def __init__(self, segment: LogSegment, wanted: Int64s, column: str) -> None:
        self._segment = segment
        self._wanted = wanted
        self._column = column
        self.unanswered = np.arange(0)
        """Rows that must be looked up alone, when all windows are through: headers could not be followed to the end."""

    def __iter__(self) -> Iterator[Found]:
        order = np.argsort(self._wanted)
        rising_wanted = self._wanted[order]
        done, highest = 0, np.int64(np.iinfo(np.int64).min)
        scan = BatchScanner(check_crc=False, env=self._segment.env).scan_file(
            self._segment.log.path, stop=self._segment.size_bytes
        )
        while done < len(order):
            try:
                columns = next(scan).columns
            except StopIteration as stopped:
                if stopped.value.kind in (EndKind.CORRUPT, EndKind.ZEROS):
                    self.unanswered = order[done:]
                break
            rising = np.maximum.accumulate(np.maximum(getattr(columns, self._column), highest))
            highest = rising[-1]
            upto = int(np.searchsorted(rising_wanted, highest, side="right"))
            if upto > done:
                yield order[done:upto], first_at_least(rising, rising_wanted[done:upto]), columns
                done = upto
        scan.close()
