"""The reading half of `Log`: what it is, its records by offset and by time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from logdex.kafka.batch.record import Record
from logdex.kafka.batch.record_batch import RecordBatch
from logdex.kafka.log.core import LogCore
from logdex.kafka.log.load_report import LoadReport
from logdex.kafka.read import log_read
from logdex.kafka.read.log_read import READ_BYTES, READ_UNCOMMITTED, LogView
from logdex.kafka.segment.file_records import TimestampAndOffset
from logdex.kafka.segment.log_segment import LogSegment
from logdex.kafka.segment.transaction_index import AbortedTxn
from logdex.kafka.settings.log_config import LogConfig
from logdex.kafka.state.leader_epochs import EpochEntry
from logdex.kafka.state.producer_state import ProducerState


class ReadableLog:
    """What `Log` is and reads; see there for threads."""

    def __init__(self, core: LogCore) -> None:
        self._core = core

    # -- what it is ----------------------------------------------------------------------------------------------------
    @property
    def path(self) -> str:
        """The directory, links followed."""
        return self._core.path

    @property
    def config(self) -> LogConfig:
        """Its settings."""
        return self._core.config

    @property
    def load_report(self) -> LoadReport:
        """What opening it found, cut, removed and derived again."""
        return self._core.report

    @property
    def log_start_offset(self) -> int:
        """The first offset that may be read."""
        return self._core.log_start_offset

    @property
    def log_end_offset(self) -> int:
        """The next record's offset."""
        return self._core.next_offset

    @property
    def recovery_point(self) -> int:
        """Below it all is known to be on disk; recovery begins in its segment."""
        return self._core.recovery_point

    @property
    def high_watermark(self) -> int:
        """Readers see what is below: the log end offset, with ``flush="sync"`` the end of what is on disk; less, if it
        was set. May be set to hold readers back; None lets it follow again."""
        with self._core.lock:
            return self._core.high_watermark

    @high_watermark.setter
    def high_watermark(self, offset: int | None) -> None:
        self._core.set_high_watermark(offset)

    @property
    def last_stable_offset(self) -> int:
        """Readers of committed records see what is below: where the first transaction begins that has not ended."""
        return self._core.last_stable_offset

    @property
    def size_bytes(self) -> int:
        """Bytes of its .log files."""
        return self._core.segments.size_bytes

    @property
    def segments(self) -> Sequence[LogSegment]:
        """The segments now, rising; the last is the active one. To look at: they change under the log's hands."""
        return self._core.segments.as_tuple

    @property
    def leader_epochs(self) -> list[EpochEntry]:
        """The epochs that wrote it, and from which offset on."""
        with self._core.lock:
            return self._core.epochs.entries

    def producer(self, producer_id: int) -> ProducerState | None:
        """What is known of a producer; a copy."""
        with self._core.lock:
            state = self._core.producers.states.get(producer_id)
            return None if state is None else state.copy()

    # -- reading -------------------------------------------------------------------------------------------------------
    def read(
        self,
        offset: int,
        max_bytes: int = READ_BYTES,
        *,
        isolation: str = READ_UNCOMMITTED,
        max_records: int | None = None,
        control: bool = False,
    ) -> list[Record]:
        """Records from `offset` on, below the high watermark or (``read_committed``) the last stable offset.

        Batches of about `max_bytes`, one at least; then as many records as they hold, `max_records` at most. Empty at
        the end. Aborted transactions are left out with ``read_committed``; control records are shown with `control`.
        Raises `OffsetOutOfRangeError`, `CorruptError` for a batch that cannot be read.
        """
        with self._view(isolation) as view:
            return log_read.read_records(view, offset, max_bytes, isolation, max_records=max_records, control=control)

    def read_batches(
        self, offset: int, max_bytes: int = READ_BYTES, *, isolation: str = READ_UNCOMMITTED
    ) -> list[RecordBatch]:
        """Whole batches from the one that holds `offset` on, as stored; see `read`. Aborted ones are among them, as a
        broker sends them: `aborted_transactions` tells which."""
        with self._view(isolation) as view:
            return log_read.read_batches(view, offset, max_bytes)

    def aborted_transactions(self, offset: int, upper_offset: int) -> list[AbortedTxn]:
        """The aborted transactions with records in [`offset`, `upper_offset`)."""
        with self._view(READ_UNCOMMITTED) as view:
            return log_read.collect_aborted(view, offset, upper_offset)

    def records(
        self, offset: int | None = None, *, isolation: str = READ_UNCOMMITTED, control: bool = False
    ) -> Iterator[Record]:
        """All records from `offset` (the log's start) to what is its end when the iterator gets there."""
        position = self.log_start_offset if offset is None else offset
        while True:
            with self._view(isolation) as view:
                batches = log_read.read_batches(view, position, READ_BYTES)
                shown = log_read.visible_batches(view, batches, isolation, control)
            after = batches[-1].last_offset + 1 if batches else position
            for batch in shown:
                yield from (record for record in batch.records() if record.offset >= position)
            if after <= position:
                return
            position = after

    def offset_for_timestamp(
        self, timestamp_ms: int, *, isolation: str = READ_UNCOMMITTED
    ) -> TimestampAndOffset | None:
        """The first record at or after `timestamp_ms`; None if there is none. -2: the log's start, -1: its end (both
        without a timestamp), -3: the first record with the largest timestamp."""
        with self._view(isolation) as view:
            return log_read.offset_for_timestamp(view, timestamp_ms)

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
                if truncations == core.truncations:  # else what was cut may be there again, and not be anyone's to see
                    yield LogView(segments, start, end, log_end, core.path)
                    return
