"""One segment of a log: its .log, the two sparse indexes over it and the index of aborted transactions.

Source: Kafka's LogSegment; ``docs/formats/kafka-offset-index.md``. Which batches get index entries is decided by the
fold of `index_fold`, here as in recovery.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from logdex.errors import CorruptError, IndexFullError, UsageError
from logdex.kafka.segment.derive_indexes import IndexFold
from logdex.kafka.segment.file_records import LogOffsetPosition, TimestampAndOffset
from logdex.kafka.segment.segment_base import SegmentFiles
from logdex.kafka.segment.segment_lookups import find_offsets_by_timestamps, translate_offsets
from logdex.kafka.segment.segment_recovery import DerivedSegment, OnColumns, derive_segment
from logdex.kernels.kafka.batch_columns import BatchColumns, Int64s, pick_columns


class SegmentRead(NamedTuple):
    """What `LogSegment.read` gives: whole batches but perhaps the last, from `position` in the .log on."""

    position: int
    data: bytes
    first_batch_incomplete: bool
    """Whether `max_size_bytes` cut even the first batch."""


class LogSegment(SegmentFiles):
    """A segment; see `SegmentFiles` for its files. Close it when done.

    Thread-safety: one writer; look-ups and reads may come from any thread beside it.
    """

    _fold: IndexFold | None = None
    _first_timestamp_ms: int | None = None

    # -- what is in it -------------------------------------------------------------------------------------------------
    @property
    def max_timestamp(self) -> tuple[int, int]:
        """The largest timestamp known and the last offset of its batch: of the batches that were appended or recovered
        here, or the time index's last entry; (-1, base offset) if there is none."""
        if self._fold is not None:
            return self._fold.max_timestamp
        entry = self.time_index.last_entry
        return entry.timestamp_ms, entry.offset

    @property
    def largest_timestamp_ms(self) -> int:
        """The largest timestamp known; where none is, the time at which the .log was last changed, as for Kafka."""
        timestamp = self.max_timestamp[0]
        return timestamp if timestamp >= 0 else self.modified_ms

    @property
    def modified_ms(self) -> int:
        """When the .log was last changed."""
        return self.env.modified_ns(self.log.path) // 1_000_000

    @property
    def first_batch_timestamp_ms(self) -> int | None:
        """The first batch's largest timestamp, which the age of the segment counts from; None without one."""
        if self._first_timestamp_ms is None:
            header = next(self.log.headers(), None)
            if header is not None:
                self._first_timestamp_ms = header.max_timestamp_ms
        known = self._first_timestamp_ms
        return known if known is not None and known >= 0 else None

    def read_next_offset(self) -> int:
        """The offset behind the last batch, which is walked to from the index's last entry; the base offset if none.

        Raises `CorruptError` for bytes on the way that begin no batch.
        """
        found = self.locate(self.offset_index.last_offset)
        last = None if found is None else self.log.last_header(found.position)
        return self.base_offset if last is None else last.last_offset + 1

    # -- looking up ----------------------------------------------------------------------------------------------------
    def translate_offset(self, offset: int, start_position: int = 0) -> LogOffsetPosition | None:
        """The first batch whose last offset is `offset` or above (it may begin before it); None if there is none."""
        entry = self.offset_index.lookup(offset)
        return self.log.search_for_offset(offset, max(self._checked(entry.position), start_position))

    def locate(self, offset: int) -> LogOffsetPosition | None:
        """`translate_offset` that does not follow an entry astray, as the broker would: `CorruptError` where the
        batch at the entry's position is none, or begins behind the entry's offset, so that others were passed over.

        At an index entry's position begins the batch that holds its offset, or (indexes of older brokers) one before.
        """
        entry = self.offset_index.lookup(offset)
        position = self._checked(entry.position)
        if position == 0:
            return self.log.search_for_offset(offset)
        header = next(self.log.headers(position), None)
        found = None
        if header is not None or position < self.size_bytes:  # a batch, or one that the log's end has cut
            first = int.from_bytes(self.log.read(position, 8), "big", signed=True)
            if not self.base_offset <= first <= entry.offset:
                found = f"byte {position}, where offset {first} would be"
        elif position >= self.env.size_bytes(self.log.path):  # else written since this was opened
            found = f"byte {position}, behind the end"
        if found is not None:
            raise CorruptError(
                "the .index leads astray",
                path=self.offset_index.path,
                position=0,
                field="position",
                expected=f"a batch with offset {entry.offset}",
                found=found,
                hint="rebuild the index: logdex rebuild",
            )
        return self.log.search_for_offset(offset, position)

    def locate_readable(self, offset: int) -> LogOffsetPosition | None:
        """`locate` for who reads on from there: where no batch holds `offset`, `CorruptError` if the one before that
        place is damaged, whose header may then hide that it does."""
        found = self.locate(offset)
        if found is not None and found.offset <= offset:
            return found
        passed = None
        for header in self.log.headers(self.offset_index.lookup(offset).position, found.position if found else None):
            passed = header
        if passed is not None:
            self.log.batch_at(passed.position).check_crc()
        return found

    def _checked(self, position: int) -> int:
        """A position out of the index, which no writer made negative. One behind the log's end finds nothing."""
        if position < 0:
            raise CorruptError(
                "an entry's position is negative",
                path=self.offset_index.path,
                position=0,
                field="position",
                expected="0 or above",
                found=position,
                hint="rebuild the index: logdex rebuild",
            )
        return position

    def translate_offsets(self, offsets: npt.ArrayLike) -> Int64s:
        """`translate_offset` of many (int64): (base offset, position, size)[n, 3], all -1 where there is none."""
        return translate_offsets(self, np.ascontiguousarray(offsets, np.int64))

    def find_offset_by_timestamp(self, timestamp_ms: int, start_offset: int | None = None) -> TimestampAndOffset | None:
        """The first record at or after `timestamp_ms` whose offset is `start_offset` (the base offset) or above."""
        start = self.base_offset if start_offset is None else start_offset
        near = self.time_index.lookup(timestamp_ms)
        position = self._checked(self.offset_index.lookup(max(near.offset, start)).position)
        return self.log.search_for_timestamp(timestamp_ms, position, start)

    def find_offsets_by_timestamps(self, timestamps_ms: npt.ArrayLike) -> Int64s:
        """`find_offset_by_timestamp` of many (int64): (timestamp, offset, leader epoch)[n, 3], offset -1 where none."""
        return find_offsets_by_timestamps(self, np.ascontiguousarray(timestamps_ms, np.int64))

    def read(
        self, start_offset: int, max_size_bytes: int, max_position: int | None = None, *, min_one_message: bool = False
    ) -> SegmentRead | None:
        """Bytes from the batch that holds `start_offset` or the next one on; None where there is none.

        At most `max_size_bytes`, and none from `max_position` on; `min_one_message`: the first batch as a whole anyway.
        Batches are given as they lie: the first may begin before `start_offset`, the last may be cut.
        """
        if max_size_bytes < 0:
            raise UsageError(f"max_size_bytes is {max_size_bytes}", hint="say 0 or more")
        found = self.locate_readable(start_offset)
        if found is None:
            return None
        size = max(max_size_bytes, found.size_bytes) if min_one_message else max_size_bytes
        end = self.size_bytes if max_position is None else min(max_position, self.size_bytes)
        data = self.log.read(found.position, min(size, max(0, end - found.position)))
        return SegmentRead(found.position, data, size < found.size_bytes)

    # -- writing -------------------------------------------------------------------------------------------------------
    @property
    def _current_fold(self) -> IndexFold:
        """The fold, taken up where the indexes end: its count of bytes begins anew, as Kafka's does on opening."""
        if self._fold is None:
            self._fold = self._fold_from_indexes(None)
        return self._fold

    def _fold_from_indexes(self, max_timestamp: tuple[int, int] | None) -> IndexFold:
        index, times = self.offset_index, self.time_index
        return IndexFold(
            self.base_offset,
            self.config.index_interval_bytes,
            path=self.log.path,
            last_index_offset=index.last_offset if index.entries else None,
            last_time=times.last_entry if times.entries else None,
            max_timestamp=max_timestamp,
        )

    def append(self, data: bytes | memoryview, columns: BatchColumns) -> int:
        """Writes batches behind the others; gives the position of the first.

        `columns` are those of `data`, positions from its start. Before anything is written: `OffsetOverflowError` for
        an offset that the segment cannot hold, `OffsetOrderError`, `IndexFullError`. Nothing is synced.
        """
        if not len(data):
            return self.size_bytes
        start = self.size_bytes
        fold = self._current_fold.copy()
        offset_entries, time_entries = fold.add(columns._replace(position=columns.position + start))
        self.offset_index.require_room(len(offset_entries))
        self.time_index.require_room(len(time_entries))
        self.log.append(data)
        if start == 0:
            self._first_timestamp_ms = int(columns.max_timestamp_ms[0])
        self.offset_index.append_many(offset_entries)
        self.time_index.append_many(time_entries)
        self._fold = fold
        return start

    def append_some(self, data: memoryview, columns: BatchColumns, start: int, stop: int) -> int:
        """Appends the batches [`start`, `stop`) of those in `data`, fewer where the indexes have no room for so many;
        gives the place behind the last. `IndexFullError` where not even one fits, and else as `append`."""
        begin = int(columns.position[start])
        while True:
            end = int(columns.position[stop - 1]) + int(columns.size[stop - 1])
            is_all = stop - start == len(columns.position)
            part = columns if is_all else pick_columns(columns, slice(start, stop))
            try:
                self.append(data[begin:end], part._replace(position=part.position - begin))
                return stop
            except IndexFullError:
                if stop - start == 1:
                    raise
                stop = start + (stop - start) // 2

    def should_roll(self, *, incoming_size_bytes: int, max_timestamp_ms: int, max_offset: int, now_ms: int) -> bool:
        """Whether batches of that size, largest timestamp and last offset belong into a new segment.

        They do where they would not fit segment_bytes, where the segment is older than segment_ms (by timestamps from
        its first batch to theirs; without timestamps, by the clock since it was made), where an index is full,
        and where the offset is too far from the base offset.
        """
        if self.size_bytes > self.config.segment_bytes - incoming_size_bytes:
            return True
        if self.size_bytes > 0 and self.time_waited_for_roll_ms(now_ms, max_timestamp_ms) > self.config.segment_ms:
            return True
        if self.offset_index.is_full or self.time_index.is_full:
            return True
        return not self.offset_index.can_append_offset(max_offset)

    def time_waited_for_roll_ms(self, now_ms: int, max_timestamp_ms: int) -> int:
        """The segment's age when a batch with that timestamp comes, as `should_roll` says."""
        first = self.first_batch_timestamp_ms
        return now_ms - self.created_ms if first is None else max_timestamp_ms - first

    def truncate_to(self, offset: int) -> int:
        """Drops batches from the first that holds `offset` or more on, and index entries at it and above; the indexes
        are preallocated anew. Gives how many bytes of log went."""
        found = self.locate(offset)
        largest = self.max_timestamp[0]
        for index in (self.offset_index, self.time_index):
            index.truncate_to(offset)
            index.resize(index.max_size_bytes)
        self.txn_index.truncate_to(offset)
        dropped = 0 if found is None else self.log.truncate_to(found.position)
        if self.size_bytes == 0:
            self.created_ms, self._first_timestamp_ms = self.clock_ms(), None
        self._fold = self._fold_from_indexes(self._read_largest_timestamp() if largest >= 0 else None)
        return dropped

    def _read_largest_timestamp(self) -> tuple[int, int]:
        """Of the last time entry and the batches behind it."""
        last = self.time_index.last_entry
        after = self.log.largest_timestamp_after(self.offset_index.lookup(last.offset).position)
        if after.timestamp_ms > last.timestamp_ms:
            return after.timestamp_ms, after.offset
        return last.timestamp_ms, last.offset

    def recover(self, on_columns: OnColumns | None = None) -> DerivedSegment:
        """Checks every batch, rebuilds both sparse indexes (trimmed), and cuts the log behind the last good batch.

        `on_columns` sees each window of good batches. `OffsetOverflowError`, `OffsetOrderError`: nothing was changed.
        Aborted transactions are the caller's: they follow from the state of all producers.
        """
        interval = self.config.index_interval_bytes
        derived = derive_segment(self.log.path, self.base_offset, interval, on_columns=on_columns, env=self.env)
        self.log.refresh()
        self.log.truncate_to(derived.size_bytes)
        self.offset_index.rewrite(derived.offset_index)
        self.time_index.rewrite(derived.time_index)
        self._first_timestamp_ms = None
        self._fold = self._fold_from_indexes(None)
        return derived

    def on_become_inactive(self) -> None:
        """For a segment that is rolled, or active at a clean close: the final time entry, both indexes trimmed."""
        timestamp, offset = self.max_timestamp
        if timestamp > self.time_index.last_entry.timestamp_ms:
            self.time_index.maybe_append(timestamp, offset, on_roll=True)
        self.offset_index.trim_to_valid_size()
        self.time_index.trim_to_valid_size()
