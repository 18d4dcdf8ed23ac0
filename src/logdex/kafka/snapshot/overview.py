"""An overview of a Kafka path that needs few reads: partitions, their offsets, times and sizes,
indexes, consumer groups, and whether the log was closed cleanly.

Only the ends of files and the internal topics are read. Whether the log in between is whole is
checked by `verify`.

Source: ``docs/formats/kafka-log-directory.md``; Kafka's UnifiedLog, LogManager.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from logdex.errors import LogdexError, VanishedError
from logdex.frames.lag import lag_of
from logdex.io.env import DEFAULT_ENV, Env
from logdex.kafka.directory.clean_mark import is_closed_cleanly, is_shut_down_cleanly
from logdex.kafka.directory.log_dir import KafkaLogDir, PartitionDir
from logdex.kafka.directory.lost_segments import RESTORE_LAST_SEGMENT, find_lost_end
from logdex.kafka.directory.partition_files import home_of, is_log_directory, stated_start
from logdex.kafka.directory.recognise import KafkaPath, KafkaPathKind
from logdex.kafka.directory.unfinished import unfinished_at
from logdex.kafka.files.checkpoints import TopicPartition
from logdex.kafka.files.metadata_files import MetaProperties, read_topic_id, uuid_to_text
from logdex.kafka.files.reader_positions import read_positions
from logdex.kafka.internal_topics.cluster_metadata import ClusterMetadata
from logdex.kafka.read.steady import PartitionView, steadily
from logdex.kafka.scan.scanner import EndKind
from logdex.kafka.segment.log_segment import LogSegment
from logdex.kafka.segment.sparse_index import IndexFile
from logdex.kafka.settings.log_config import LogConfig
from logdex.kafka.snapshot.partition_snapshot import PartitionSnapshot
from logdex.kafka.state.leader_epochs import EpochEntry


@dataclass(frozen=True, slots=True)
class IndexOverview:
    """An index: number of entries, size in bytes and state. The state is ``good``, ``missing``,
    ``empty``, ``untrimmed`` (zeros follow the entries, because the segment was not closed),
    ``torn`` (the size is not a multiple of the entry size) or ``unreadable``."""

    state: str
    entries: int = 0
    size_bytes: int = 0


@dataclass(frozen=True, slots=True)
class SegmentOverview:
    """A segment: the size of its .log, and its indexes. Most segments have no .txnindex."""

    base_offset: int
    size_bytes: int
    offset_index: IndexOverview
    time_index: IndexOverview
    txn_index: IndexOverview


@dataclass(slots=True)
class PartitionOverview:
    """A partition.

    Offsets are those that a broker would load it with if nothing is damaged. Times are in
    milliseconds: that of the first batch and the largest, None if there is none. `clean` states
    whether the partition was closed cleanly; None if that is unknown. `end` is how the last .log
    ends. `consumer_offsets` is the next offset that each group consumes, `reader_positions` the
    next one that each named reader of Logdex reads.
    """

    topic: str
    partition: int
    path: str
    mark: str | None = None
    topic_id: str | None = None
    log_start_offset: int = 0
    log_end_offset: int = 0
    last_stable_offset: int = 0
    high_watermark: int | None = None
    recovery_point: int | None = None
    size_bytes: int = 0
    begin_timestamp_ms: int | None = None
    end_timestamp_ms: int | None = None
    clean: bool | None = None
    end: str = EndKind.END.value
    end_reason: str = ""
    producers: int = 0
    open_transactions: dict[int, int] = field(default_factory=dict)
    leader_epochs: list[EpochEntry] = field(default_factory=list)
    segments: list[SegmentOverview] = field(default_factory=list)
    consumer_offsets: dict[str, int] = field(default_factory=dict)
    reader_positions: dict[str, int] = field(default_factory=dict)

    def lag(self, group: str) -> int:
        """Returns how many offsets a group has not consumed yet."""
        return self._behind(self.consumer_offsets[group])

    def reader_lag(self, name: str) -> int:
        """Returns how many offsets a named reader has not read yet."""
        return self._behind(self.reader_positions[name])

    def _behind(self, offset: int) -> int:
        return lag_of(offset, self.log_start_offset, self.log_end_offset)

    def to_json(self) -> dict[str, Any]:
        """Returns the partition's object for ``logdex info --json``."""
        groups = {name: {"offset": offset, "lag": self.lag(name)} for name, offset in self.consumer_offsets.items()}
        readers = {name: {"offset": at, "lag": self.reader_lag(name)} for name, at in self.reader_positions.items()}
        found = asdict(self)
        del found["consumer_offsets"], found["reader_positions"]
        found["leader_epochs"] = [epoch._asdict() for epoch in self.leader_epochs]
        found["open_transactions"] = [
            {"producer_id": producer, "first_offset": first} for first, producer in self.open_transactions.items()
        ]
        return found | {"consumer_groups": groups, "readers": readers}


@dataclass(slots=True)
class KafkaOverview:
    """What is at a path. `in_use` and the fields after it are for log directories only. `problems`
    holds the errors of what could not be read."""

    path: str
    kind: KafkaPathKind
    partitions: list[PartitionOverview] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    clean: bool | None = None
    in_use: bool | None = None
    """Whether a broker has the directory open now; None where the operating system cannot report
    it."""
    meta: MetaProperties | None = None
    cluster_metadata: ClusterMetadata | None = None
    other_names: list[str] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """Returns the object for ``logdex info --json --store``."""
        cluster = self.cluster_metadata
        return {
            "path": self.path,
            "engine": "kafka",
            "kind": self.kind.value,
            "clean": self.clean,
            "in_use": self.in_use,
            "meta_properties": None if self.meta is None else self.meta._asdict(),
            "cluster_metadata": None if cluster is None else cluster.to_json(),
            "other_names": self.other_names,
            "partitions": [partition.to_json() for partition in self.partitions],
        }


def overview(found: KafkaPath, config: LogConfig, *, env: Env = DEFAULT_ENV) -> KafkaOverview:
    """Returns the overview of a path. Errors about single files are added to `problems`. Raises a
    `LogdexError` only if the path cannot be opened at all."""
    look = KafkaOverview(found.path, found.kind)
    look.problems += [f"{each.directory}: {each.message}" for each in unfinished_at(found, env)]
    if found.kind is not KafkaPathKind.LOG_DIR:
        with PartitionSnapshot(found, config, env=env) as snapshot:
            look.partitions = [_steady_partition(snapshot, look)]
            home, is_lone = home_of(env.real_path(snapshot.directory), env=env)
            look.clean = look.partitions[0].clean if is_lone else is_shut_down_cleanly(home, env=env)
        return look
    log_dir = KafkaLogDir(found, env=env)
    look.in_use = log_dir.is_locked()
    look.other_names = log_dir.other_names()
    for each in log_dir.partition_dirs(marked=True):
        _add_partition(each, config, look, env)
    look.clean = _is_clean(log_dir, look, env)
    for read in (_add_meta, _add_groups, _add_cluster):
        try:
            read(log_dir, look)
        except LogdexError as error:
            look.problems.append(str(error))
    return look


def _is_clean(log_dir: KafkaLogDir, look: KafkaOverview, env: Env) -> bool | None:
    """Returns the value of `clean` for a log directory. A directory that no broker has used has no
    mark of its own: if its partitions all have the same value it is that value, else None."""
    if is_log_directory(log_dir.path, env=env):
        return is_shut_down_cleanly(log_dir.path, env=env)
    said = {one.clean for one in look.partitions}
    return said.pop() if len(said) == 1 else None


def _add_partition(each: PartitionDir, config: LogConfig, look: KafkaOverview, env: Env) -> None:
    problems, found = look.problems, None
    look.problems = [*problems]
    try:
        with PartitionSnapshot(each.kafka_path, config, env=env) as snapshot:
            found = _steady_partition(snapshot, look)
    except LogdexError as error:
        look.problems.append(str(error))
    if not env.exists(each.path):  # a broker has deleted it since the directory was listed
        look.problems = problems
    elif found is not None:
        look.partitions.append(found)


def _steady_partition(snapshot: PartitionSnapshot, look: KafkaOverview) -> PartitionOverview:
    problems = look.problems

    def read(_: PartitionView) -> PartitionOverview:
        look.problems = [*problems]
        found = _partition(snapshot, look)
        if len(look.problems) > len(problems) and snapshot.is_outdated():
            raise VanishedError("segments were removed meanwhile", path=snapshot.path)
        return found

    return steadily(snapshot, read)


def _partition(snapshot: PartitionSnapshot, look: KafkaOverview) -> PartitionOverview:
    one = PartitionOverview(snapshot.topic, snapshot.partition, snapshot.path, snapshot.mark)
    one.log_start_offset, one.log_end_offset = _log_start(snapshot, look), snapshot.log_end_offset
    one.last_stable_offset = snapshot.last_stable_offset
    one.high_watermark, one.recovery_point = snapshot.checkpoints.high_watermark, snapshot.checkpoints.recovery_point
    one.size_bytes = snapshot.size_bytes
    one.clean = is_closed_cleanly(snapshot.directory, env=snapshot.env)
    lost = find_lost_end(snapshot.directory, snapshot.checkpoints, one.log_end_offset, snapshot.env)
    if lost is not None and one.clean:
        look.problems.append(f"{lost.text}: {RESTORE_LAST_SEGMENT}")
    if snapshot.log_end is not None:
        one.end, one.end_reason = snapshot.log_end.kind.value, snapshot.log_end.reason
    one.producers = len(snapshot.producers)
    one.open_transactions = snapshot.producers.ongoing_transactions
    one.leader_epochs = snapshot.leader_epochs
    one.segments = [_segment(segment, look) for segment in snapshot.segments]
    try:
        topic_id = read_topic_id(snapshot.directory, env=snapshot.env)
        one.topic_id = None if topic_id is None else uuid_to_text(topic_id)
        _add_times(snapshot, one)
    except LogdexError as error:
        look.problems.append(str(error))
    if look.kind is not KafkaPathKind.LOG:  # one file is not what its partition's readers read
        _add_readers(snapshot, one, look)
    look.problems += map(str, snapshot.problems)
    return one


def _add_readers(snapshot: PartitionSnapshot, one: PartitionOverview, look: KafkaOverview) -> None:
    problems: list[LogdexError] = []
    one.reader_positions |= read_positions(snapshot.directory, problems, env=snapshot.env)
    look.problems += map(str, problems)


def _log_start(snapshot: PartitionSnapshot, look: KafkaOverview) -> int:
    """Returns the log start offset. For a single .log, which is read as a whole, it is the
    checkpointed start of its partition if that lies within the file."""
    if look.kind is not KafkaPathKind.LOG:
        return snapshot.log_start_offset
    start = stated_start(snapshot.directory, snapshot.problems, snapshot.env)
    return max(min(start, snapshot.log_end_offset), snapshot.log_start_offset)


def _add_times(snapshot: PartitionSnapshot, one: PartitionOverview) -> None:
    for segment in snapshot.segments:
        header = next(segment.log.headers(), None)
        if header is not None:
            first = segment.log.batch_at(header.position).base_timestamp_ms
            one.begin_timestamp_ms = first if first >= 0 else None
            break
    largest = snapshot.read_max_timestamp()
    one.end_timestamp_ms = largest if largest >= 0 else None


def _segment(segment: LogSegment, look: KafkaOverview) -> SegmentOverview:
    return SegmentOverview(
        segment.base_offset,
        segment.size_bytes,
        _index(segment, "offset_index", look),
        _index(segment, "time_index", look),
        _index(segment, "txn_index", look),
    )


def _index(segment: LogSegment, name: str, look: KafkaOverview) -> IndexOverview:
    try:
        index = getattr(segment, name)
        if not segment.env.exists(index.path):
            return IndexOverview("missing")
        if not isinstance(index, IndexFile):
            index.sanity_check()
            entries = len(index.all_aborted_txns())
            return IndexOverview("good" if entries else "empty", entries, index.size_bytes)
        left = index.size_bytes - index.entries * index.layout.size_bytes
        if left >= index.layout.size_bytes:
            state = "untrimmed"
        else:
            state = "torn" if left else "good" if index.entries else "empty"
        return IndexOverview(state, index.entries, index.size_bytes)
    except LogdexError as error:
        look.problems.append(str(error))
        return IndexOverview("unreadable")


def _add_meta(log_dir: KafkaLogDir, look: KafkaOverview) -> None:
    look.meta = log_dir.meta_properties()


def _add_groups(log_dir: KafkaLogDir, look: KafkaOverview) -> None:
    offsets = log_dir.consumer_offsets()
    look.problems += [each for each in map(str, offsets.problems) if each not in look.problems]
    here = {TopicPartition(one.topic, one.partition): one for one in look.partitions if one.mark is None}
    for (group, partition), committed in sorted(offsets.offsets.items()):
        if partition in here:
            here[partition].consumer_offsets[group] = committed.offset


def _add_cluster(log_dir: KafkaLogDir, look: KafkaOverview) -> None:
    look.cluster_metadata = log_dir.cluster_metadata()
    if look.cluster_metadata is not None:
        look.problems += map(str, look.cluster_metadata.problems)
