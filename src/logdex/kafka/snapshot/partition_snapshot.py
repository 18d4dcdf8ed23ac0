"""A Kafka partition opened for reading: its directory or a single .log. Nothing is changed or
locked.

Source: Kafka's UnifiedLog; ``docs/formats/kafka-log-directory.md``.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Self, Unpack

from logdex.errors import LogdexError, MissingFileError, NotAStoreError, StorageError, VanishedError
from logdex.frames.opened_log import OpenedLog
from logdex.io.env import DEFAULT_ENV, Env
from logdex.io.open_files import OpenFiles
from logdex.io.path_look import StrPath
from logdex.jobs.reports import Progress
from logdex.kafka.batch.record import Record
from logdex.kafka.directory.lost_segments import LostSegment, lost_segments
from logdex.kafka.directory.partition_files import (
    Checkpoints,
    open_segments,
    partition_directory,
    partition_name,
    read_checkpoints,
    require_own,
)
from logdex.kafka.directory.recognise import KafkaPath, KafkaPathKind
from logdex.kafka.directory.unfinished import opened_path
from logdex.kafka.files.file_names import LEADER_EPOCH_CHECKPOINT
from logdex.kafka.read import log_read, time_lookup
from logdex.kafka.read.key_query import query_key, require_key_index_dir
from logdex.kafka.read.log_read import READ_BYTES, READ_COMMITTED, READ_UNCOMMITTED, LogView
from logdex.kafka.read.plan import ReadPlan, plan_read
from logdex.kafka.read.read_filter import OFFSET_MAX, FilterOptions, ReadFilter, filter_of
from logdex.kafka.read.record_scan import KafkaScan
from logdex.kafka.read.scan_state import find_end, load_producers
from logdex.kafka.read.steady import PartitionView, steadily
from logdex.kafka.scan.scanner import EndKind, ScanEnd
from logdex.kafka.segment.file_records import LogOffsetPosition, TimestampAndOffset
from logdex.kafka.segment.log_segment import LogSegment
from logdex.kafka.settings.log_config import LogConfig, LogSettings, make_config
from logdex.kafka.snapshot.directory_look import DirectoryLook
from logdex.kafka.state.leader_epochs import EpochEntry, LeaderEpochs
from logdex.kafka.state.producer_state import ProducerStates
from logdex.primitives.shown import counted, repr_of
from logdex.primitives.text import to_bytes
from logdex.primitives.wrong_questions import require_most, require_open, require_times_of_key

Key = str | bytes


class PartitionSnapshot(OpenedLog[Record]):
    """One partition as it was when it was opened, or at the last `refresh`: a partition directory,
    another directory with segments, or a single .log. Read-only: no byte and no mtime changes and
    no lock is taken, so a broker may go on writing. Where it removes or replaces segments, the
    directory is read again, and the answer is from what is there then.

    If the directory's name is not a partition's, `topic` is that name and `partition` is -1.
    `segments` are in order of base offset, each read-only. `problems` collects the errors of small
    files that could not be read. Many snapshots may share the open files of a pool, `open_files`.
    Threads may share a snapshot, but must not call `refresh` or `close` while others use it.
    """

    def __init__(
        self,
        path: StrPath | KafkaPath,
        config: LogConfig | None = None,
        *,
        env: Env | None = None,
        open_files: OpenFiles | None = None,
        **settings: Unpack[LogSettings],
    ) -> None:
        self.env = env or DEFAULT_ENV
        found = opened_path(path, self.env)
        if found.kind is KafkaPathKind.LOG_DIR:
            raise NotAStoreError("a log directory, not one partition", path=found.path, hint="open a LogDirSnapshot")
        self._found, self.config = found, make_config(config, settings)
        self.path, self.directory = found.path, partition_directory(found)
        self._name = named = partition_name(found, self.env)
        self.topic, self.partition, self.mark = named.topic, named.partition, named.mark
        self._lock = threading.RLock()
        self._files = open_files or OpenFiles(self.env)
        self._owns_files = open_files is None
        self.segments: list[LogSegment] = []
        self._load()

    def __repr__(self) -> str:
        size = counted(self.size_bytes, "byte")
        return repr_of(self, repr(self.path), counted(len(self.segments), "segment"), size, is_closed=self._is_closed)

    def _load(self) -> None:
        self.problems: list[LogdexError] = []
        modified_ns = self.env.modified_ns(self.directory)
        segments = open_segments(self._found, self.config, self.env, self._files)
        self._look = DirectoryLook(self.directory, segments, modified_ns, self.env)
        self.segments, self._is_closed = segments, False
        self.checkpoints, self._lost = Checkpoints(), list[LostSegment]()
        if self._found.kind is not KafkaPathKind.LOG:
            self.checkpoints = read_checkpoints(self.directory, self._name, self.problems, self.env)
            self._lost = lost_segments(self.directory, segments, lambda: self.log_start_offset, self.env)
            self.problems += [each.error(self.log_start_offset) for each in self._lost]
        self._end: tuple[int, ScanEnd | None] | None = None
        self._without_zeros: LogSegment | None = None
        self._producers: ProducerStates | None = None
        self._epochs: list[EpochEntry] | None = None

    # -- what it is -------------------------------------------------------------------------------
    @property
    def name(self) -> str:
        """``topic-N``, or the directory's name if that is not a partition's."""
        return f"{self.topic}-{self.partition}" if self.partition >= 0 else self.topic

    def topics(self) -> dict[str, list[int]]:
        """Returns the topic and the number of the partition, as a log directory's `topics` does."""
        require_open(self.path, is_closed=self._is_closed)
        return {self.topic: [self.partition]}

    @property
    def size_bytes(self) -> int:
        """The size of all .log files in bytes."""
        return sum(segment.size_bytes for segment in self.segments)

    def segment(self, base_offset: int) -> LogSegment:
        """Returns the segment with that base offset. Raises `MissingFileError` if there is none."""
        for segment in self.segments:
            if segment.base_offset == base_offset:
                return segment
        bases = ", ".join(str(segment.base_offset) for segment in self.segments[:20])
        raise MissingFileError(f"no segment at {base_offset}", path=self.path, hint=f"there are {bases or 'none'}")

    @property
    def log_start_offset(self) -> int:
        """The first offset to read: the checkpointed one, or the first segment's if higher."""
        first = self.segments[0].base_offset if self.segments else 0
        return max(self.checkpoints.log_start_offset or 0, first)

    @property
    def log_end_offset(self) -> int:
        """The offset after the last batch that can be read."""
        return self._find_end()[0]

    @property
    def log_end(self) -> ScanEnd | None:
        """How the last segment's .log ends: after a batch, torn, with zeros or corrupt; None
        without a segment."""
        return self._find_end()[1]

    def _find_end(self) -> tuple[int, ScanEnd | None]:
        with self._lock:
            if self._end is None:
                self._end = steadily(self, self._end_of)
            return self._end

    def _end_of(self, view: PartitionView) -> tuple[int, ScanEnd | None]:
        offset, end = find_end(view.segments[-1], self.env) if view.segments else (0, None)
        return max(offset, view.log_start_offset), end

    def _readable_segments(self) -> list[LogSegment]:
        """Returns the segments. If the last one ends with zeros (preallocated, or extended but
        never written), it is limited to the part before them."""
        end = self.log_end
        if end is None or end.kind is not EndKind.ZEROS:
            return self.segments
        with self._lock:
            if self._without_zeros is None:
                last = self.segments[-1]
                self._without_zeros = LogSegment(
                    self.directory, last.base_offset, self.config, env=self.env, open_files=self._files
                )
                self._without_zeros.log.size_bytes = end.position
            return [*self.segments[:-1], self._without_zeros]

    @property
    def last_stable_offset(self) -> int:
        """The offset below which readers of committed records can read: that of the first open
        transaction, or the log end offset without one."""
        first = self.producers.first_unstable_offset
        return self.log_end_offset if first is None else max(min(first, self.log_end_offset), self.log_start_offset)

    @property
    def producers(self) -> ProducerStates:
        """The states of the producers at the log's end. They are computed once, from the newest
        producer snapshot and the batches after it."""
        with self._lock:
            if self._producers is None:
                self._producers, problems = steadily(self, self._producers_of)
                self.problems += problems
            return self._producers

    def _producers_of(self, view: PartitionView) -> tuple[ProducerStates, list[LogdexError]]:
        problems: list[LogdexError] = []
        found = load_producers(self.directory, view.segments, self.log_end_offset, problems, self.env)
        gone = next((problem for problem in problems if isinstance(problem, StorageError)), None)
        if gone is not None and self.segments is view.segments and self.is_outdated():
            raise gone
        return found, problems

    @property
    def leader_epochs(self) -> list[EpochEntry]:
        """The epochs of `leader-epoch-checkpoint`; empty if it cannot be read."""
        with self._lock:
            if self._epochs is None:
                self._epochs = []
                try:
                    path = f"{self.directory}/{LEADER_EPOCH_CHECKPOINT}"
                    self._epochs = LeaderEpochs.load(path, env=self.env).entries
                except LogdexError as error:
                    self.problems.append(error)
            return self._epochs

    def read_max_timestamp(self) -> int:
        """Returns the largest timestamp of all batches in milliseconds, or -1 without batches.
        Raises `CorruptError` if a batch header is malformed."""

        def read(_: PartitionView) -> int:
            segments = self._readable_segments()
            return max((time_lookup.read_max_timestamp(each, segments)[0] for each in segments), default=-1)

        return steadily(self, read)

    def check_offset(self, offset: int) -> None:
        """Raises `OffsetOutOfRangeError` if `offset` is before the log's start or after its end."""
        self._view(READ_UNCOMMITTED).check_offset(offset)

    def locate(self, offset: int) -> tuple[LogSegment, LogOffsetPosition] | None:
        """Returns the segment and the position of the batch that holds `offset`, or of the next
        batch, through the offset index; None after the last batch."""
        return steadily(self, lambda _: log_read.locate(self._readable_segments(), offset))

    # -- reading ----------------------------------------------------------------------------------
    def scan(
        self,
        *,
        topic: str | None = None,
        partition: int | None = None,
        limit: int | None = None,
        progress: Progress | None = None,
        **wanted: Unpack[FilterOptions],
    ) -> KafkaScan[PartitionSnapshot]:
        """Returns a scan of the records in log order that pass the filter (see `ReadFilter`).
        Raises `UsageError` for a `topic` or `partition` other than this one, and for a negative
        `limit`."""
        require_own(self.path, self.topic, self.partition, topic, partition)
        return KafkaScan([self], filter_of(wanted, "topic", "partition", "limit"), limit, progress)

    def plan_read(
        self, wanted: ReadFilter, *, columns: Iterable[str] | None = None, split_bytes: int | None = None
    ) -> ReadPlan:
        """Returns the plan of what to read for a filter, in splits that can be read independently
        (see `logdex.kafka.read.plan`)."""
        return plan_read([self], wanted, columns=columns, split_bytes=split_bytes)

    def read(
        self,
        offset: int,
        max_bytes: int = READ_BYTES,
        *,
        isolation: str = READ_UNCOMMITTED,
        max_records: int | None = None,
        control: bool = False,
    ) -> list[Record]:
        """Returns records from `offset` on through the offset index, as `logdex.kafka.Log.read`
        does."""
        log_read.check_isolation(isolation)

        def read(_: PartitionView) -> list[Record]:
            view = self._view(isolation)
            found = log_read.read_records(view, offset, max_bytes, isolation, max_records=max_records, control=control)
            if isolation == READ_COMMITTED and self.is_outdated():  # a .txnindex may have been gone already
                raise VanishedError("segments were removed meanwhile", path=self.path)
            return found

        return steadily(self, read)

    def _view(self, isolation: str) -> LogView:
        end = self.log_end_offset
        upto = self.last_stable_offset if isolation == READ_COMMITTED else end
        return LogView(self._readable_segments(), self.log_start_offset, upto, end, self.path)

    def offset_for_timestamp(
        self, timestamp_ms: int, *, isolation: str = READ_UNCOMMITTED
    ) -> TimestampAndOffset | None:
        """Returns the first record at or after `timestamp_ms` through the time indexes, or None if
        there is none. Special values: -2 is the log's start, -1 its end, -3 the first record with
        the largest timestamp.

        As in the broker, the search uses the first segment whose time index reaches the time, even
        if compaction has removed its records. Batches that the last segment's time index does not
        cover yet are read, and so are those of a segment whose time index has no entries.
        """
        log_read.check_isolation(isolation)
        return steadily(self, lambda _: time_lookup.offset_for_timestamp(self._view(isolation), timestamp_ms))

    def query(
        self,
        key: Key,
        begin_ms: int | None = None,
        end_ms: int | None = None,
        max: int | None = None,
        *,
        key_index_dir: StrPath | None = None,
        problems: list[LogdexError] | None = None,
    ) -> list[Record]:
        """Returns all records with exactly this key, or the newest `max`, highest offset first.
        Both times are inclusive, in milliseconds.

        Key indexes, beside the segments or in `key_index_dir`, are used where they exist and are up
        to date; otherwise the log is read. Raises `CorruptError` for a bad batch that may hold the
        key. With `problems`, such errors are added to it instead, and so are those of key indexes
        that could not be used.
        """
        require_most(max=max)
        home = require_key_index_dir(key_index_dir, self.env)
        found = self.iter_query(key, begin_ms, end_ms, key_index_dir=home, problems=problems)
        return [*islice(found, max)]

    def iter_query(
        self,
        key: Key,
        begin_ms: int | None = None,
        end_ms: int | None = None,
        *,
        key_index_dir: StrPath | None = None,
        problems: list[LogdexError] | None = None,
    ) -> Iterator[Record]:
        """Yields the records of `query` one by one."""
        require_times_of_key(begin_ms, end_ms)
        tell = None if problems is None else problems.append
        wanted = ReadFilter(key=to_bytes(key), begin_ms=begin_ms, end_ms=end_ms)
        return query_key(self, wanted, key_index_dir=key_index_dir, on_bad_batch=tell, on_bad_index=tell)

    # -- the snapshot as a whole ------------------------------------------------------------------
    def listed_again(self) -> PartitionSnapshot:
        """Returns a snapshot of the partition now. Raises `VanishedError` if it is gone."""
        if self._found.kind is KafkaPathKind.LOG:
            self.env.size_bytes(self.path)
        return PartitionSnapshot(self._found, self.config, env=self.env)  # another file may be open under a name

    def refresh(self) -> None:
        """Reads the directory again, and sees what was written or removed since."""
        with self._lock:
            self._close_segments()
            self._load()

    def view(self, isolation: str | None = None) -> PartitionView:
        """Returns the partition as the last look found it. With ``read_committed`` it has the last
        stable offset. Raises `LogClosedError` after `close`."""
        with self._lock:
            require_open(self.path, is_closed=self._is_closed)
            stable = self.last_stable_offset if isolation == READ_COMMITTED else OFFSET_MAX
            place, start = (self.topic, self.partition), self.log_start_offset
            return PartitionView(*place, self.segments, self.env, start, stable, self._lost)

    def is_mixed(self, view: PartitionView) -> bool:
        """Whether what was read through `view` may belong to different states of the log."""
        return self.segments is not view.segments or self._look.is_mixed()

    def is_outdated(self) -> bool:
        """Whether a segment was removed or replaced since the last look."""
        return self._look.is_outdated()

    def look_again(self, view: PartitionView) -> bool:
        """Reads the directory again if segments of `view` have been removed or replaced. Returns
        whether there is a newer look. Other threads may go on with the old one."""
        with self._lock:
            if self.segments is view.segments:
                if not (self.is_outdated() or self._look.is_mixed()):
                    return False
                for segment in view.segments:
                    self._files.forget(segment.log.path)  # the name may belong to another file
                self._load()
            return True

    def _close_segments(self) -> None:
        for segment in self.segments:
            segment.close()
        if self._without_zeros is not None:
            self._without_zeros.close()
        self.segments = []

    def close(self) -> None:
        """Closes all files."""
        self._close_segments()
        self._is_closed = True
        if self._owns_files:
            self._files.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
