"""One segment of a partition: its .log, its offset index and time index, its transaction index.

Source: Kafka's LogSegment; ``docs/formats/kafka-offset-index.md``. `IndexFold` decides which
batches get index entries, on append as in recovery.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from logdex.errors import CorruptError, IndexFullError, UsageError
from logdex.kafka.segment.derive_indexes import IndexFold
from logdex.kafka.segment.file_records import LogOffsetPosition, TimestampAndOffset
from logdex.kafka.segment.segment_base import SegmentFiles
from logdex.kafka.segment.segment_lookups import (
    find_behind_damage,
    find_offsets_by_timestamps,
    is_undamaged,
    translate_offsets,
)
from logdex.kafka.segment.segment_recovery import DerivedSegment, OnColumns, derive_segment
from logdex.kernels.kafka.batch_columns import BatchColumns, Int64s, pick_columns

_NO_ENTRIES = np.empty((0, 2), np.int64)


class SegmentRead(NamedTuple):
    """The result of `LogSegment.read`: batches from `position` in the .log; the last may be
    incomplete."""

    position: int
    data: bytes
    first_batch_incomplete: bool
    """Whether `max_size_bytes` is less than the first batch."""


class LogSegment(SegmentFiles):
    """A segment; see `SegmentFiles` for its files. Close it after use.

    Thread-safety: one writer, any number of readers.
    """

    _fold: IndexFold | None = None
    _first_timestamp_ms: int | None = None

    # -- what is in it ----------------------------------------------------------------------------
    @property
    def max_timestamp(self) -> tuple[int, int]:
        """(largest known timestamp, last offset of its batch), or (-1, base offset).

        It comes from the batches appended or recovered by this object, else from the time index's
        last entry.
        """
        if self._fold is not None:
            return self._fold.max_timestamp
        entry = self.time_index.last_entry
        return entry.timestamp_ms, entry.offset

    def read_max_timestamp(self) -> tuple[int, int]:
        """As `max_timestamp`, including batches after the last time entry.

        A segment that another process writes may have no entry for these yet. Raises `CorruptError`
        as `FileRecords.headers` does.
        """
        return self._read_largest_timestamp() if self._fold is None else self._fold.max_timestamp

    @property
    def largest_timestamp_ms(self) -> int:
        """The largest known timestamp; if there is none, the .log's modification time, as in
        Kafka."""
        timestamp = self.max_timestamp[0]
        return timestamp if timestamp >= 0 else self.modified_ms

    @property
    def modified_ms(self) -> int:
        """The .log's modification time in milliseconds."""
        return self.env.modified_ns(self.log.path) // 1_000_000

    @property
    def first_batch_timestamp_ms(self) -> int | None:
        """The first batch's largest timestamp, from which the segment's age is counted, or None."""
        if self._first_timestamp_ms is None:
            header = next(self.log.headers(), None)
            if header is not None:
                self._first_timestamp_ms = header.max_timestamp_ms
        known = self._first_timestamp_ms
        return known if known is not None and known >= 0 else None

    def read_next_offset(self) -> int:
        """The offset after the last batch, found from the index's last entry; the base offset if
        empty.

        Raises `CorruptError` for an invalid batch header.
        """
        found = self.locate(self.offset_index.last_offset)
        last = None if found is None else self.log.last_header(found.position)
        return self.base_offset if last is None else last.last_offset + 1

    # -- looking up -------------------------------------------------------------------------------
    def translate_offset(self, offset: int, start_position: int = 0) -> LogOffsetPosition | None:
        """The first batch with a last offset of at least `offset`, or None. It may begin before
        `offset`."""
        entry = self.offset_index.lookup(offset)
        return self.log.search_for_offset(offset, max(self._checked(entry.position), start_position))

    def locate(self, offset: int) -> LogOffsetPosition | None:
        """As `translate_offset`, but verifies the index entry that is used.

        The broker follows a wrong entry. This method raises `CorruptError` if no batch begins at
        the entry's position, or if that batch begins after the entry's offset, so that batches
        would be skipped. A correct entry points to the batch that has its offset or (older brokers)
        to an earlier one.
        """
        return self.log.search_for_offset(offset, self._verified_position(offset))

    def _verified_position(self, offset: int) -> int:
        """The position of the index entry for `offset`, as `locate` verifies it."""
        entry = self.offset_index.lookup(offset)
        position = self._checked(entry.position)
        if position == 0:
            return 0
        header = next(self.log.headers(position), None)
        found = None
        if header is not None or position < self.size_bytes:  # a batch, or one that the end of the .log truncates
            first = int.from_bytes(self.log.read(position, 8), "big", signed=True)
            if not self.base_offset <= first <= entry.offset:
                found = f"byte {position}, where offset {first} would be"
        elif position >= self.env.size_bytes(self.log.path):  # otherwise written after this was opened
            found = f"byte {position}, behind the end"
        if found is not None:
            raise CorruptError(
                "an .index entry leads to a wrong position",
                path=self.offset_index.path,
                position=0,
                field="position",
                expected=f"a batch with offset {entry.offset}",
                found=found,
                hint="rebuild the index: logdex rebuild",
            )
        return position

    def locate_readable(self, offset: int) -> LogOffsetPosition | None:
        """As `locate`, for reading on from there, behind damage too.

        The headers alone may lead into a record of a damaged batch. So the checksums from the index
        entry on are verified, and where one is wrong, the search goes on as for all readers. Raises
        `CorruptError` if no batch has `offset` and a damaged batch that may have it was passed.
        """
        start = self._verified_position(offset)
        try:
            found = self.log.search_for_offset(offset, start)
        except CorruptError:
            return find_behind_damage(self, offset, start)
        stop = self.size_bytes if found is None else found.position
        if start == stop or is_undamaged(self, start, stop):
            return found
        return find_behind_damage(self, offset, start)

    def _checked(self, position: int) -> int:
        """Refuses a negative position from the index. A position after the .log's end finds
        nothing."""
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
        """`translate_offset` for many offsets (int64): (base offset, position, size)[n, 3], -1 for
        none."""
        return translate_offsets(self, np.ascontiguousarray(offsets, np.int64))

    def find_offset_by_timestamp(self, timestamp_ms: int, start_offset: int | None = None) -> TimestampAndOffset | None:
        """The first record with at least this timestamp and offset, or None.

        `start_offset` is by default the base offset.
        """
        start = self.base_offset if start_offset is None else start_offset
        near = self.time_index.lookup(timestamp_ms)
        position = self._checked(self.offset_index.lookup(max(near.offset, start)).position)
        return self.log.search_for_timestamp(timestamp_ms, position, start)

    def find_offsets_by_timestamps(self, timestamps_ms: npt.ArrayLike) -> Int64s:
        """`find_offset_by_timestamp` for many timestamps (int64): (timestamp, offset, leader
        epoch)[n, 3].

        The offset is -1 if there is no such record.
        """
        return find_offsets_by_timestamps(self, np.ascontiguousarray(timestamps_ms, np.int64))

    def read(
        self, start_offset: int, max_size_bytes: int, max_position: int | None = None, *, min_one_message: bool = False
    ) -> SegmentRead | None:
        """Reads from the first batch with a last offset of at least `start_offset`, or returns
        None.

        Returns at most `max_size_bytes` bytes, none of them at `max_position` or after;
        `min_one_message` returns the first batch as a whole anyway. The first batch may begin
        before `start_offset`, the last may be incomplete.
        """
        if max_size_bytes < 0:
            raise UsageError(f"max_size_bytes is {max_size_bytes}", hint="use 0 or more")
        found = self.locate_readable(start_offset)
        if found is None:
            return None
        return self.read_from(found, max_size_bytes, max_position, min_one_message=min_one_message)

    def read_from(
        self,
        found: LogOffsetPosition,
        max_size_bytes: int,
        max_position: int | None = None,
        *,
        min_one_message: bool = False,
    ) -> SegmentRead:
        """As `read`, from a batch whose place is known."""
        size = max(max_size_bytes, found.size_bytes) if min_one_message else max_size_bytes
        end = self.size_bytes if max_position is None else min(max_position, self.size_bytes)
        data = self.log.read(found.position, min(size, max(0, end - found.position)))
        return SegmentRead(found.position, data, size < found.size_bytes)

    # -- writing ----------------------------------------------------------------------------------
    @property
    def _current_fold(self) -> IndexFold:
        """The fold, continued from the indexes' last entries. As in Kafka, its byte count restarts
        at 0."""
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
        """Appends batches and returns the position of the first.

        `columns` are the columns of `data`, with positions from its start. Before anything is
        written, raises `OffsetOverflowError` for an offset that the segment cannot hold,
        `OffsetOrderError` and `IndexFullError`. Nothing is synced.
        """
        if not len(data):
            return self.size_bytes
        fold = self._current_fold.copy()
        entries = fold.add(columns._replace(position=columns.position + self.size_bytes))
        return self._append(data, int(columns.max_timestamp_ms[0]), fold, *entries)

    def append_one(self, data: bytes, last_offset: int, max_timestamp_ms: int) -> int:
        """As `append`, for one batch that has records, without arrays."""
        fold = self._current_fold.copy()
        offset_entries, time_entries = fold.add_one(self.size_bytes, last_offset, max_timestamp_ms, len(data))
        if not offset_entries:  # and so no time entry
            return self._append(data, max_timestamp_ms, fold, _NO_ENTRIES, _NO_ENTRIES)
        entries = [np.array(each, np.int64).reshape(-1, 2) for each in (offset_entries, time_entries)]
        return self._append(data, max_timestamp_ms, fold, *entries)

    def _append(
        self,
        data: bytes | memoryview,
        first_timestamp_ms: int,
        fold: IndexFold,
        offset_entries: Int64s,
        time_entries: Int64s,
    ) -> int:
        start = self.size_bytes
        self.offset_index.require_room(len(offset_entries))
        self.time_index.require_room(len(time_entries))
        self.log.append(data)
        if start == 0:
            self._first_timestamp_ms = first_timestamp_ms
        self.offset_index.append_many(offset_entries)
        self.time_index.append_many(time_entries)
        self._fold = fold
        return start

    def append_some(self, data: memoryview, columns: BatchColumns, start: int, stop: int) -> int:
        """Appends batches [`start`, `stop`) of `data`, or fewer if the indexes lack room for them.

        Returns the number of the batch after the last appended one. Raises `IndexFullError` if not
        even one fits, and otherwise as `append` does.
        """
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
        """Whether batches of this size, largest timestamp and last offset belong in a new segment.

        They do if they exceed segment_bytes, if the segment is older than segment_ms (by timestamps
        from its first batch to these; without timestamps, by the clock since its creation), if an
        index is full, or if the offset is too far from the base offset.
        """
        if self.size_bytes > self.config.segment_bytes - incoming_size_bytes:
            return True
        if self.size_bytes > 0 and self.time_waited_for_roll_ms(now_ms, max_timestamp_ms) > self.config.segment_ms:
            return True
        if self.offset_index.is_full or self.time_index.is_full:
            return True
        return not self.offset_index.can_append_offset(max_offset)

    def time_waited_for_roll_ms(self, now_ms: int, max_timestamp_ms: int) -> int:
        """The segment's age as of a batch with this timestamp, as `should_roll` defines it."""
        first = self.first_batch_timestamp_ms
        return now_ms - self.created_ms if first is None else max_timestamp_ms - first

    def truncate_to(self, offset: int) -> int:
        """Removes batches from the first with a last offset of at least `offset`, and index entries
        from `offset`.

        The indexes are preallocated again. Returns the number of bytes removed from the .log.
        """
        found = self.locate(offset)
        largest = self.max_timestamp[0]
        for index, spare in ((self.offset_index, 0), (self.time_index, 1)):  # the roll may need a slot
            index.truncate_to(offset)
            index.resize(max(index.max_size_bytes, (index.entries + spare) * index.layout.size_bytes))
        self.txn_index.truncate_to(offset)
        dropped = 0 if found is None else self.cut_log(found.position)
        if self.size_bytes == 0:
            self.created_ms, self._first_timestamp_ms = self.clock_ms(), None
        self._fold = self._fold_from_indexes(self._read_largest_timestamp() if largest >= 0 else None)
        return dropped

    def _read_largest_timestamp(self) -> tuple[int, int]:
        """The largest timestamp of the last time entry and the batches after it."""
        last = self.time_index.last_entry
        after = self.log.largest_timestamp_after(self.offset_index.lookup(last.offset).position)
        if after.timestamp_ms > last.timestamp_ms:
            return after.timestamp_ms, after.offset
        return last.timestamp_ms, last.offset

    def recover(self, on_columns: OnColumns | None = None) -> DerivedSegment:
        """Checks every batch, rebuilds and trims the offset and time indexes, truncates the .log
        after the last good batch.

        `on_columns` is called with each window of good batches. Raises `OffsetOverflowError` or
        `OffsetOrderError` before anything is changed. The caller rebuilds the transaction index,
        which needs the state of all producers.
        """
        interval = self.config.index_interval_bytes
        derived = derive_segment(self.log.path, self.base_offset, interval, on_columns=on_columns, env=self.env)
        self.log.refresh()
        self.cut_log(derived.size_bytes)
        self.offset_index.rewrite(derived.offset_index)
        self.time_index.rewrite(derived.time_index)
        self._first_timestamp_ms = None
        self._fold = self._fold_from_indexes(None)
        return derived

    def on_become_inactive(self) -> None:
        """Adds the final time entry and trims both indexes, for a rolled segment or a clean
        close."""
        timestamp, offset = self.max_timestamp
        if timestamp > self.time_index.last_entry.timestamp_ms:
            self.time_index.maybe_append(timestamp, offset, on_roll=True)
        self.offset_index.trim_to_valid_size()
        self.time_index.trim_to_valid_size()
