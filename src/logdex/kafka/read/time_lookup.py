"""Looks up offsets by time in the segments of a log, open here or written by another process.

Source: Kafka's UnifiedLog.fetchOffsetByTimestamp, Partition.fetchOffsetForTimestamp.
"""

from __future__ import annotations

from collections.abc import Sequence

from logdex.errors import UsageError
from logdex.kafka.read.log_read import LogView
from logdex.kafka.segment.file_records import TimestampAndOffset
from logdex.kafka.segment.log_segment import LogSegment
from logdex.primitives.wrong_questions import require_given

EARLIEST_TIMESTAMP = -2
LATEST_TIMESTAMP = -1
MAX_TIMESTAMP = -3


def offset_for_timestamp(view: LogView, timestamp_ms: int) -> TimestampAndOffset | None:
    """Returns the first record at or after `timestamp_ms`, or None if there is none below the
    view's end. Special values: -2 is the log's start and -1 its end (both without a timestamp), -3
    the first record with the largest timestamp.

    As in the broker, the search uses the first segment whose time index reaches the time, even if
    compaction has removed its records since. A segment that its index cannot rule out is searched
    too: the last one, whose index may not cover the newest batches, and one whose index has no
    entries.

    Raises `UsageError` for a timestamp below -3.
    """
    require_given(timestamp_ms=timestamp_ms)
    if timestamp_ms == EARLIEST_TIMESTAMP:
        return TimestampAndOffset(-1, view.log_start_offset)
    if timestamp_ms == LATEST_TIMESTAMP:
        return TimestampAndOffset(-1, view.end_offset)
    if timestamp_ms == MAX_TIMESTAMP:
        found = _first_with_largest_timestamp(view)
    elif timestamp_ms >= 0:
        found = _first_at_or_after(view, timestamp_ms)
    else:
        raise UsageError(f"timestamp_ms is {timestamp_ms}", hint="say 0 or more, -1 latest, -2 earliest, -3 largest")
    return found if found is not None and found.offset < view.end_offset else None


def _first_at_or_after(view: LogView, timestamp_ms: int) -> TimestampAndOffset | None:
    for segment in view.segments:
        indexed = segment.max_timestamp[0]
        if 0 <= indexed < timestamp_ms and segment is not view.segments[-1]:
            continue
        found = segment.find_offset_by_timestamp(timestamp_ms, view.log_start_offset)
        if found is not None or indexed >= timestamp_ms:
            return found
    return None


def _first_with_largest_timestamp(view: LogView) -> TimestampAndOffset | None:
    latest, timestamp, offset = None, -1, -1
    for segment in view.segments:
        largest = read_max_timestamp(segment, view.segments)
        if largest[0] > timestamp:
            latest, (timestamp, offset) = segment, largest
    if latest is None:
        return None
    position = latest.offset_index.lookup(offset).position
    return latest.log.search_for_timestamp(timestamp, position, view.log_start_offset)


def read_max_timestamp(segment: LogSegment, segments: Sequence[LogSegment]) -> tuple[int, int]:
    """Returns the largest timestamp of one of a log's `segments` in milliseconds and the last
    offset of its batch, or (-1, base offset) without one. Batch headers are read if the time index
    may not cover all batches, see `offset_for_timestamp`."""
    indexed = segment.max_timestamp
    return segment.read_max_timestamp() if segment is segments[-1] or indexed[0] < 0 else indexed
