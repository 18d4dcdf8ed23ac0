"""The reading half of `Log`: its properties, and its records by offset and by time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import islice
from sys import is_finalizing
from typing import Unpack

from logdex.frames.opened_log import OpenedLog
from logdex.jobs.reports import Progress
from logdex.kafka.batch.record import Record
from logdex.kafka.batch.record_batch import RecordBatch
from logdex.kafka.log.core import LogCore
from logdex.kafka.log.load_report import LoadReport
from logdex.kafka.read import log_read, time_lookup
from logdex.kafka.read.log_read import READ_BYTES, READ_UNCOMMITTED, LogView
from logdex.kafka.read.read_filter import FilterOptions, filter_of
from logdex.kafka.read.record_scan import KafkaScan
from logdex.kafka.segment.file_records import TimestampAndOffset
from logdex.kafka.segment.log_segment import LogSegment
from logdex.kafka.segment.transaction_index import AbortedTxn
from logdex.kafka.settings.log_config import LogConfig
from logdex.kafka.snapshot.partition_snapshot import Key, PartitionSnapshot
from logdex.kafka.state.leader_epochs import EpochEntry
from logdex.kafka.state.producer_state import ProducerState
from logdex.primitives.shown import counted, repr_of
from logdex.primitives.wrong_questions import require_bool, require_given, require_most, require_times_of_key


class LivePartitionSnapshot(PartitionSnapshot):
    """What the scans of an open log read: its files, as another process does. They are closed with
    the last scan."""

    def __del__(self) -> None:
        if hasattr(self, "segments") and not is_finalizing():  # a thread that has ended may hold a lock
            self.close()


class ReadableLog(OpenedLog[Record]):
    """The properties and read methods of `Log`; see there for thread-safety."""

    def __init__(self, core: LogCore) -> None:
        self._core = core

    # -- what it is -------------------------------------------------------------------------------
    def __repr__(self) -> str:
        core = self._core
        return repr_of(
            self,
            repr(core.path),
            f"offsets {core.log_start_offset} to {core.next_offset}",
            counted(len(core.segments), "segment"),
            is_closed=core.closed,
        )

    @property
    def path(self) -> str:
        """The directory, with symbolic links resolved."""
        return self._core.path

    def topics(self) -> dict[str, list[int]]:
        """The topic and the number of the partition, as a log directory's `topics` has them."""
        self._core.require_open()
        return {self._core.home.name.topic: [self._core.home.name.partition]}

    @property
    def config(self) -> LogConfig:
        """The settings."""
        return self._core.config

    @property
    def load_report(self) -> LoadReport:
        """What opening the log found, truncated, removed and rebuilt."""
        return self._core.report

    @property
    def log_start_offset(self) -> int:
        """The first offset that can be read."""
        return self._core.log_start_offset

    @property
    def log_end_offset(self) -> int:
        """The offset of the next record."""
        return self._core.next_offset

    @property
    def recovery_point(self) -> int:
        """Everything below this offset is on disk. A recovery begins in its segment."""
        return self._core.recovery_point

    @property
    def high_watermark(self) -> int:
        """The offset up to which readers see records.

        It is the log end offset, or the end of what is on disk with ``flush="sync"``. Set it to
        hold readers back; None lets it follow again.
        """
        with self._core.lock:
            return self._core.high_watermark

    @high_watermark.setter
    def high_watermark(self, offset: int | None) -> None:
        self._core.set_high_watermark(offset)

    @property
    def last_stable_offset(self) -> int:
        """The offset up to which read_committed readers see records.

        It is the first offset of the earliest transaction that has not ended.
        """
        return self._core.last_stable_offset

    @property
    def size_bytes(self) -> int:
        """The total size of the .log files."""
        return self._core.segments.size_bytes

    @property
    def segments(self) -> Sequence[LogSegment]:
        """The current segments, ordered by base offset; the last is active. Read only: appends
        change them."""
        return self._core.segments.as_tuple

    @property
    def leader_epochs(self) -> list[EpochEntry]:
        """The leader epochs and their start offsets."""
        with self._core.lock:
            return self._core.epochs.entries

    def producer(self, producer_id: int) -> ProducerState | None:
        """A copy of the state of a producer, or None."""
        require_given(producer_id=producer_id)
        with self._core.lock:
            state = self._core.producers.states.get(producer_id)
            return None if state is None else state.copy()

    # -- reading ----------------------------------------------------------------------------------
    def read(
        self,
        offset: int,
        max_bytes: int = READ_BYTES,
        *,
        isolation: str = READ_UNCOMMITTED,
        max_records: int | None = None,
        control: bool = False,
    ) -> list[Record]:
        """Reads records from `offset` on, up to the high watermark or (``read_committed``) last
        stable offset.

        Reads whole batches of about `max_bytes` in all, at least one, and returns their records, at
        most `max_records`. Returns an empty list at the end. With ``read_committed`` aborted
        transactions are left out. Control records are returned with `control` only. Raises
        `OffsetOutOfRangeError`, and `CorruptError` for a batch that cannot be read.
        """
        with self._view(isolation) as view:
            return log_read.read_records(view, offset, max_bytes, isolation, max_records=max_records, control=control)

    def read_batches(
        self, offset: int, max_bytes: int = READ_BYTES, *, isolation: str = READ_UNCOMMITTED
    ) -> list[RecordBatch]:
        """Reads whole batches, as stored, from the one with `offset` on; see `read`.

        As from a broker, they include aborted ones, which `aborted_transactions` lists.
        """
        require_given(offset=offset, max_bytes=max_bytes)
        with self._view(isolation) as view:
            return log_read.read_batches(view, offset, max_bytes)

    def aborted_transactions(self, offset: int, upper_offset: int) -> list[AbortedTxn]:
        """The aborted transactions with records in [`offset`, `upper_offset`)."""
        require_given(offset=offset, upper_offset=upper_offset)
        with self._view(READ_UNCOMMITTED) as view:
            return log_read.collect_aborted(view, offset, upper_offset)

    def records(
        self, offset: int | None = None, *, isolation: str = READ_UNCOMMITTED, control: bool = False
    ) -> Iterator[Record]:
        """Yields all records from `offset` (default: the log start offset) to the end as of that
        moment. Raises `CorruptError` for a batch that cannot be read, behind the records before
        it."""
        require_bool("control", control)
        position = self.log_start_offset if offset is None else offset
        last: RecordBatch | None = None
        size_bytes = 0
        while True:
            with self._view(isolation) as view:
                batches = log_read.read_batches(view, position, size_bytes, after=last, before_damage=True)
                shown = log_read.visible_batches(view, batches, isolation, control)
            after = batches[-1].last_offset + 1 if batches else position
            for batch in shown:
                yield from (record for record in batch.records() if record.offset >= position)
            if after <= position:
                return
            position, last, size_bytes = after, batches[-1], log_read.more_bytes(size_bytes)

    def scan(
        self, *, limit: int | None = None, progress: Progress | None = None, **wanted: Unpack[FilterOptions]
    ) -> KafkaScan[PartitionSnapshot]:
        """Returns a scan of the records that pass the filter (see `ReadFilter`), in log order: as
        `PartitionSnapshot.scan`, of what `records` yields, from the log start offset to the high
        watermark of this moment. It needs nothing of the log while it reads; records that are
        removed meanwhile are left out."""
        snapshot, start, end = self._own_snapshot()
        asked = filter_of(wanted, "limit", "progress")
        begin = max(start, asked.offset or 0)
        upto = end if asked.end_offset is None else min(end, asked.end_offset)
        return KafkaScan([snapshot], replace(asked, offset=begin, end_offset=upto), limit, progress)

    def query(
        self, key: Key, begin_ms: int | None = None, end_ms: int | None = None, max: int | None = None
    ) -> list[Record]:
        """Returns all records with exactly this key, or the newest `max`, highest offset first, of
        those that `records` yields. Both times are inclusive, in milliseconds. A key index beside
        the segments is used, see `PartitionSnapshot.query`; otherwise the log is read. Raises
        `CorruptError` for a bad batch that may hold the key."""
        require_times_of_key(begin_ms, end_ms)
        require_most(max=max)
        snapshot, start, end = self._own_snapshot()
        found = snapshot.iter_query(key, begin_ms, end_ms)
        return [*islice((record for record in found if start <= record.offset < end), max)]

    def _own_snapshot(self) -> tuple[PartitionSnapshot, int, int]:
        """Returns the files of the log, opened for themselves, and between which offsets readers
        see records."""
        core = self._core
        with core.lock:
            core.require_open()
            start, end = core.log_start_offset, core.high_watermark
        return LivePartitionSnapshot(core.path, core.config, env=core.env), start, end

    def offset_for_timestamp(
        self, timestamp_ms: int, *, isolation: str = READ_UNCOMMITTED
    ) -> TimestampAndOffset | None:
        """The first record with at least this timestamp, or None.

        -2 means the log start offset, -1 the log end offset (both without a timestamp), -3 the
        first record with the largest timestamp.
        """
        with self._view(isolation) as view:
            return time_lookup.offset_for_timestamp(view, timestamp_ms)

    @contextmanager
    def _view(self, isolation: str) -> Iterator[LogView]:
        log_read.check_isolation(isolation)
        core = self._core
        while True:
            with core.lock:
                core.require_open()
                end = core.high_watermark if isolation == READ_UNCOMMITTED else core.last_stable_offset
                start, log_end, truncations = core.log_start_offset, core.next_offset, core.truncations
            with core.reading() as segments:
                # otherwise `end` may lie above the new log end, or in records appended since
                if truncations == core.truncations:
                    yield LogView(segments, start, end, log_end, core.path)
                    return
