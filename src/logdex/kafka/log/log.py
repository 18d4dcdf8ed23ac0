"""`Log`: one partition's directory, open for appending and reading.

Source: Kafka's UnifiedLog. What a power cut, a full disk or two writers can do to it is said in `open_log`: `core`,
`home` and `loader`.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterable, Sequence
from types import TracebackType
from typing import Any

import pyarrow as pa

from logdex.errors import MissingFileError, UsageError
from logdex.io.env import DEFAULT_ENV, Env
from logdex.kafka.batch.record import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE, NO_TIMESTAMP, Compression, Record
from logdex.kafka.files.file_names import parse_partition_dir
from logdex.kafka.log.append import (
    AppendInfo,
    EncodedAppend,
    acknowledge,
    append_encoded,
    check_batches,
    encode_marker,
    encode_records,
    next_sequence,
    write_encoded,
)
from logdex.kafka.log.append_columns import append_columns
from logdex.kafka.log.cleaner.job import CompactionReport, compact
from logdex.kafka.log.cleaner.offset_map import DEDUPE_BUFFER_BYTES
from logdex.kafka.log.core import LogCore
from logdex.kafka.log.home import LogHome, make_dirs_durably
from logdex.kafka.log.loader import LogLoader
from logdex.kafka.log.reading import ReadableLog
from logdex.kafka.log.retention import apply_retention, delete_records, truncate_fully_and_start_at, truncate_to
from logdex.kafka.log.swap import replace_segments
from logdex.kafka.log.transactions import Transaction
from logdex.kafka.segment.log_segment import LogSegment
from logdex.kafka.segment.segment_base import wall_clock_ms
from logdex.kafka.settings.log_config import LogConfig, make_config


class Log(ReadableLog):
    """A ``topic-N`` directory, written by this process alone; `Log.open` opens it, `close` (or ``with``) closes it.

    Thread-safety: any method may be called from any thread. Appends go one after the other; with ``flush="sync"``
    threads that append at the same time share their fsyncs. Readers neither wait for appends nor for fsyncs, only for
    the moment in which files are cut or removed. One writer: a running broker and another `Log` are refused
    (`LogInUseError`), and so is a forked child of this process. Others may read the directory at any time
    (`logdex.open`, `logdex.kafka.LogFollower`).

    After a write or an fsync that failed nothing more is acknowledged (`LogFailedError`): close it and open it again.
    """

    @classmethod
    def open(
        cls,
        path: str,
        config: LogConfig | None = None,
        *,
        create: bool = True,
        env: Env = DEFAULT_ENV,
        clock_ms: Callable[[], int] = wall_clock_ms,
        **settings: Any,
    ) -> Log:
        """Opens a partition directory, created where missing unless `create` is false (`MissingFileError`).

        `settings` are fields of `LogConfig` (``segment_bytes=…``, ``flush="sync"``), or a whole `config`. A directory
        that was not closed cleanly is recovered: `load_report` says what was done. Raises `LogInUseError`,
        `UsageError` for a file, `CorruptError` for what a broker could not load either, `StorageError`.
        """
        config = make_config(config, settings)
        _refuse_file(path, env)
        if not create and not env.is_dir(path):
            raise MissingFileError("no such directory", path=path)
        make_dirs_durably(path, env=env)
        home = LogHome(path, env=env)
        try:
            home.sync_name()
            loaded = LogLoader(home, config, now_ms=clock_ms, env=env).load()
            return cls(LogCore(loaded, home, config, clock_ms, env))
        except BaseException:
            home.close()
            raise

    # -- appending -----------------------------------------------------------------------------------------------------
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
        """Appends records as one batch: all of them or, where it raises, none.

        Of a record, key, value, headers and timestamp count (-1: now). With ``flush="sync"`` they are on disk when this
        returns. With a `producer_id`, `producer_epoch` and `sequence` (None: the next one) the batch is idempotent, as
        for a broker: one that was sent before gives its old offsets, gaps and old epochs raise a `ProducerStateError`.
        """
        core = self._core

        def encode(with_sequence: int) -> EncodedAppend:
            return encode_records(
                core,
                records,
                compression=compression,
                producer_id=producer_id,
                producer_epoch=producer_epoch,
                sequence=with_sequence,
                transactional=transactional,
                leader_epoch=leader_epoch,
            )

        if producer_id != NO_PRODUCER_ID and sequence is None:
            with core.lock:  # the next sequence is this batch's
                encoded = encode(next_sequence(core, producer_id, producer_epoch))
                written = write_encoded(core, encoded)
            return acknowledge(core, *written)
        return append_encoded(core, encode(NO_SEQUENCE if sequence is None else sequence))

    def append_batches(self, raw: bytes, *, assign_offsets: bool = True, leader_epoch: int | None = None) -> AppendInfo:
        """Appends batches as they are, from a producer or another log; only what no checksum covers is set.

        With `assign_offsets` they are a client's: of magic 2, given offsets and the leader epoch, checked against the
        producer's state. Without, they are a leader's: of any magic, control batches among them, with the offsets that
        they have, which must be at or above the log end offset. Raises `InvalidRecordError`, `RecordTooLargeError`.
        """
        encoded = check_batches(self._core, raw, assign_offsets=assign_offsets, leader_epoch=leader_epoch)
        return append_encoded(self._core, encoded)

    def append_columns(
        self, table: pa.Table | pa.RecordBatch, *, compression: str | Compression = Compression.NONE, **options: Any
    ) -> AppendInfo | None:
        """Appends all rows of an Arrow table, many batches at once; None for a table without rows.

        Columns ``key``, ``value`` (binary), ``timestamp_ms`` (int64; -1 and null: now) and, if
        there, ``headers``, as for `logdex.kafka.columns.encode_columns`, which also says what
        `options` there are (``batch_records``, ``batch_bytes``, producer fields). With a
        ``producer_id`` and no ``base_sequence`` the next sequences are taken, as by `append`. Rows
        go in order, piece by piece; other threads may append between pieces, unless the next
        sequences are taken. Where it raises, the pieces before stay: `log_end_offset` says how far
        it came.
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
        """Ends a producer's transaction, as its coordinator does. A producer without an open one gets a marker too."""
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
        """A transaction of one producer on this partition, for ``with``: committed at its end, aborted by an error."""
        return Transaction(self, producer_id, producer_epoch)

    # -- what goes -----------------------------------------------------------------------------------------------------
    def delete_records(self, before: int) -> int:
        """Makes `before` (-1: the high watermark) the log's start, on disk when this returns; gives the start. Segments
        that lie below it are removed. `OffsetOutOfRangeError` above the high watermark."""
        return delete_records(self._core, before)

    def apply_retention(self, now_ms: int | None = None) -> list[int]:
        """Removes the segments that retention_bytes and retention_ms give up; their base offsets."""
        return apply_retention(self._core, self._core.now_ms() if now_ms is None else now_ms)

    def truncate_to(self, offset: int) -> bool:
        """Cuts the log so that it ends at `offset`, on disk when this returns; False where it ends there already."""
        return truncate_to(self._core, offset)

    def truncate_fully_and_start_at(self, offset: int, log_start_offset: int | None = None) -> None:
        """Drops all records; the next one has `offset`."""
        truncate_fully_and_start_at(self._core, offset, log_start_offset)

    def roll(self) -> None:
        """Ends the active segment; the next record begins another one."""
        with self._core.writing():
            self._core.roll()

    def flush(self) -> None:
        """Puts everything on disk, and moves the recovery point to the end."""
        self._core.flush()

    # -- compaction -----------------------------------------------------------------------------------------------
    def compact(self, now_ms: int | None = None, *, dedupe_buffer_bytes: int = DEDUPE_BUFFER_BYTES) -> CompactionReport:
        """Removes from the inactive segments every record that a later one of the same key replaces, as the broker's
        cleaner does, and then what retention gives up; offsets stay. For a log whose cleanup_policy has "compact".

        Records without a key and those of aborted transactions go too; a tombstone or a transaction marker that is only
        there for readers gets a horizon of delete_retention_ms from `now_ms` on, and goes with the first compaction
        after that. Takes up where the last one ended, and does not go beyond the last stable offset nor into segments
        younger than min_compaction_lag_ms. `dedupe_buffer_bytes` bounds the memory for keys: a smaller one takes more
        rounds. Appends and reads go on meanwhile; a `close` ends it early. On disk, at any time, each segment is the
        old one or the new one. Raises `CorruptError` for a batch that cannot be read, `StorageError`, and then the
        segments that were not reached are as they were.
        """
        return compact(self._core, self.replace_segments, now_ms, dedupe_buffer_bytes=dedupe_buffer_bytes)

    def open_cleaned_segment(self, base_offset: int) -> LogSegment:
        """A new segment under ``.cleaned`` names, for `replace_segments`; whoever asks for it fills it."""
        return self._core.open_cleaned_segment(base_offset)

    def replace_segments(self, new: Sequence[LogSegment], old: Sequence[LogSegment]) -> None:
        """Puts `new` (from `open_cleaned_segment`; filled, with their aborted transactions) in the place of `old`,
        which are not active. After a crash it is all of the old ones or all of the new ones."""
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

    # -- the end -------------------------------------------------------------------------------------------------------
    def close(self) -> None:
        """Trims, syncs and marks the directory clean, and gives it up; again: nothing. A failed log is given up as it
        is, and recovered when it is opened again."""
        core = self._core
        if not core.home.is_own:
            return  # a forked child: the log is its parent's, and so are the locks it may have been forked with
        core.closing = True
        with core.cleaner_lock, core.lock:
            if core.closed:
                return
            core.wait_for_syncs()
            try:
                if core.failed is None:
                    core.close_cleanly()
            finally:
                core.close_files()
                core.home.close()

    def __enter__(self) -> Log:
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
