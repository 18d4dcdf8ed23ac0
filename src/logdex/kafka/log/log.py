"""`Log`: one partition directory, open for appending and reading.

Source: Kafka's UnifiedLog. `core`, `home` and `loader` describe what happens after a power cut, on
a full disk and with two writers.
"""

from __future__ import annotations

import os
import posixpath
from collections.abc import Callable, Iterable, Sequence
from types import TracebackType
from typing import Unpack
from weakref import WeakSet

import pyarrow as pa

from logdex.errors import MissingFileError, UsageError
from logdex.io.env import DEFAULT_ENV, Env
from logdex.io.path_look import path_text
from logdex.kafka.batch.record import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE, NO_TIMESTAMP, Compression, Record
from logdex.kafka.files.file_names import parse_partition_dir
from logdex.kafka.log.append import AppendInfo, acknowledge, append_encoded, next_sequence, write_encoded
from logdex.kafka.log.append_checks import check_batches, require_producer
from logdex.kafka.log.append_columns import ColumnOptions, append_columns
from logdex.kafka.log.cleaner.job import CompactionReport, compact
from logdex.kafka.log.cleaner.offset_map import DEDUPE_BUFFER_BYTES
from logdex.kafka.log.core import LogCore
from logdex.kafka.log.encoded_append import EncodedAppend, encode_marker, encode_records, records_of
from logdex.kafka.log.home import LogHome, partition_of
from logdex.kafka.log.loader import LogLoader
from logdex.kafka.log.quick import QuickAppends
from logdex.kafka.log.reading import ReadableLog
from logdex.kafka.log.retention import apply_retention, delete_records, truncate_fully_and_start_at, truncate_to
from logdex.kafka.log.swap import replace_segments
from logdex.kafka.log.transactions import Transaction
from logdex.kafka.read.log_read import READ_UNCOMMITTED
from logdex.kafka.readers.log_reader import LogReader
from logdex.kafka.segment.log_segment import LogSegment
from logdex.kafka.segment.segment_base import wall_clock_ms
from logdex.kafka.settings.log_config import LogConfig, LogSettings, make_config
from logdex.primitives.wrong_questions import require_bool, require_given, require_longs


class Log(ReadableLog):
    """A ``topic-N`` directory that only this process writes. `Log.open` opens it, `close` or
    ``with`` closes it.

    Thread-safe. Appends are serialised; with ``flush="sync"`` concurrent appends share their
    fsyncs. Readers wait neither for appends nor for fsyncs, only while files are truncated or
    removed. There is one writer: `LogInUseError` is raised if a broker runs or another `Log` is
    open, and in a forked child of this process. Other processes may read the directory at any time
    (`logdex.open`, `logdex.kafka.LogFollower`).

    After a failed write or fsync nothing more is acknowledged (`LogFailedError`): close the log and
    open it again.
    """

    def __init__(self, core: LogCore) -> None:
        if not isinstance(core, LogCore):
            raise UsageError(
                "a Log is not made, but opened",
                hint="Log.open(path) opens one to write it, logdex.open_partition(path) only to read it",
            )
        super().__init__(core)
        self._quick = QuickAppends(core)
        self._readers: WeakSet[LogReader] = WeakSet()

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        config: LogConfig | None = None,
        *,
        create: bool = True,
        env: Env = DEFAULT_ENV,
        clock_ms: Callable[[], int] = wall_clock_ms,
        **settings: Unpack[LogSettings],
    ) -> Log:
        """Opens a partition directory; creates a missing one, unless `create` is False
        (`MissingFileError`).

        `settings` are fields of `LogConfig` (``segment_bytes=…``, ``flush="sync"``), or pass a
        whole `config`. A directory that was not closed cleanly is recovered, see `load_report`.
        Raises `LogInUseError`, `UsageError` for a file, `CorruptError` for a log that a broker
        could not load either, and `StorageError`.
        """
        require_bool("create", create)
        config, path = make_config(config, settings), path_text(path)
        _refuse_file(path, env)
        if not create and not env.is_dir(path):
            raise MissingFileError("there is no such directory", path=path)
        partition_of(path, env)  # before the directory is made
        env.make_dirs_durably(path)
        home = LogHome(path, env=env)
        try:
            home.sync_name()
            loaded = LogLoader(home, config, now_ms=clock_ms, env=env).load()
            return cls(LogCore(loaded, home, config, clock_ms, env))
        except BaseException:
            home.close()
            raise

    # -- appending --------------------------------------------------------------------------------
    def append(
        self,
        records: Record | Iterable[Record],
        *,
        compression: str | Compression = Compression.NONE,
        producer_id: int = NO_PRODUCER_ID,
        producer_epoch: int = NO_PRODUCER_EPOCH,
        sequence: int | None = None,
        transactional: bool = False,
        leader_epoch: int | None = None,
    ) -> AppendInfo:
        """Appends records as one batch, all or none.

        Only key, value, headers and timestamp of a `Record` are used (timestamp -1: now). With
        ``flush="sync"`` the batch is on disk when this returns. With `producer_id`,
        `producer_epoch` and `sequence` (None: the next one) the batch is idempotent, as in a
        broker: a duplicate returns its earlier offsets; sequence gaps and old epochs raise a
        `ProducerStateError`.
        """
        core, kept = self._core, records_of(records)
        is_usual = producer_id == NO_PRODUCER_ID and producer_epoch == NO_PRODUCER_EPOCH and sequence is None
        if is_usual and transactional is False and leader_epoch is None and compression in (Compression.NONE, "none"):
            info = self._quick.append(kept)
            if info is not None:
                return info
        require_producer(
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            sequence=sequence,
            transactional=transactional,
            leader_epoch=leader_epoch,
        )

        def encode(with_sequence: int) -> EncodedAppend:
            return encode_records(
                core,
                kept,
                compression=compression,
                producer_id=producer_id,
                producer_epoch=producer_epoch,
                sequence=with_sequence,
                transactional=transactional,
                leader_epoch=leader_epoch,
            )

        if producer_id != NO_PRODUCER_ID and sequence is None:
            with core.lock:  # the lock reserves the next sequence number for this batch
                encoded = encode(next_sequence(core, producer_id, producer_epoch))
                written = write_encoded(core, encoded)
            return acknowledge(core, *written)
        return append_encoded(core, encode(NO_SEQUENCE if sequence is None else sequence))

    def append_batches(self, raw: bytes, *, assign_offsets: bool = True, leader_epoch: int | None = None) -> AppendInfo:
        """Appends a producer's encoded batch, or another log's batches.

        With `assign_offsets` it is what a producer sends to a broker: one batch of magic 2 with
        base offset 0. It gets an offset and the leader epoch, and is checked as LogValidator does,
        and against the producer state; a header whose highest time is not that of its records is
        corrected. Otherwise they are what a follower fetches from its leader: batches of any magic,
        control batches included, with their own offsets, at or above the log end offset;
        max_message_bytes does not bound them. Raises `InvalidRecordError` and
        `RecordTooLargeError`.
        """
        encoded = check_batches(self._core, raw, assign_offsets=assign_offsets, leader_epoch=leader_epoch)
        return append_encoded(self._core, encoded)

    def append_columns(
        self,
        table: pa.Table | pa.RecordBatch,
        *,
        compression: str | Compression = Compression.NONE,
        **options: Unpack[ColumnOptions],
    ) -> AppendInfo | None:
        """Appends all rows of an Arrow table as many batches; returns None for a table without
        rows.

        The columns are ``value`` (binary) and optionally ``key`` (binary), ``timestamp_ms`` (int64;
        -1 and null: now) and ``headers``. See `logdex.kafka.columns.encode_columns` for them and
        for `options` (``batch_records``, ``batch_bytes``, producer fields). With a ``producer_id``
        but no ``base_sequence``, sequence numbers continue as in `append`. Rows are appended in
        order, piece by piece; other threads may append between pieces, unless sequence numbers
        continue. After an error the earlier pieces stay: `log_end_offset` shows how many rows were
        appended.

        With a ``base_sequence`` the same call can be repeated after a crash: batches that are in
        the log already are skipped (`AppendInfo.duplicate_batches`), and the others are written.
        """
        return append_columns(self._core, table, compression, options)

    def append_end_marker(
        self,
        producer_id: int,
        producer_epoch: int,
        *,
        commit: bool,
        coordinator_epoch: int = 0,
        timestamp_ms: int = NO_TIMESTAMP,
    ) -> AppendInfo:
        """Ends a producer's transaction, as its coordinator does. Without an open one the marker is
        written too."""
        encoded = encode_marker(
            self._core,
            commit=commit,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            coordinator_epoch=coordinator_epoch,
            timestamp_ms=timestamp_ms,
        )
        return append_encoded(self._core, encoded)

    def transaction(self, producer_id: int, producer_epoch: int = 0) -> Transaction:
        """A transaction of one producer on this partition, for ``with``: commits at the end, aborts
        on an error. A producer has one transaction at a time."""
        return Transaction(self, producer_id, producer_epoch, self._core.in_transaction)

    # -- what goes --------------------------------------------------------------------------------
    def delete_records(self, before: int) -> int:
        """Moves the log start offset to `before` (-1: the high watermark), durably, and returns it.

        Segments below it are removed. Raises `OffsetOutOfRangeError` above the high watermark.
        """
        return delete_records(self._core, before)

    def apply_retention(self, now_ms: int | None = None) -> list[int]:
        """Removes the segments beyond retention_bytes or retention_ms; returns their base
        offsets."""
        require_longs(now_ms=now_ms)
        return apply_retention(self._core, self._core.now_ms() if now_ms is None else now_ms)

    def truncate_to(self, offset: int) -> bool:
        """Truncates the log so that it ends at `offset`, or before the batch that holds it,
        durably. Returns False if it ends there or before."""
        return truncate_to(self._core, offset)

    def truncate_fully_and_start_at(self, offset: int, log_start_offset: int | None = None) -> None:
        """Removes all records; the next record gets `offset`."""
        truncate_fully_and_start_at(self._core, offset, log_start_offset)

    def roll(self) -> None:
        """Ends the active segment; the next record starts a new one."""
        with self._core.writing():
            self._core.roll()

    def reader(self, name: str, *, isolation: str = READ_UNCOMMITTED) -> LogReader:
        """Opens the reader of that name, which goes on where it has committed, or else at the log
        start offset. Records are on disk before they are committed. It is closed with the log."""
        core = self._core
        core.require_open()
        start = core.log_start_offset
        reader = LogReader(core.path, name, start=start, isolation=isolation, before_commit=self.flush, env=core.env)
        with core.lock:
            self._readers.add(reader)
        if core.closing:
            reader.close()
        return reader

    def flush(self) -> None:
        """Writes everything to disk, and moves the recovery point to the log end offset."""
        self._core.flush()

    # -- compaction -------------------------------------------------------------------------------
    def compact(self, now_ms: int | None = None, *, dedupe_buffer_bytes: int = DEDUPE_BUFFER_BYTES) -> CompactionReport:
        """Compacts the inactive segments as the broker's cleaner does, and applies retention;
        offsets stay.

        Every record that a later one with the same key supersedes is removed, and so are records
        without a key and those of aborted transactions. cleanup_policy must contain "compact". A
        tombstone or transaction marker that only readers still need gets a delete horizon, `now_ms`
        + delete_retention_ms, and is removed by the first compaction after it.

        Compaction continues where the last one ended, up to the last stable offset and the first
        segment younger than min_compaction_lag_ms. `dedupe_buffer_bytes` bounds the memory for
        keys: a smaller buffer needs more rounds. Appends and reads go on meanwhile; `close`
        interrupts it. At any time each segment on disk is either old or new as a whole. Raises
        `CorruptError` for a batch that cannot be read, and `StorageError`; later segments then stay
        as they were.
        """
        require_longs(now_ms=now_ms)
        require_given(dedupe_buffer_bytes=dedupe_buffer_bytes)
        return compact(self._core, self.replace_segments, now_ms, dedupe_buffer_bytes=dedupe_buffer_bytes)

    def open_cleaned_segment(self, base_offset: int) -> LogSegment:
        """Creates a segment under ``.cleaned`` names, to fill and pass to `replace_segments`."""
        return self._core.open_cleaned_segment(base_offset)

    def replace_segments(self, new: Sequence[LogSegment], old: Sequence[LogSegment]) -> None:
        """Replaces `old` segments (not the active one) by `new` ones, filled, from
        `open_cleaned_segment`.

        After a crash the log has either all old ones or all new ones.
        """
        core = self._core
        if any(segment is core.segments.active for segment in old):
            raise UsageError(f"{core.path}: the active segment cannot be replaced", hint="roll it first")
        with core.restructuring(), core.closing_at_last([*new, *old]):
            for segment in new:
                segment.on_become_inactive()
                segment.flush()
            replace_segments(core.segments, new, old, directory=core.path, env=core.env)
            kept = {segment.base_offset for segment in core.segments}
            gone = {segment.base_offset for segment in old} - kept
            core.producers.remove_where(lambda offset: offset in gone)

    # -- the end ----------------------------------------------------------------------------------
    def close(self) -> None:
        """Closes the readers of the log, trims indexes, syncs, marks the directory clean and
        releases it. Closing again does nothing.

        A failed log is only released, and recovered when it is opened again.
        """
        core = self._core
        if not core.home.is_own:
            return  # a forked child: the log, and any lock that was held during the fork, belong to its parent
        core.closing = True
        with core.lock:
            readers = list(self._readers)
        for reader in readers:
            reader.close()  # without the lock: a commit of the reader waits for it
        with core.cleaner_lock, core.lock:
            if core.closed:
                return
            core.group_commit.wait_until_idle()
            try:
                if core.failed is None:
                    core.close_cleanly()
            finally:
                core.close_files()
                core.home.close()

    def __enter__(self) -> Log:
        self._core.require_open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _refuse_file(path: str, env: Env) -> None:
    if env.exists(path) and not env.is_dir(path):
        above = posixpath.dirname(env.real_path(path))
        named = parse_partition_dir(posixpath.basename(above)) is not None
        hint = f"give the partition's: {above}" if named else "give one named TOPIC-PARTITION, such as events-0"
        raise UsageError(f"{path} is a file, not a directory", hint=hint)
