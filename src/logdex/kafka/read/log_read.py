"""Reads batches and records, also only committed ones, by offset from the segments of a log.

Works on any rising sequence of segments: those of an open log, a snapshot or the directory of a
live broker.

Source: Kafka's LocalLog.read. For what is committed see `logdex.kafka.read.committed`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from logdex.errors import CorruptError, OffsetOrderError, OffsetOutOfRangeError, TruncatedError, UsageError
from logdex.kafka.batch.record import Record
from logdex.kafka.batch.record_batch import RecordBatch, decode_batch
from logdex.kafka.read.committed import AbortedTransactions, find_aborted
from logdex.kafka.scan.rising_batches import CONTRADICTION
from logdex.kafka.segment.file_records import UP_TO_MAGIC_SIZE_BYTES, LogOffsetPosition, stated_size
from logdex.kafka.segment.log_segment import LogSegment, SegmentRead
from logdex.kafka.segment.log_segments import floor_segment
from logdex.kafka.segment.transaction_index import AbortedTxn
from logdex.primitives.wrong_questions import require_bool, require_counts, require_given, require_longs

READ_UNCOMMITTED = "read_uncommitted"
READ_COMMITTED = "read_committed"
READ_BYTES = 1 << 20
"""The default of max.partition.fetch.bytes."""
_SECOND_READ_BYTES = 4096


def check_isolation(isolation: str) -> None:
    """Raises `UsageError` unless `isolation` is ``read_uncommitted`` or ``read_committed``."""
    if isolation not in (READ_UNCOMMITTED, READ_COMMITTED):
        raise UsageError(f"isolation is {isolation!r}", hint="say read_uncommitted or read_committed")


class LogView(NamedTuple):
    """What a read may use: the segments, and the offsets [`log_start_offset`, `end_offset`) in
    them. `log_end_offset` is the end of the log; offsets between `end_offset` and it are not
    visible yet."""

    segments: Sequence[LogSegment]
    log_start_offset: int
    end_offset: int
    log_end_offset: int
    path: str

    def check_offset(self, offset: int) -> None:
        """Raises `OffsetOutOfRangeError` if `offset` lies before the log's start or after its
        end, and `UsageError` for what is no offset."""
        require_given(offset=offset)
        if not self.log_start_offset <= offset <= self.log_end_offset:
            raise OffsetOutOfRangeError(
                offset, path=self.path, log_start_offset=self.log_start_offset, log_end_offset=self.log_end_offset
            )


def read_batches(
    view: LogView,
    offset: int,
    max_bytes: int,
    *,
    after: RecordBatch | None = None,
    first_bytes_max: int | None = None,
    before_damage: bool = False,
) -> list[RecordBatch]:
    """Returns batches from the one that holds `offset` (or the next one) on, with their checksums
    checked. They have at most `max_bytes` together, but the first is returned whatever its size, or
    if it has at most `first_bytes_max`. The first may begin before `offset`; none reaches
    `end_offset`.

    `after` is the batch before `offset`, where reading goes on: what follows must fit it. With
    `before_damage`, batches before a damaged one are returned, and the error is raised by the read
    that begins with it.
    """
    require_longs(offset=offset)
    require_counts(max_bytes=max_bytes)
    view.check_offset(offset)
    found: list[RecordBatch] = []
    if offset < view.end_offset:
        try:
            for batch in _batches_from(view, offset, max_bytes, after, first_bytes_max):
                found.append(batch)  # so that those before damage are kept
        except CorruptError:
            if not (found and before_damage):
                raise
    return found


def _batches_from(
    view: LogView, offset: int, max_bytes: int, after: RecordBatch | None, first_bytes_max: int | None
) -> Iterator[RecordBatch]:
    left = max_bytes
    for segment in _segments_from(view, offset if after is None else after.last_offset):
        if segment.base_offset >= view.end_offset or (left < max_bytes and left <= 0):
            break
        before, place = after, None if after is None else _place_after(segment, after)
        if place is None:
            before, place = None, segment.locate_readable(offset)
        if place is None:
            if segment is not view.segments[-1]:
                _check_end(segment)
            continue  # nothing at or after the offset in this segment
        is_first_taken = left == max_bytes and (first_bytes_max is None or place.size_bytes <= first_bytes_max)
        read = segment.read_from(place, left, min_one_message=is_first_taken)
        behind = read.position
        for batch in _batches_of(read, segment, view.end_offset, before):
            yield batch
            left -= batch.size_bytes
            behind += batch.size_bytes
        if behind < segment.size_bytes == read.position + len(read.data) and segment is not view.segments[-1]:
            _check_end(segment, behind)
        if read.position + len(read.data) < segment.size_bytes:
            break  # max_bytes was reached, not the segment's end


def _place_after(segment: LogSegment, batch: RecordBatch) -> LogOffsetPosition | None:
    """Returns the batch that follows `batch`, whatever its offsets, if `batch` was read from this
    segment. At the segment's end it has no bytes. None if `batch` is not there any more, or nothing
    whole follows it.

    Raises `CorruptError` for an invalid header, and as `locate_readable` does.
    """
    found = segment.locate_readable(batch.last_offset) if batch.path == segment.log.path else None
    if found is None or (found.position, found.size_bytes) != (batch.position, batch.size_bytes):
        return None
    headers = segment.log.headers(found.position)
    known = next(headers, None)
    if known is None or (known.base_offset, known.last_offset) != (batch.base_offset, batch.last_offset):
        return None
    following = next(headers, None)
    if following is not None:
        return LogOffsetPosition(following.base_offset, following.position, following.size_bytes)
    return LogOffsetPosition(known.last_offset + 1, known.end, 0) if known.end == segment.size_bytes else None


def more_bytes(size_bytes: int) -> int:
    """How much is read after `size_bytes` by whoever may need little and may need all: 0 (one
    batch), and then more and more."""
    return min(max(2 * size_bytes, _SECOND_READ_BYTES), READ_BYTES)


def _portions(view: LogView, offset: int, max_bytes: int, size_bytes: int) -> Iterator[list[RecordBatch]]:
    """Yields what `read_batches` returns in portions, which are read when they are needed. The
    first has about `size_bytes`."""
    after, left = None, max_bytes
    while True:
        first_bytes_max = None if after is None else left
        portion = read_batches(view, offset, min(size_bytes, left), after=after, first_bytes_max=first_bytes_max)
        if not portion:
            return
        yield portion
        after = portion[-1]
        left -= sum(batch.size_bytes for batch in portion)
        if left <= 0 or after.last_offset < offset:
            return
        offset, size_bytes = after.last_offset + 1, more_bytes(size_bytes)


def _check_end(segment: LogSegment, position: int | None = None) -> None:
    """Raises `TruncatedError` if a segment with another one after it does not end with a whole
    batch, because then records are missing. The check starts at the batch at `position`, or at the
    last batch in the index if that is None."""
    if position is None:
        found = segment.locate(segment.offset_index.last_offset)
        position = 0 if found is None else found.position
    last = segment.log.last_header(position)
    position = position if last is None else last.end
    if position < segment.size_bytes:
        raise TruncatedError(
            "the segment ends within a batch, and another one follows",
            path=segment.log.path,
            position=position,
            expected="a whole batch",
            found=f"{segment.size_bytes - position} bytes",
            hint="logdex recover saves what is whole",
        )


def locate(segments: Sequence[LogSegment], offset: int) -> tuple[LogSegment, LogOffsetPosition] | None:
    """Returns the segment and the position of the batch that holds `offset`, or of the next batch,
    through the offset index; None after the last batch."""
    for segment in segments[max(bisect_right(segments, offset, key=lambda each: each.base_offset) - 1, 0) :]:
        found = segment.locate(offset)
        if found is not None:
            return segment, found
    return None


def _segments_from(view: LogView, offset: int) -> Iterator[LogSegment]:
    first = floor_segment(tuple(view.segments), offset)
    for segment in view.segments:
        if first is None or segment.base_offset >= first.base_offset:
            yield segment


def _batches_of(
    read: SegmentRead, segment: LogSegment, end_offset: int, before: RecordBatch | None
) -> Iterator[RecordBatch]:
    """Yields the whole batches of `read` that lie below `end_offset`. Raises `OffsetOrderError` if
    their offsets do not rise, that of `before` included, because no checksum covers a batch's base
    offset."""
    data, at = read.data, 0
    while at + UP_TO_MAGIC_SIZE_BYTES <= len(data):
        size = stated_size(data, at)
        if size > len(data) - at:
            return
        position = read.position + at
        try:
            batch, size = decode_batch(data, at, path=segment.log.path, check_crc=False)
        except CorruptError:
            next(segment.log.headers(position), None)  # raises the error with its place in the file
            raise
        batch = replace(batch, position=position)
        batch.check_crc()  # before its offsets are used
        if before is not None and batch.base_offset <= before.last_offset and not _is_again(batch, before):
            raise _contradiction(batch, before.last_offset + 1, segment)
        if batch.last_offset >= end_offset:
            following = next(segment.log.headers(position + size), None)
            if following is not None and following.last_offset < batch.base_offset:
                raise _contradiction(batch, following.base_offset - 1, segment)
            return
        yield batch
        before = batch
        at += size


def _is_again(batch: RecordBatch, before: RecordBatch) -> bool:
    """Whether a batch is the one before it a second time, perhaps without its records: compaction
    may leave it, and brokers serve it."""
    is_same = (batch.base_offset, batch.last_offset) == (before.base_offset, before.last_offset)
    return is_same and (batch.crc == before.crc or 0 in (batch.count, before.count))


def _contradiction(batch: RecordBatch, expected: int, segment: LogSegment) -> OffsetOrderError:
    path, found = segment.log.path, batch.base_offset
    return OffsetOrderError(
        CONTRADICTION, path=path, position=batch.position, field="base_offset", expected=expected, found=found
    )


def collect_aborted(view: LogView, offset: int, upper_offset: int) -> list[AbortedTxn]:
    """Returns the aborted transactions with records in [`offset`, `upper_offset`) that the
    transaction indexes hold. This is what a broker returns; the cleaner may change the indexes."""
    found: list[AbortedTxn] = []
    for segment in _segments_from(view, offset):
        result = segment.txn_index.collect_aborted_txns(offset, upper_offset)
        found += result.aborted
        if result.is_complete:
            break
    return found


def visible_batches(
    view: LogView, batches: Sequence[RecordBatch], isolation: str, control: bool
) -> Iterator[RecordBatch]:
    """Returns the batches that a reader at `isolation` may see, of `batches` that were read in
    order. With `control`, control batches are included. Whatever must be read from the log is read
    before this returns."""
    aborted = AbortedTransactions()
    if isolation == READ_COMMITTED and any(batch.is_transactional and not batch.is_control for batch in batches):
        aborted = find_aborted(view.segments, batches[0].base_offset, batches[-1].last_offset + 1)
    return (batch for batch in batches if (control or not batch.is_control) and not aborted.has(batch))


def read_records(
    view: LogView, offset: int, max_bytes: int, isolation: str, *, max_records: int | None, control: bool
) -> list[Record]:
    """Returns records from `offset` on, see `Log.read`. Skips batches without visible records. With
    `max_records`, batches behind the last of these records are hardly read. Raises `UsageError` for
    a negative `max_records`."""
    require_bool("control", control)
    require_given(max_bytes=max_bytes)
    require_counts(max_records=max_records)
    records: list[Record] = []
    position = offset
    while True:
        begin = position
        for portion in _portions(view, position, max_bytes, max_bytes if max_records is None else 0):
            for batch in visible_batches(view, portion, isolation, control):
                for record in batch.records():
                    if record.offset < offset:
                        continue
                    if max_records is not None and len(records) >= max_records:
                        return records
                    records.append(record)
                if len(records) == max_records:
                    return records
            position = portion[-1].last_offset + 1
        if records or position <= begin:
            return records
