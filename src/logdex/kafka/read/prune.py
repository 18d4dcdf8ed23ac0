"""Finds the bytes of segments that can hold the records of a filter, without reading a record.

Offsets and times are looked up in the indexes where batch headers confirm them, else in the
headers; keys are looked up in the key indexes. Bytes that no index or header excludes are kept, so
damage costs time but no record.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from typing import NamedTuple, Protocol

import numpy as np

from logdex.errors import CorruptError, LogdexError
from logdex.io.env import Env
from logdex.kafka.directory.lost_segments import LostSegment
from logdex.kafka.files.file_names import KEY_INDEX_SUFFIX
from logdex.kafka.key_index.reader import KeyIndex
from logdex.kafka.read.log_read import READ_COMMITTED
from logdex.kafka.read.read_filter import OFFSET_MAX, ReadFilter
from logdex.kafka.read.scan_state import find_end, position_of
from logdex.kafka.scan.scanner import BatchScanner, EndKind
from logdex.kafka.segment.log_segment import LogSegment
from logdex.kernels.kafka.batch_columns import BatchColumns, Int64s
from logdex.layout.kafka import TIME_INDEX_ENTRY

_WINDOW_BATCHES = 1024
_PARTS_OF_KEY_MAX = 16
"""In how many parts a segment is read at most for the records of one key."""


class ReadPartition(Protocol):
    """The interface of a partition to read, such as a `PartitionSnapshot`."""

    topic: str
    partition: int
    segments: list[LogSegment]
    env: Env

    @property
    def log_start_offset(self) -> int:
        """The first offset that consumers can read."""

    @property
    def last_stable_offset(self) -> int:
        """The offset before which committed records end."""


class LostPartition(ReadPartition, Protocol):
    """A partition to read whose lost segments are known."""

    lost: list[LostSegment]


class SegmentPart(NamedTuple):
    """The batches of a segment that begin in bytes [`begin`, `end`). A batch begins at `begin`.

    Records with offsets in [`offset`, `end_offset`) are wanted. `next_base` is the next segment's
    base offset.
    """

    segment: LogSegment
    begin: int
    end: int
    offset: int
    end_offset: int
    next_base: int


def offset_range(partition: ReadPartition, wanted: ReadFilter) -> tuple[int, int]:
    """Returns the wanted offsets [first, end) of a partition, by the filter's offsets and
    isolation."""
    start = -OFFSET_MAX if wanted.offset is None else wanted.offset
    end = OFFSET_MAX + 1 if wanted.end_offset is None else wanted.end_offset
    if wanted.isolation is not None:
        start = max(start, partition.log_start_offset)
    if wanted.isolation == READ_COMMITTED:
        end = min(end, partition.last_stable_offset)
    return start, end


def prune(partition: ReadPartition, wanted: ReadFilter) -> Iterator[SegmentPart]:
    """Yields the parts of a partition's segments that can hold wanted records, in log order."""
    for place in range(len(partition.segments)):
        part = prune_segment(partition, place, wanted)
        if part is not None:
            yield from (part,) if wanted.key is None else _parts_of_key(partition, place, wanted, part)


def prune_segment(partition: ReadPartition, place: int, wanted: ReadFilter) -> SegmentPart | None:
    """Returns the part of one segment that can hold records with wanted offsets and times, or None
    if there is none."""
    start, end = offset_range(partition, wanted)
    segment, is_last = partition.segments[place], place + 1 == len(partition.segments)
    next_base = OFFSET_MAX + 1 if is_last else partition.segments[place + 1].base_offset
    if segment.base_offset >= end or next_base <= start:
        return None
    begin = position_of(segment, start) if start > segment.base_offset else 0
    stop = _position_behind(segment, end) if end < next_base else segment.size_bytes
    if wanted.begin_ms is not None and begin < stop:
        found = _first_at_or_after(segment, wanted.begin_ms, begin, stop, is_last=is_last)
        begin = stop if found is None else found
    return SegmentPart(segment, begin, stop, start, end, next_base) if begin < stop else None


def lost_of(partition: LostPartition, wanted: ReadFilter) -> list[LostSegment]:
    """Returns the lost segments that may have had records with wanted offsets."""
    if not partition.lost:
        return []
    start, end = offset_range(partition, wanted)
    last = partition.segments[-1] if partition.segments else None
    log_end = partition.log_start_offset if last is None else find_end(last, partition.env)[0]
    return [each for each in partition.lost if each.is_wanted(start, end, log_end)]


# -- by offset -----------------------------------------------------------------------------------
def _position_behind(segment: LogSegment, end_offset: int) -> int:
    """Returns the position from which on no batch has an offset below `end_offset`; the segment's
    end if the headers there contradict each other."""
    try:
        found = segment.locate(end_offset)
        if found is None:
            return segment.size_bytes
        there = [*islice(segment.log.headers(found.position), 2)]
        if len(there) == 2 and there[1].base_offset <= there[0].last_offset:
            return segment.size_bytes
        segment.log.batch_at(found.position).check_crc()
    except CorruptError:
        return segment.size_bytes
    return found.position if found.offset >= end_offset else found.position + found.size_bytes


# -- by time -------------------------------------------------------------------------------------
def _first_at_or_after(segment: LogSegment, begin_ms: int, begin: int, stop: int, *, is_last: bool) -> int | None:
    """Returns the position of the first batch with records at or after `begin_ms`, or None if there
    is none. Returns `begin` if there is damage on the way, so that reading reports it."""
    if not is_last and _is_older(segment, begin_ms):
        return None
    scanner, found, last = BatchScanner(False, _WINDOW_BATCHES, segment.env), None, segment.base_offset - 1
    with segment.log.map() as mapped:
        data = mapped.array[: segment.size_bytes]
        for window in scanner.scan_bytes(data, begin, stop, path=segment.log.path):
            columns = window.columns
            if not _rises(columns, last):
                return begin
            last = int(columns.last_offset[-1])
            if found is None:
                late = np.flatnonzero(columns.max_timestamp_ms >= begin_ms)
                found = int(columns.position[late[0]]) if len(late) else None
                if found == begin:
                    return begin
    return found if scanner.end.kind is EndKind.END else begin


def _rises(columns: BatchColumns, last_offset: int) -> bool:
    return bool((columns.base_offset > np.append(last_offset, columns.last_offset[:-1])).all())


def _is_older(segment: LogSegment, begin_ms: int) -> bool:
    """Whether all timestamps of a segment are below `begin_ms`, by its time index. The index is
    used if its entries rise, a batch has the last entry's offset and timestamp, and the batches
    after it lead to the segment's end."""
    try:
        index = segment.time_index
        if not index.entries or index.last_entry.timestamp_ms >= begin_ms or not _entries_rise(segment):
            return False
        position = segment.offset_index.lookup(index.last_entry.offset).position
        largest, is_borne_out, last = -1, False, segment.base_offset - 1
        scanner = BatchScanner(False, _WINDOW_BATCHES, segment.env)
        with segment.log.map() as mapped:
            data = mapped.array[: segment.size_bytes]
            if not 0 <= position < data.size:
                return False
            for window in scanner.scan_bytes(data, position, path=segment.log.path):
                columns = window.columns
                if not _rises(columns, last):
                    return False
                last = int(columns.last_offset[-1])
                named = columns.last_offset == index.last_entry.offset
                is_borne_out |= bool((columns.max_timestamp_ms[named] == index.last_entry.timestamp_ms).any())
                largest = max(largest, int(columns.max_timestamp_ms.max()))
    except LogdexError:
        return False
    return is_borne_out and largest < begin_ms and scanner.end.kind is EndKind.END


def _entries_rise(segment: LogSegment) -> bool:
    entries = np.frombuffer(segment.time_index.used_bytes.tobytes(), TIME_INDEX_ENTRY.dtype)
    times, offsets = (entries[name].astype(np.int64) for name in ("timestamp_ms", "relative_offset"))
    return bool((np.diff(times) > 0).all() and (np.diff(offsets) >= 0).all() and (offsets >= 0).all())


# -- by key --------------------------------------------------------------------------------------
def _parts_of_key(partition: ReadPartition, place: int, wanted: ReadFilter, part: SegmentPart) -> Iterator[SegmentPart]:
    """Yields the parts of a segment's part that can hold records with the wanted key, apart from
    each other: all of it without an up-to-date key index."""
    assert wanted.key is not None
    offsets = _offsets_of_key(part.segment, wanted.key)
    if offsets is None:
        yield part
        return
    offsets = offsets[(offsets >= part.offset) & (offsets < part.end_offset)]
    parts: list[SegmentPart] = []
    for near in np.split(offsets, _cuts_between(offsets)) if len(offsets) else ():
        first, end = int(near[0]), int(near[-1]) + 1
        found = prune_segment(partition, place, replace(wanted, offset=first, end_offset=end, begin_ms=None))
        if found is None:
            continue
        begin, stop = max(part.begin, found.begin), min(part.end, found.end)
        if begin >= stop:
            continue
        while parts and begin < parts[-1].end:  # in one batch, or an index that cannot be trusted
            before = parts.pop()
            begin, stop, first = min(begin, before.begin), max(stop, before.end), before.offset
        parts.append(part._replace(begin=begin, end=stop, offset=first, end_offset=end))
    yield from parts


def _cuts_between(offsets: Int64s) -> Int64s:
    """Returns where to cut rising offsets into parts: between those that are far apart."""
    far = (offsets[-1] - offsets[0]) // _PARTS_OF_KEY_MAX
    return np.flatnonzero(np.diff(offsets) > far) + 1 if far else np.zeros(0, np.int64)


def _offsets_of_key(segment: LogSegment, key: bytes) -> Int64s | None:
    """Returns the rising offsets of the records of a segment that may have the key, by its key
    index; None if that is missing, damaged, or not up to date."""
    path = segment.path_of(KEY_INDEX_SUFFIX)
    if not segment.env.exists(path):
        return None
    try:
        with KeyIndex.open(path, env=segment.env) as index:
            is_fresh = index.base_offset == segment.base_offset and index.covers(segment.log.path) == segment.size_bytes
            return index.candidates(key)[::-1] if is_fresh else None
    except LogdexError:
        return None
