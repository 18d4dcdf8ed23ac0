"""Compaction: keeps the last record of every key, and tombstones and transaction markers for a
while.

Source: Kafka's LogCleaner, LogCleanerManager, Cleaner; ``docs/design/0007-compaction.md`` lists the
differences. A round maps the keys of the part that is not clean yet, then rewrites groups of
segments, and replaces each group as a whole. If the map is full before the end, another round
follows. Appends and reads go on meanwhile. Inactive segments are read in pieces, so that truncation
and retention wait for one piece at most. If these remove a segment that is being cleaned, the
compaction ends, and its unfinished group is dropped.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NoReturn

import numpy as np

from logdex import limits
from logdex.errors import CorruptError, LogClosedError, TruncatedError, UsageError
from logdex.kafka.columns.record_columns import read_record_batches
from logdex.kafka.log.cleaner.cleaned_segments import CleanedSegments
from logdex.kafka.log.cleaner.filter import BatchFilter, LastRecord, batch_at, emptied, rows_of
from logdex.kafka.log.cleaner.offset_map import DEDUPE_BUFFER_BYTES, OffsetMap
from logdex.kafka.log.cleaner.transactions import CleanedTransactions
from logdex.kafka.log.core import LogCore
from logdex.kafka.log.retention import apply_retention
from logdex.kafka.read.log_read import LogView, collect_aborted
from logdex.kafka.scan.scanner import BatchScanner, BatchWindow, EndKind
from logdex.kafka.segment.file_records import stated_size
from logdex.kafka.segment.log_segment import LogSegment
from logdex.kafka.segment.transaction_index import AbortedTxn
from logdex.layout.kafka import BATCH_CONTROL, MAGIC_V2

_PIECE_BYTES = 4 << 20


@dataclass(slots=True)
class CompactionReport:
    """The result of a compaction.

    The offsets [`first_dirty_offset`, `end_offset`) were cleaned. Sizes are those of all inactive
    segments. `keyless_dropped` counts records without a key, which a compacted log does not keep.
    `interrupted` is the reason of an early end, or None; groups that were replaced before it stay
    replaced.
    """

    first_dirty_offset: int
    end_offset: int
    rounds: int = 0
    segments_before: int = 0
    segments_after: int = 0
    size_bytes_before: int = 0
    size_bytes_after: int = 0
    records_read: int = 0
    records_kept: int = 0
    keyless_dropped: int = 0
    retained_away: list[int] = field(default_factory=list)
    """The base offsets of segments that retention removed afterwards."""
    interrupted: str | None = None


ReplaceSegments = Callable[[Sequence[LogSegment], Sequence[LogSegment]], None]
"""`Log.replace_segments`: (new, old)."""


class _InterruptedError(Exception):
    """The log is being closed, or its segments have changed."""


def compact(
    core: LogCore,
    replace_segments: ReplaceSegments,
    now_ms: int | None = None,
    *,
    dedupe_buffer_bytes: int = DEDUPE_BUFFER_BYTES,
) -> CompactionReport:
    """See `Log.compact`; `replace_segments` is the log's. Only one compaction runs at a time."""
    if not core.config.is_compacted:
        raise UsageError(f"{core.path}: its cleanup_policy is {core.config.cleanup_policy!r}", hint="add 'compact'")
    now_ms = core.now_ms() if now_ms is None else now_ms
    offset_map = OffsetMap(dedupe_buffer_bytes)
    with core.cleaner_lock:
        core.require_usable()
        cleaning = _Cleaning(core, replace_segments, now_ms)
        report = cleaning.report
        try:
            while cleaning.run_round(offset_map):
                offset_map = OffsetMap(dedupe_buffer_bytes)
        except _InterruptedError as error:
            report.interrupted = str(error)
        inactive = core.segments.as_tuple[:-1]
        report.segments_after = len(inactive)
        report.size_bytes_after = sum(segment.size_bytes for segment in inactive)
        if report.interrupted is None:
            report.retained_away = apply_retention(core, now_ms)
        return report


class _Cleaning:
    """One call of `compact`: rounds from the first dirty offset to the first uncleanable one."""

    def __init__(self, core: LogCore, replace_segments: ReplaceSegments, now_ms: int) -> None:
        self._core = core
        self._replace_segments = replace_segments
        self._now_ms = now_ms
        with core.lock:
            self._source = _Source(core)
            self._dirty = _first_dirty_offset(core)
            self._end = max(self._dirty, _first_uncleanable_offset(core, self._dirty, now_ms))
            inactive = core.segments.as_tuple[:-1]
        self.report = CompactionReport(self._dirty, self._dirty)
        self.report.segments_before = len(inactive)
        self.report.size_bytes_before = sum(segment.size_bytes for segment in inactive)

    def run_round(self, offset_map: OffsetMap) -> bool:
        """Runs one round and returns whether another one must follow.

        If nothing is dirty, only records with a delete horizon can be removed.
        """
        self._build_map(offset_map)
        clean_end = offset_map.latest_offset + 1
        core, report = self._core, self.report
        with core.lock:
            segments = [each for each in core.segments.values(0, clean_end) if each is not core.segments.active]
            behind = core.segments.as_tuple[len(segments)].base_offset  # above `clean_end`, if that is inside a segment
            clean = [each for each in core.segments if each.base_offset < self._dirty]
            horizon_ms = clean[-1].modified_ms - core.config.delete_retention_ms if clean else 0
        filters = BatchFilter(offset_map, self._now_ms, core.config.delete_retention_ms, self._end, {})
        for group, last_offset in group_segments(segments, core.config.segment_bytes, self._index_bytes, behind):
            self._clean_group(group, last_offset, filters, horizon_ms)
        report.rounds += 1
        report.records_read += filters.counts.records_read
        report.records_kept += filters.counts.records_kept
        report.keyless_dropped += filters.counts.keyless_dropped
        with core.lock:
            self._source.check()
            core.home.write_cleaner_point(clean_end)
        self._dirty = report.end_offset = clean_end
        return clean_end < self._end

    @property
    def _index_bytes(self) -> int:
        return self._core.config.segment_index_bytes

    # -- mapping keys -----------------------------------------------------------------------------
    def _build_map(self, offset_map: OffsetMap) -> None:
        core, start = self._core, self._dirty
        offset_map.latest_offset = start - 1
        if start >= self._end:
            return
        transactions = CleanedTransactions()
        transactions.add_aborted(self._aborted(start, self._end))
        for segment in core.segments.values(start, self._end):
            if segment.base_offset >= self._end:
                break
            with self._source.reading(segment):  # a cut may close the index
                position = segment.offset_index.lookup(start).position
            for at, window in self._source.windows(segment, position):
                with self._source.located(segment, at):
                    if not _map_window(window, transactions, offset_map, start):
                        return
        offset_map.latest_offset = self._end - 1

    def _aborted(self, start: int, end: int) -> list[AbortedTxn]:
        core = self._core
        with self._source.reading() as segments:
            return collect_aborted(LogView(segments, 0, end, end, core.path), start, end)

    # -- writing anew -----------------------------------------------------------------------------
    def _clean_group(
        self, group: Sequence[LogSegment], last_offset: int, rules: BatchFilter, legacy_horizon_ms: int
    ) -> None:
        """Rewrites some segments, whose last offset is `last_offset`, and replaces them."""
        core = self._core
        rules.producers = self._last_records()
        rules.counts.changed = len(group) > 1
        cleaned = CleanedSegments(core, group[0].base_offset)
        try:
            ends = [*(segment.base_offset for segment in group[1:]), last_offset + 1]
            last, last_base = b"", -1
            for segment, end in zip(group, ends, strict=True):
                rules.transactions.add_aborted(self._aborted(segment.base_offset, end))
                rules.keeps_legacy_deletes = segment.modified_ms > legacy_horizon_ms
                for at, window in self._source.windows(segment):
                    with self._source.located(segment, at):
                        data = rules.filter(window)
                    cleaned.append(data)
                    cleaned.add_aborted(rules.transactions.take_retained())
                    if int(window.columns.magic[-1]) == MAGIC_V2:
                        last = emptied(batch_at(window, window.count - 1))
                        last_base = int(window.columns.base_offset[-1])
            # The last batch lets a load after a crash during the swap know that the whole group was
            # replaced. If the group ends in empty segments, the batch may be there already.
            if last and len(group) > 1 and cleaned.next_offset <= min(last_base, group[-1].base_offset):
                cleaned.append(last)
            if rules.counts.changed:
                cleaned.finish(core.env.modified_ns(group[-1].log.path))
        except BaseException:
            cleaned.discard()
            raise
        if not rules.counts.changed:
            cleaned.discard()
            return
        self._swap(group, cleaned)

    def _swap(self, group: Sequence[LogSegment], cleaned: CleanedSegments) -> None:
        core = self._core
        with core.lock:
            try:
                core.group_commit.wait_until_idle()  # here: from now on the lock is held until they are replaced
                self._require_in_log(group)
            except BaseException:
                cleaned.discard()
                raise
            try:
                self._replace_segments(cleaned.segments, group)
            except BaseException:
                cleaned.close()  # some of the files may be in use already: the next load decides
                raise
        for segment in cleaned.segments:
            segment.release()

    def _require_in_log(self, group: Sequence[LogSegment]) -> None:
        for segment in group:
            self._source.check(segment)

    def _last_records(self) -> dict[int, LastRecord]:
        with self._core.lock:
            states = self._core.producers.states.in_snapshot_order()
            return {state.producer_id: LastRecord(state.last_offset, state.producer_epoch) for state in states}


class _Source:
    """Reads inactive segments of an open log in pieces, as long as they belong to the log."""

    def __init__(self, core: LogCore) -> None:
        self._core = core
        self._truncations = core.truncations
        self._scanner = BatchScanner(env=core.env)

    def check(self, segment: LogSegment | None = None) -> None:
        """Raises `_InterruptedError` if the log is closed or truncated, or no longer has
        `segment`."""
        core = self._core
        if core.closing or core.closed:
            raise _InterruptedError("the log is being closed")
        if core.truncations != self._truncations:
            raise _InterruptedError("the log was truncated")
        if segment is not None and segment not in core.segments.as_tuple:
            raise _InterruptedError(f"the segment at {segment.base_offset} was removed")

    @contextlib.contextmanager
    def reading(self, segment: LogSegment | None = None) -> Iterator[tuple[LogSegment, ...]]:
        """Prevents truncation and removal during the block."""
        try:
            with self._core.reading() as segments:
                self.check(segment)
                yield segments
        except LogClosedError as error:
            raise _InterruptedError("the log is being closed") from error

    def windows(self, segment: LogSegment, position: int = 0) -> Generator[tuple[int, BatchWindow], None, None]:
        """Yields windows of a segment's batches, with CRCs verified, from `position` on.

        Each comes with the position in the .log where its data begins. Raises `CorruptError` for a
        damaged or incomplete batch.
        """
        size, path = _PIECE_BYTES, segment.log.path
        while position < segment.size_bytes:
            with self.reading(segment):
                data = segment.log.read(position, size)
            for window in self._scanner.scan_bytes(data, path=path):
                yield position, window
            end = self._scanner.end
            if end.kind not in (EndKind.END, EndKind.TORN):
                self._explain(segment, position + end.position)
            if end.position == 0:
                total = stated_size(data, 0)
                if total <= len(data) or position + total > segment.size_bytes:
                    self._explain(segment, position)
                size = total
            else:
                position, size = position + end.position, _PIECE_BYTES

    @contextlib.contextmanager
    def located(self, segment: LogSegment, position: int) -> Iterator[None]:
        """Raises errors in a window that begins at `position` with their position in the file."""
        try:
            yield
        except CorruptError:
            self._explain_records(segment, position)
            raise

    def _explain(self, segment: LogSegment, position: int) -> NoReturn:
        with self.reading(segment):
            for _ in self._scanner.scan_file(segment.log.path, position):
                pass
            if self._scanner.end.error is not None:
                raise self._scanner.end.error
        raise TruncatedError("no complete batch begins here", path=segment.log.path, position=position)

    def _explain_records(self, segment: LogSegment, position: int) -> None:
        with self.reading(segment):
            for _ in read_record_batches(
                segment.log.path, start=position, columns=("offset", "key", "value"), env=self._core.env
            ):
                pass


def _map_window(
    window: BatchWindow, transactions: CleanedTransactions, offset_map: OffsetMap, start_offset: int
) -> bool:
    """Adds the keys of a window's records from `start_offset` on to the map. Returns False when it
    is full."""
    columns = window.columns
    is_control = (columns.magic == MAGIC_V2) & (columns.attributes & BATCH_CONTROL != 0)
    is_aborted = transactions.observe(columns) & ~is_control
    for batch, which in rows_of(window, ("offset", "key")):
        offsets, keys = batch.column(0).to_numpy(), batch.column(1)
        wanted = keys.is_valid().to_numpy(zero_copy_only=False) & (offsets >= start_offset) & ~is_aborted[which]
        if not offset_map.put_many(keys.filter(wanted), offsets[wanted]):
            return False
    offset_map.latest_offset = max(offset_map.latest_offset, int(columns.last_offset[-1]))
    return True


# -- what is cleaned -----------------------------------------------------------------------------
def _first_dirty_offset(core: LogCore) -> int:
    """The offset in the cleaner's checkpoint; the log start offset if that does not fit this
    log."""
    point = core.home.read_cleaner_point()
    is_known = point is not None and core.log_start_offset <= point <= core.next_offset
    return point if is_known and point is not None else core.log_start_offset


def _first_uncleanable_offset(core: LogCore, dirty: int, now_ms: int) -> int:
    """The base offset of the first segment that cannot be cleaned.

    That is one that is active, extends beyond the last stable offset, or has records younger than
    min_compaction_lag_ms.
    """
    segments, lag_ms = core.segments, core.config.min_compaction_lag_ms
    bounds = [core.last_stable_offset, segments.active.base_offset]
    if lag_ms > 0:
        dirty_segments = segments.values(dirty, segments.active.base_offset)
        bounds += [each.base_offset for each in dirty_segments if each.largest_timestamp_ms > now_ms - lag_ms][:1]
    floor = segments.floor(min(bounds))
    return segments.first.base_offset if floor is None else floor.base_offset


def group_segments(
    segments: Sequence[LogSegment], size_bytes_max: int, index_bytes_max: int, end_offset: int
) -> Iterator[tuple[list[LogSegment], int]]:
    """Yields groups of segments that fit into one segment, with the last offset that each can have.

    The limits are the sizes of the .log and of both indexes, and the range of offsets. `end_offset`
    is the end of the last of `segments`.
    """
    ends = [*(segment.base_offset for segment in segments[1:]), end_offset][: len(segments)]
    group: list[LogSegment] = []
    sizes = np.zeros(3, np.int64)
    bounds = np.array([size_bytes_max, index_bytes_max, index_bytes_max])
    last_offset = -1
    for segment, end in zip(segments, ends, strict=True):
        more = np.array([segment.size_bytes, segment.offset_index.size_bytes, segment.time_index.size_bytes])
        if group:
            is_near = segment.size_bytes == 0 or end - 1 - group[0].base_offset <= limits.RELATIVE_OFFSET_MAX
            if not is_near or (sizes + more > bounds).any():
                yield group, last_offset
                group, sizes = [], np.zeros(3, np.int64)
        group.append(segment)
        sizes += more
        last_offset = end - 1
    if group:
        yield group, last_offset
