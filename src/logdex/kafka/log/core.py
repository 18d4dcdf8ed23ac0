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

from logdex.errors import LogClosedError, LogFailedError, LogInUseError
from logdex.io.env import Env
from logdex.kafka.files.file_names import DELETED_SUFFIX, SEGMENT_SUFFIXES, offset_file_name
from logdex.kafka.log.gate import ReaderGate
from logdex.kafka.log.home import LogHome
from logdex.kafka.log.loader import LoadedLog, save_epochs
from logdex.kafka.log.swap import open_cleaned_segment
from logdex.kafka.segment.log_segment import LogSegment
from logdex.kafka.settings.log_config import LogConfig
from logdex.kafka.state.leader_epochs import LeaderEpochs


class LogCore:
    """Thread-safe. Fields are read and changed with `lock` held, unless stated otherwise."""

    def __init__(
        self, loaded: LoadedLog, home: LogHome, config: LogConfig, now_ms: Callable[[], int], env: Env
    ) -> None:
        self.path = home.path
        self.home = home
        self.config = config
        self.now_ms = now_ms
        self.env = env
        self.segments = loaded.segments
        self.producers = loaded.producers
        self.epochs: LeaderEpochs = loaded.epochs
        self.report = loaded.report
        self.log_start_offset = loaded.log_start_offset
        self.recovery_point = loaded.next_offset  # loading syncs what it recovers
        self._stored_recovery_point = home.recovery_point  # differs after a recovery
        self.next_offset = loaded.next_offset
        self.lock = threading.RLock()
        self.closed = False
        self.failed: BaseException | None = None
        self.truncations = 0
        """How often the log end offset has decreased."""
        self._synced = threading.Condition(self.lock)
        self._syncing = False
        self._fsync_lock = threading.Lock()
        self._fsync_error: BaseException | None = None
        self._unreleased: list[LogSegment] = []
        self._ticket = self._durable_ticket = 0
        self._pinned_high_watermark: int | None = None
        self._durable_offset = loaded.next_offset
        # first offset -> marker offset, of ended transactions above the high watermark
        self._unreplicated: dict[int, int] = {}
        self.gate = ReaderGate()
        self.cleaner_lock = threading.Lock()
        """Held during a whole compaction; taken before `lock`."""
        self.closing = False
        """Whether a running compaction shall end as soon as possible."""

    # -- state ---------------------------------------------------------------------------------------------------------
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
                "the process that opened it writes it, a forked child does not",
                path=self.path,
                hint="append there, or open the log after the fork",
            )
        if self.failed is not None:
            raise LogFailedError(
                f"a write failed ({self.failed}); nothing more is written",
                path=self.path,
                hint="close and open it again",
            ) from self.failed

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Holds the lock while the directory is changed; any exception in the block makes the log a
        failed one."""
        with self.lock:
            self.require_usable()
            try:
                yield
            except BaseException as error:
                self.failed = error
                self._synced.notify_all()
                raise

    # -- watermarks ----------------------------------------------------------------------------------------------------
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
        """Holds the high watermark at `offset`; None lets it follow the log end again."""
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

    # -- durability ----------------------------------------------------------------------------------------------------
    @property
    def last_ticket(self) -> int:
        """The ticket of the last append."""
        return self._ticket

    def next_ticket(self) -> int:
        """Returns a new ticket for `wait_durable`. Call it after an append, with the lock held."""
        self._ticket += 1
        return self._ticket

    def wait_durable(self, ticket: int) -> None:
        """Returns when the appends up to `ticket` are on disk. Threads that wait together share an
        fsync.

        Do not call it with the lock held.
        """
        with self._synced:
            while self._syncing and self._durable_ticket < ticket and self.failed is None:
                self._synced.wait()
            if self._durable_ticket >= ticket:
                return
            self.require_usable()
            upto, end, truncations, active = self._ticket, self.next_offset, self.truncations, self.segments.active
            self._syncing = True
            done = False
            try:
                with self._given_up():
                    self._sync(active.log.flush)
                done = True
            except BaseException as error:
                self.failed = self.failed or error
                raise
            finally:
                self._syncing = False
                for segment in self._unreleased:
                    segment.release()
                self._unreleased.clear()
                if done and truncations == self.truncations:
                    self._set_durable(upto, end)
                self._synced.notify_all()

    @contextmanager
    def _given_up(self) -> Iterator[None]:
        """Releases the lock, which this thread holds once, during the block."""
        self.lock.release()
        try:
            yield
        finally:
            self.lock.acquire()

    def _sync(self, flush: Callable[[], None]) -> None:
        """Syncs the active segment by `flush`, one thread at a time and never after a failed fsync.

        The system reports a failed write to one caller of fsync only; to all others the fsync seems
        to succeed.
        """
        with self._fsync_lock:
            if self._fsync_error is not None:
                raise LogFailedError(
                    f"an fsync failed ({self._fsync_error}); nothing more is acknowledged",
                    path=self.path,
                    hint="close and open it again",
                ) from self._fsync_error
            try:
                flush()
            except BaseException as error:
                self._fsync_error = error
                raise

    def _set_durable(self, ticket: int, offset: int) -> None:
        self._durable_ticket = max(self._durable_ticket, ticket)
        self._durable_offset = max(self._durable_offset, offset)

    def flush(self) -> None:
        """Writes all earlier appends to disk and moves the recovery point to their end."""
        with self.lock:
            self.require_usable()
            ticket = self._ticket
        self.wait_durable(ticket)
        with self.writing():
            self.set_recovery_point(self._durable_offset)

    @contextmanager
    def restructuring(self) -> Iterator[None]:
        """As `writing`, for operations that truncate, rename or remove files: no thread reads or
        syncs them.

        Check preconditions inside the block, because other threads may append before it begins.
        """
        with self.lock:
            self.wait_for_syncs()
            with self.writing(), self.gate.excluding():
                yield

    def wait_for_syncs(self) -> None:
        """Waits until no thread is in an fsync. Call it with the lock held, which is released
        meanwhile."""
        while self._syncing:
            self._synced.wait()

    def all_is_durable(self) -> None:
        """Wakes the threads that wait for an fsync. Call it with the lock held, once all data is on
        disk."""
        self._durable_ticket = self._ticket
        self._durable_offset = self.next_offset
        self._synced.notify_all()

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

    # -- segments ------------------------------------------------------------------------------------------------------
    def open_segment(self, base_offset: int) -> LogSegment:
        """Creates an empty segment, replacing leftovers of the same name. Its names are synced."""
        for suffix in SEGMENT_SUFFIXES:
            self.env.remove(posixpath.join(self.path, offset_file_name(base_offset, suffix)))
        segment = LogSegment(self.path, base_offset, self.config, writable=True, env=self.env, clock_ms=self.now_ms)
        try:
            segment.open_indexes()
            self.env.sync_dir(self.path)
        except BaseException:
            segment.close()
            raise
        return segment

    def open_cleaned_segment(self, base_offset: int) -> LogSegment:
        """Creates an empty segment under ``.cleaned`` names, which later replaces others."""
        return open_cleaned_segment(self.path, base_offset, self.config, clock_ms=self.now_ms, env=self.env)

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
        self._sync(active.flush)
        self.producers.states.map_end_offset = base_offset
        self.producers.take_snapshot()
        segment = self.open_segment(base_offset)
        self.segments.add(segment)
        self.all_is_durable()
        self.set_recovery_point(self.next_offset)
        if self._syncing:
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
            self._sync(active.flush)
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

    # -- readers -------------------------------------------------------------------------------------------------------
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
