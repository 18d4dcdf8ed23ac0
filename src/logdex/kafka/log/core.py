"""The shared state of an open log, and the operations that change its directory.

A power cut leaves a prefix of what was appended: a segment and its indexes are on disk before the
next segment is created, and names are synced in an order that leaves no gap. After a failed or
interrupted write or fsync the log acknowledges nothing more, and must be reopened, which recovers
it. Source: Kafka's UnifiedLog, LocalLog.
"""

from __future__ import annotations

import posixpath
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from logdex.errors import LogClosedError, LogInUseError
from logdex.io.env import Env
from logdex.io.group_commit import GroupCommit
from logdex.io.reader_gate import ReaderGate
from logdex.kafka.files.file_names import DELETED_SUFFIX, SEGMENT_SUFFIXES, offset_file_name
from logdex.kafka.log.home import LogHome
from logdex.kafka.log.loader import LoadedLog, save_epochs
from logdex.kafka.log.swap import open_cleaned_segment
from logdex.kafka.segment.log_segment import LogSegment
from logdex.kafka.settings.log_config import LogConfig
from logdex.kafka.state.leader_epochs import LeaderEpochs
from logdex.primitives.wrong_questions import require_counts


class LogCore:
    """Thread-safe. Fields are read and changed with `lock` held, unless stated otherwise."""

    def __init__(
        self, loaded: LoadedLog, home: LogHome, config: LogConfig, now_ms: Callable[[], int], env: Env
    ) -> None:
        self.path = home.path
        self.home = home
        self.config = config
        self.timestamp_bounds_ms = config.timestamp_bounds_ms
        self.now_ms = now_ms
        self.env = env
        self.segments = loaded.segments
        self.open_files = loaded.open_files
        self.producers = loaded.producers
        self.in_transaction: dict[int, object] = {}
        """The transactions that have begun and not ended, by producer."""
        self.epochs: LeaderEpochs = loaded.epochs
        self.report = loaded.report
        self.log_start_offset = loaded.log_start_offset
        self.recovery_point = loaded.next_offset  # loading syncs what it recovers
        self._stored_recovery_point = home.recovery_point  # differs after a recovery
        self.next_offset = loaded.next_offset
        self.lock = threading.RLock()
        self.closed = False
        self.truncations = 0
        """How often the log end offset has decreased."""
        self.group_commit = GroupCommit(self.lock, self._syncing_active, path=self.path)
        self._unreleased: list[LogSegment] = []
        self._pinned_high_watermark: int | None = None
        self._durable_offset = loaded.next_offset
        # first offset -> marker offset, of ended transactions above the high watermark
        self._unreplicated: dict[int, int] = {}
        self.gate = ReaderGate()
        self.cleaner_lock = threading.Lock()
        """Held during a whole compaction; taken before `lock`."""
        self.closing = False
        """Whether a running compaction shall end as soon as possible."""

    # -- state ------------------------------------------------------------------------------------
    def require_open(self) -> None:
        """Raises `LogClosedError` after `close`."""
        if self.closed:
            raise LogClosedError("the log was closed", path=self.path)

    def require_usable(self) -> None:
        """Raises an error if the log cannot be written.

        `LogClosedError` after `close`, `LogFailedError` after a failed write, `LogInUseError` in a
        forked child.
        """
        self.require_open()
        if not self.home.is_own:
            raise LogInUseError(
                "only the process that opened the log can write it, not a forked child",
                path=self.path,
                hint="append there, or open the log after the fork",
            )
        self.group_commit.require_unfailed()

    @property
    def failed(self) -> BaseException | None:
        """The write or fsync that made this a failed log."""
        return self.group_commit.failed

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Holds the lock while the directory is changed; any exception in the block makes the log a
        failed one."""
        with self.lock:
            self.require_usable()
            try:
                yield
            except BaseException as error:
                self.group_commit.fail(error)
                raise

    # -- watermarks -------------------------------------------------------------------------------
    @property
    def high_watermark(self) -> int:
        """The offset up to which readers see records.

        It is the log end offset; with ``flush="sync"`` the end of the acknowledged records.
        `set_high_watermark` lowers it.
        """
        end = self._durable_offset if self.config.flush == "sync" else self.next_offset
        if self._pinned_high_watermark is not None:
            end = min(self._pinned_high_watermark, end)
        return max(end, self.log_start_offset)

    def set_high_watermark(self, offset: int | None) -> None:
        """Holds the high watermark at `offset`; None lets it follow the log end again. Raises
        `UsageError` for a negative offset."""
        require_counts(high_watermark=offset)
        with self.lock:
            self._pinned_high_watermark = offset

    @property
    def last_stable_offset(self) -> int:
        """The offset up to which read_committed readers see records.

        It is the first offset of the earliest transaction without an end marker below the high
        watermark.
        """
        with self.lock:
            high = self.high_watermark
            self._unreplicated = {first: last for first, last in self._unreplicated.items() if last >= high}
            undecided = self.producers.states.first_unstable_offset
            firsts = [*self._unreplicated, high if undecided is None else undecided, high]
            return max(min(firsts), self.log_start_offset)

    def note_completed(self, first_offset: int, marker_offset: int) -> None:
        """Notes that a transaction ended. It stays unstable until its marker is below the high
        watermark."""
        self._unreplicated[first_offset] = marker_offset

    @property
    def leader_epoch(self) -> int:
        """The epoch for appended batches: the latest epoch of the log, 0 for a new one."""
        latest = self.epochs.latest_epoch
        return 0 if latest is None else latest

    # -- durability -------------------------------------------------------------------------------
    @contextmanager
    def _syncing_active(self) -> Iterator[Callable[[], None]]:
        """Yields the fsync of the active segment. Earlier segments are on disk already."""
        self.require_usable()
        end, truncations, active = self.next_offset, self.truncations, self.segments.active
        try:
            yield active.log.flush
            if truncations == self.truncations:
                self._durable_offset = max(self._durable_offset, end)
        finally:
            for segment in self._unreleased:
                segment.release()
            self._unreleased.clear()

    def flush(self) -> None:
        """Writes all earlier appends to disk and moves the recovery point to their end."""
        with self.lock:
            self.require_usable()
            ticket = self.group_commit.last_ticket
        self.group_commit.wait(ticket)
        with self.writing():
            self.set_recovery_point(self._durable_offset)

    @contextmanager
    def restructuring(self) -> Iterator[None]:
        """As `writing`, for operations that truncate, rename or remove files: no thread reads or
        syncs them.

        Check preconditions inside the block, because other threads may append before it begins.
        """
        with self.lock:
            self.group_commit.wait_until_idle()
            with self.writing(), self.gate.excluding():
                yield

    def all_is_durable(self) -> None:
        """Wakes the threads that wait for an fsync. Call it with the lock held, once all data is on
        disk."""
        self._durable_offset = self.next_offset
        self.group_commit.all_is_durable()

    def end_went_back_to(self, offset: int) -> None:
        """Updates the state after a truncation, on disk, to `offset`."""
        self.next_offset = self._durable_offset = offset
        self.truncations += 1
        self._unreplicated = {first: last for first, last in self._unreplicated.items() if last < offset}
        self.all_is_durable()

    def set_recovery_point(self, offset: int) -> None:
        """Records, durably, that everything below `offset` is on disk."""
        self.recovery_point = offset
        if offset != self._stored_recovery_point:
            self.home.write_recovery_point(offset)
            self._stored_recovery_point = offset

    def set_log_start(self, offset: int) -> None:
        """Moves the log start offset, durably, before anything below it is removed."""
        self.log_start_offset = offset
        self.home.write_log_start(offset)

    def save_epochs(self) -> None:
        """Writes the leader-epoch-checkpoint."""
        save_epochs(self.epochs, self.path, env=self.env)

    # -- segments ---------------------------------------------------------------------------------
    def open_segment(self, base_offset: int) -> LogSegment:
        """Creates an empty segment, replacing leftovers of the same name. Its names are synced."""
        for suffix in SEGMENT_SUFFIXES:
            self.env.remove(posixpath.join(self.path, offset_file_name(base_offset, suffix)))
        segment = LogSegment(
            self.path,
            base_offset,
            self.config,
            writable=True,
            env=self.env,
            open_files=self.open_files,
            clock_ms=self.now_ms,
        )
        try:
            segment.open_indexes()
            self.env.sync_dir(self.path)
        except BaseException:
            segment.close()
            raise
        return segment

    def open_cleaned_segment(self, base_offset: int) -> LogSegment:
        """Creates an empty segment under ``.cleaned`` names, which later replaces others."""
        return open_cleaned_segment(
            self.path, base_offset, self.config, clock_ms=self.now_ms, env=self.env, open_files=self.open_files
        )

    def roll(self, expected_next_offset: int = 0) -> LogSegment:
        """Ends the active segment and starts one at `expected_next_offset`, at least the log end
        offset.

        The old segment, and the producer snapshot at the new base offset, are on disk before the
        new segment is created.
        """
        active, base_offset = self.segments.active, max(expected_next_offset, self.next_offset)
        if base_offset == active.base_offset:
            return active  # the active segment is still empty
        active.on_become_inactive()
        self.group_commit.sync(active.flush)
        self.producers.states.map_end_offset = base_offset
        self.producers.take_snapshot()
        segment = self.open_segment(base_offset)
        self.segments.add(segment)
        self.all_is_durable()
        self.set_recovery_point(self.next_offset)
        if self.group_commit.is_syncing:
            self._unreleased.append(active)  # an fsync of it is running and needs its descriptor
        else:
            active.release()
        return segment

    def remove_segments(self, doomed: Iterable[LogSegment]) -> None:
        """Removes segments from the log, in the given order, and deletes their files and producer
        snapshots.

        They are renamed first, one after the other, so that a crash never adds a gap, nor leaves a
        .log without its index.
        """
        doomed = list(doomed)
        with self.gate.excluding(), self.closing_at_last(doomed):
            for segment in doomed:
                self.segments.remove(segment)
                self.producers.remove(segment.base_offset)
                segment.change_file_suffixes("", DELETED_SUFFIX, log_first=True)
            for segment in doomed:
                segment.delete_files()

    def close_cleanly(self) -> None:
        """Closes the log cleanly: writes all data, trims indexes, writes checkpoints, sets the
        clean mark.

        Call it with the lock held.
        """
        with self.writing():
            self.producers.take_snapshot()
            active = self.segments.active
            active.on_become_inactive()
            self.group_commit.sync(active.flush)
            self.all_is_durable()
            self.env.sync_dir(self.path)
            self.set_recovery_point(self.next_offset)
            has_start = self.log_start_offset > self.segments.first.base_offset
            self.home.write_log_start(self.log_start_offset if has_start else None)
            self.home.mark_clean(active.log.path, active.size_bytes)

    @contextmanager
    def closing_at_last(self, segments: Iterable[LogSegment]) -> Iterator[None]:
        """Closes segments that the block removes or adds, if the block fails."""
        try:
            yield
        except BaseException:
            for segment in segments:
                segment.close()
            raise

    # -- readers ----------------------------------------------------------------------------------
    @contextmanager
    def reading(self) -> Iterator[tuple[LogSegment, ...]]:
        """Yields the current segments, whose files stay unchanged during the block."""
        with self.gate.reading():
            self.require_open()
            yield self.segments.as_tuple

    def close_files(self) -> None:
        """Closes every segment without syncing, once no thread reads."""
        with self.gate.excluding():
            self.closed = True
            for segment in self.segments:
                segment.close()
