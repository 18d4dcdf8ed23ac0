"""Remembers which batches a follower has read, to find out from where on a log that was cut
differs.

A truncation leaves the beginning of a log as it is. So the batches that are still there come before
those that are not, and a binary search finds the last one that is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from logdex.errors import CorruptError
from logdex.kafka.batch.record_batch import RecordBatch
from logdex.kafka.segment.file_records import BatchHeader
from logdex.kafka.segment.log_segment import LogSegment
from logdex.layout.kafka import BATCH_DELETE_HORIZON, MAGIC_V2, RECORD_BATCH

SEEN_MAX = 4096
HEAD_SIZE_BYTES = RECORD_BATCH.size_bytes


class SeenBatch(NamedTuple):
    """A batch that was read."""

    base_offset: int
    last_offset: int
    crc: int

    @classmethod
    def of(cls, batch: RecordBatch) -> SeenBatch:
        """What to remember of a batch."""
        return cls(batch.base_offset, batch.last_offset, batch.crc)


class SeenBatches:
    """The batches that were read, in log order: all of the newest, fewer and fewer of the older
    ones, and always the first."""

    def __init__(self) -> None:
        self._seen: list[SeenBatch] = []

    def add(self, seen: SeenBatch) -> None:
        """Adds the next batch. Of the older half of too many, every second one is kept."""
        self._seen.append(seen)
        if len(self._seen) > SEEN_MAX:
            half = SEEN_MAX // 2
            self._seen = self._seen[:half:2] + self._seen[half:]

    def first_different_offset(self, is_there: Callable[[SeenBatch], bool]) -> int | None:
        """The first offset that may hold other records than those read; None if the last batch that
        was read is still there.

        It is the offset after the last remembered batch that is there, or 0 if none is: the log may
        now begin before the first one.
        """
        seen = self._seen
        if not seen or is_there(seen[-1]):
            return None
        low, high = 0, len(seen) - 1  # those below `low` are there, that at `high` is not
        while low < high:
            middle = (low + high) // 2
            if is_there(seen[middle]):
                low = middle + 1
            else:
                high = middle
        return seen[low - 1].last_offset + 1 if low else 0

    def end_offset(self, otherwise: int) -> int:
        """The offset after the last batch, or `otherwise` if there is none or that is larger."""
        return max(self._seen[-1].last_offset + 1, otherwise) if self._seen else otherwise

    def forget_from(self, offset: int) -> None:
        """Forgets the batches that have `offset` or more."""
        self._seen = [seen for seen in self._seen if seen.last_offset < offset]


def find_batch(segment: LogSegment, offset: int) -> tuple[BatchHeader | None, BatchHeader | None]:
    """(the last batch before `offset` on the way, the first batch that has `offset` or more), each
    None if there is none.

    An index entry that leads to no batch of its offset or before is not used: the index may be
    older than the log. Headers that are not valid end the search, as they may not be written yet.
    """
    start = _start_by_index(segment, offset)
    passed = None
    try:
        for header in segment.log.headers(start):
            if header.last_offset >= offset:
                return passed, header
            passed = header
    except CorruptError:
        pass
    return passed, None


def last_before(segment: LogSegment, offset: int) -> SeenBatch | None:
    """The last batch of a segment that begins before `offset`; None if there is none."""
    passed, holder = find_batch(segment, offset - 1)
    last = holder if holder is not None and holder.base_offset < offset else passed
    try:
        return None if last is None else SeenBatch.of(segment.log.batch_at(last.position))
    except CorruptError:
        return None


def _start_by_index(segment: LogSegment, offset: int) -> int:
    try:
        entry = segment.offset_index.lookup(offset)
        if not 0 < entry.position < segment.size_bytes:
            return 0
        first = next(segment.log.headers(entry.position), None)
    except CorruptError:
        return 0
    leads = first is not None and segment.base_offset <= first.base_offset <= entry.offset
    return entry.position if leads else 0


def is_in_segment(seen: SeenBatch, segment: LogSegment, *, is_last: bool, was_cut: bool) -> bool:
    """Whether a batch is still in the segment that has its offsets, or a compaction has replaced
    it.

    `is_last` says that no segment follows. With `was_cut` the file itself was truncated, so no
    compaction has written it.
    """
    _, header = find_batch(segment, seen.last_offset)
    if header is None:
        return not is_last and not was_cut  # compacted: behind the log's last batch nothing is
    if header.base_offset > seen.last_offset:
        return not was_cut  # compacted: a log that grows has no gaps
    if (header.base_offset, header.last_offset) != (seen.base_offset, seen.last_offset):
        return False
    try:
        batch = segment.log.batch_at(header.position)
    except CorruptError:
        return False
    return batch.crc == seen.crc or (not was_cut and _may_be_compacted(batch))


def _may_be_compacted(batch: RecordBatch) -> bool:
    """Whether a compaction may have written the batch anew: it has lost records, or was given a
    delete horizon."""
    if batch.magic != MAGIC_V2:
        return True
    has_all = batch.count == batch.last_offset - batch.base_offset + 1
    return not has_all or bool(batch.attributes & BATCH_DELETE_HORIZON)
