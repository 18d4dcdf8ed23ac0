"""Loads a partition directory for writing, as a broker does at its start.

Source: Kafka's LogLoader, UnifiedLog. Three things are better than in the broker. An incomplete
last batch is truncated even after a clean shutdown, where the broker appends after it. A corrupt
leader-epoch-checkpoint is derived from the log again, where the broker takes the log directory
offline. What an unclean load recovers is synced before anything after it is acknowledged. The
report lists all changes.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable
from dataclasses import dataclass

from logdex.errors import CorruptError, OffsetOrderError, OffsetOverflowError
from logdex.io.atomic_file import write_atomically
from logdex.io.env import Env
from logdex.io.open_files import OpenFiles
from logdex.kafka.files.checkpoints import format_checkpoint
from logdex.kafka.files.file_names import (
    INDEX_SUFFIX,
    KEY_INDEX_SUFFIX,
    LEADER_EPOCH_CHECKPOINT,
    LOG_SUFFIX,
    OFFSET_DIGITS,
    SEGMENT_SUFFIXES,
    TIME_INDEX_SUFFIX,
    offset_file_name,
    parse_offset_file,
)
from logdex.kafka.log.clear_leftovers import clear_leftovers
from logdex.kafka.log.home import LogHome
from logdex.kafka.log.load_report import LoadReport, LoadStep
from logdex.kafka.log.producers import LogProducers
from logdex.kafka.log.swap import set_aside, split_overflowed_segment
from logdex.kafka.scan.scanner import BatchScanner, EndKind
from logdex.kafka.segment.log_segment import LogSegment
from logdex.kafka.segment.log_segments import LogSegments
from logdex.kafka.segment.segment_recovery import first_fall
from logdex.kafka.segment.transaction_index import AbortedTxn
from logdex.kafka.settings.log_config import LogConfig
from logdex.kafka.state.leader_epochs import LeaderEpochs
from logdex.kafka.state.producer_state import aborted_of
from logdex.kernels.kafka.batch_columns import BatchColumns
from logdex.layout.kafka import OFFSET_INDEX_ENTRY, TIME_INDEX_ENTRY


@dataclass(slots=True)
class LoadedLog:
    """The result of a load: open segments (the last one is active), offsets, producers, epochs."""

    segments: LogSegments
    producers: LogProducers
    epochs: LeaderEpochs
    log_start_offset: int
    next_offset: int
    report: LoadReport
    open_files: OpenFiles


class LogLoader:
    """One load of the partition whose clean mark and checkpoints `home` has read."""

    def __init__(self, home: LogHome, config: LogConfig, *, now_ms: Callable[[], int], env: Env) -> None:
        self._path = home.path
        self._config = config
        self._was_clean = home.was_clean
        self._recovery_point = home.recovery_point
        self._log_start_offset = home.log_start_offset
        self._now_ms = now_ms
        self._env = env
        self._segments = LogSegments()
        self._open_files = OpenFiles(env)
        self._producers: LogProducers | None = None
        self._report = LoadReport(was_clean=home.was_clean)
        for error in home.damaged:
            self._report.note(LoadStep.REBUILT, error.path, f"its offsets count as 0: {error.message}")
        self._epochs_path = posixpath.join(home.path, LEADER_EPOCH_CHECKPOINT)
        self._epochs = LeaderEpochs()
        self._stored_epochs = self._epochs.entries
        self._epochs_lost = False

    def load(self) -> LoadedLog:
        """Loads the log.

        Raises `CorruptError` where a broker could not load it: invalid batches after a clean
        shutdown.
        """
        try:
            return self._load()
        except BaseException:
            self._close_segments()
            raise

    def _load(self) -> LoadedLog:
        if not (self._recovery_point or self._log_start_offset or self._has_files()):
            self._report.was_clean = True  # a new log was not closed in any other way
        self._load_epochs()
        clear_leftovers(self._path, self._report, env=self._env)
        next_offset = self._open_and_recover()
        log_start_offset = max(self._log_start_offset, self._segments.first.base_offset)
        self._finish_epochs(next_offset)
        producers = self._make_producers()
        producers.remove_stray(self._segments.base_offsets, self._report)
        producers.rebuild(
            self._segments,
            log_start_offset=log_start_offset,
            end_offset=next_offset,
            trust_no_snapshot=self._was_clean,
            report=self._report,
        )
        self._make_room(self._segments.active)
        self._sync()
        return LoadedLog(
            self._segments, producers, self._epochs, log_start_offset, next_offset, self._report, self._open_files
        )

    def _has_files(self) -> bool:
        """Whether there is any file of a segment, or what a deletion or compaction left of one."""
        return any(name[:OFFSET_DIGITS].isdecimal() for name in self._env.list_dir(self._path))

    def _make_room(self, active: LogSegment) -> None:
        """Preallocates the active segment's indexes.

        An index that a recovery filled keeps all entries, so the segment is rolled by the next
        append.
        """
        active.open_indexes()
        size = self._config.segment_index_bytes
        active.offset_index.resize(max(size, active.offset_index.entries * OFFSET_INDEX_ENTRY.size_bytes))
        active.time_index.resize(max(size, (active.time_index.entries + 1) * TIME_INDEX_ENTRY.size_bytes))

    def _sync(self) -> None:
        """Syncs recovered segments and all names before anything is appended."""
        doubtful = () if self._was_clean else self._segments.values(self._recovery_point, 1 << 63)
        for segment in self._segments:
            if segment in doubtful or segment.base_offset in self._report.recovered:
                segment.flush()
            if segment is not self._segments.active:
                segment.release()
        self._env.sync_dir(self._path)

    # -- segments ---------------------------------------------------------------------------------
    def _open_and_recover(self) -> int:
        """Returns the log end offset. Starts again after each segment that overflowed its indexes
        and was split."""
        while True:
            try:
                self._open_segments()
                return self._recover()
            except OffsetOverflowError as error:
                segment = next(each for each in self._segments if each.log.path == error.path)
                size_bytes = segment.size_bytes
                parts, end = split_overflowed_segment(
                    segment,
                    self._segments,
                    self._config,
                    self._path,
                    clock_ms=self._now_ms,
                    env=self._env,
                    open_files=self._open_files,
                )
                bases = ", ".join(str(part.base_offset) for part in parts)
                self._report.note(LoadStep.SPLIT, error.path, f"into those at {bases}: {error.message}")
                if end < size_bytes:
                    reason = "no batch that a segment can hold begins here"
                    self._report.note(LoadStep.CUT, error.path, reason, position=end, size_bytes=size_bytes - end)
                self._report.recovered.clear()
                self._make_producers().set_aside(segment.base_offset)

    def _close_segments(self) -> None:
        for segment in self._segments:
            segment.close()
        self._segments.clear()

    def _open_segments(self) -> None:
        self._close_segments()
        found = {parsed for name in self._env.list_dir(self._path) if (parsed := parse_offset_file(name))}
        for offset, suffix in sorted(found):
            if suffix in (*SEGMENT_SUFFIXES, KEY_INDEX_SUFFIX) and (offset, LOG_SUFFIX) not in found:
                path = posixpath.join(self._path, offset_file_name(offset, suffix))
                self._report.note(LoadStep.REMOVED, path, "an index without its .log")
                self._env.remove(path)
        for base_offset in sorted(offset for offset, suffix in found if suffix == LOG_SUFFIX):
            self._check_indexes(self._open_segment(base_offset), found)

    def _open_segment(self, base_offset: int) -> LogSegment:
        """Opens a segment of the log, and creates it if missing."""
        segment = LogSegment(
            self._path,
            base_offset,
            self._config,
            writable=True,
            env=self._env,
            open_files=self._open_files,
            clock_ms=self._now_ms,
        )
        self._segments.add(segment)
        return segment

    def _check_indexes(self, segment: LogSegment, found: set[tuple[int, str]]) -> None:
        """Checks what the broker checks: that .index exists and .txnindex is valid."""
        reason = None
        if (segment.base_offset, INDEX_SUFFIX) not in found:
            reason = "was missing"
        else:
            try:
                segment.txn_index.sanity_check()
            except CorruptError as error:
                reason = error.message
            if (segment.base_offset, TIME_INDEX_SUFFIX) not in found:
                segment.time_index.resize(0)
                self._report.note(LoadStep.REBUILT, segment.time_index.path, "was missing: empty, as for the broker")
        if reason is not None:
            self._report.note(LoadStep.REBUILT, segment.path_of(INDEX_SUFFIX), reason)
            self._recover_segment(segment)

    # -- recovery ---------------------------------------------------------------------------------
    def _recover(self) -> int:
        """Recovers the segments that an unclean shutdown may have damaged; returns the log end
        offset.

        Afterwards there is at least one segment.
        """
        if not self._was_clean:
            unflushed = list(self._segments.values(self._recovery_point, 1 << 63))
            while unflushed:
                segment = unflushed.pop(0)
                was_cut = self._recover_or_empty(segment)
                segment.release()  # a log may have more segments than a process may open files
                if was_cut:
                    self._set_aside(unflushed, "after a segment that had to be truncated")
                    break
        next_offset = self._cut_torn_tail() if len(self._segments) else None
        if next_offset is not None and next_offset < self._log_start_offset:
            self._set_aside(list(self._segments), f"below the log start offset {self._log_start_offset}")
            self._epochs.clear()
            self._make_producers().start_at(self._log_start_offset)
            next_offset = None
        if next_offset is None:
            next_offset = self._log_start_offset
            self._open_segment(next_offset)
        return next_offset

    def _recover_or_empty(self, segment: LogSegment) -> bool:
        """Recovers a segment and returns whether bytes of it were removed."""
        try:
            return self._recover_segment(segment)
        except OffsetOrderError as error:
            size = segment.size_bytes
            self._report.note(LoadStep.CUT, segment.log.path, f"offsets fall: {error.message}", size_bytes=size)
            segment.truncate_to(segment.base_offset)
            return size > 0

    def _recover_segment(self, segment: LogSegment) -> bool:
        """Checks every batch, derives the indexes and truncates the .log after the last good batch.

        Returns whether bytes were removed.
        """
        producers = self._make_producers()
        producers.rebuild(
            self._segments, log_start_offset=self._log_start_offset, end_offset=segment.base_offset, report=self._report
        )
        aborted: list[AbortedTxn] = []

        def take(columns: BatchColumns) -> None:
            self._epochs.add(columns)
            aborted.extend(aborted_of(producers.states.add_of(columns, segment.log.path)))

        fell = self._cut_where_offsets_fall(segment)
        derived = segment.recover(take)
        segment.txn_index.reset()
        segment.txn_index.append(*aborted)
        producers.take_snapshot()
        self._report.recovered.append(segment.base_offset)
        if derived.truncated_bytes:
            end = derived.end
            reason = end.reason if end.kind is EndKind.ZEROS or end.error is None else end.error.message
            self._report.note(
                LoadStep.CUT,
                segment.log.path,
                f"{end.kind.value}: {reason}",
                position=derived.size_bytes,
                size_bytes=derived.truncated_bytes,
            )
        return fell or derived.truncated_bytes > 0

    def _cut_where_offsets_fall(self, segment: LogSegment) -> bool:
        """Truncates the segment before the first batch whose offsets are not above all earlier
        ones.

        Returns whether there was one. No CRC covers a batch's offset: if a power cut tears a write
        just after that field, the batch is otherwise intact. The broker would accept it.
        """
        position = first_fall(segment.log.path, segment.base_offset, env=self._env)
        if position is None:
            return False
        lost = segment.cut_log(position)
        reason = "torn: the batch's offset is not above those before it"
        self._report.note(LoadStep.CUT, segment.log.path, reason, position=position, size_bytes=lost)
        return True

    def _cut_torn_tail(self) -> int:
        """Removes an incomplete last batch of the active segment and returns the log end offset."""
        segment = self._segments.active
        try:
            found = segment.locate(segment.offset_index.last_offset)
        except CorruptError as error:  # the batch that the index leads to determines the log end offset
            self._report.note(LoadStep.REBUILT, segment.path_of(INDEX_SUFFIX), error.message)
            self._recover_segment(segment)
            found = None
        last = segment.log.last_header(found.position if found else 0)
        next_offset, position = (last.last_offset + 1, last.end) if last else (segment.base_offset, 0)
        torn = segment.cut_log(position)
        if torn:
            for index in (segment.offset_index, segment.time_index):
                index.truncate_to(next_offset)  # entries of a batch that was removed
            self._report.note(
                LoadStep.CUT, segment.log.path, "torn: not a whole batch", position=position, size_bytes=torn
            )
        return next_offset

    def _set_aside(self, doomed: list[LogSegment], reason: str) -> None:
        """Removes segments from the log; their files stay as ``.deleted`` until the next load."""
        producers = self._make_producers()
        for segment in reversed(doomed):
            self._report.note(LoadStep.REMOVED, segment.log.path, reason, size_bytes=segment.size_bytes)
            self._segments.remove(segment)
            set_aside(segment, env=self._env)
            segment.close()
            producers.set_aside(segment.base_offset)

    # -- state ------------------------------------------------------------------------------------
    def _make_producers(self) -> LogProducers:
        """Returns a new instance.

        The producer state of one segment's recovery must not affect another segment, except through
        a snapshot.
        """
        if self._producers is None:
            self._producers = LogProducers(
                self._path, expiration_ms=self._config.producer_id_expiration_ms, now_ms=self._now_ms, env=self._env
            )
        return self._producers.without_states()

    def _load_epochs(self) -> None:
        try:
            self._epochs = LeaderEpochs.load(self._epochs_path, env=self._env)
            self._stored_epochs = self._epochs.entries
        except CorruptError as error:
            self._report.note(LoadStep.REBUILT, self._epochs_path, error.message)
            self._epochs_lost = True

    def _finish_epochs(self, next_offset: int) -> None:
        if self._epochs_lost:
            self._epochs.clear()
            scanner = BatchScanner(check_crc=False, env=self._env)
            for segment in self._segments:
                for window in scanner.scan_file(segment.log.path, 0, segment.size_bytes):
                    self._epochs.add(window.columns)
        self._epochs.truncate_from_end(next_offset)
        self._epochs.truncate_from_start(self._log_start_offset)
        if self._epochs_lost or self._epochs.entries != self._stored_epochs:
            save_epochs(self._epochs, self._path, env=self._env)
        elif not self._env.exists(self._epochs_path):
            write_atomically(self._epochs_path, b"", env=self._env)


def save_epochs(epochs: LeaderEpochs, path: str, *, env: Env) -> None:
    """Writes the leader-epoch-checkpoint of the directory `path` as a broker does: also without
    entries."""
    data = epochs.to_bytes() or format_checkpoint([])
    write_atomically(posixpath.join(path, LEADER_EPOCH_CHECKPOINT), data, env=env)
