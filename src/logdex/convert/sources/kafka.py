"""A Kafka log directory or partition as the source of a conversion."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from typing import Any, TypeVar

import pyarrow as pa

from logdex.convert.sources.source import (
    Marks,
    OnLoss,
    Positions,
    SourcePlan,
    another_log,
    ends_before,
    filter_json,
    told,
)
from logdex.errors import CorruptError, MissingFileError, StoreError, VanishedError
from logdex.io.env import DEFAULT_ENV, Env
from logdex.jobs.reports import Gone
from logdex.kafka.batch.record import Record
from logdex.kafka.directory.unfinished import require_whole_logs
from logdex.kafka.internal_topics import INTERNAL_TOPICS
from logdex.kafka.read.log_read import READ_COMMITTED, READ_UNCOMMITTED
from logdex.kafka.read.read_filter import ReadFilter
from logdex.kafka.read.record_scan import KafkaScan, SegmentEnd
from logdex.kafka.read.splits.split import ReadSplit
from logdex.kafka.scan.scanner import EndKind
from logdex.kafka.snapshot.log_dir_snapshot import KafkaSnapshot, open_kafka
from logdex.kafka.snapshot.partition_snapshot import PartitionSnapshot
from logdex.kafka.snapshot.read_mark import ReadMark
from logdex.primitives.shown import counted

T = TypeVar("T")
Passes = Callable[[PartitionSnapshot, Record], bool]
"""Whether a record of a partition is wanted."""


@dataclass(frozen=True, slots=True)
class LogPart:
    """A split of one partition. Up to `sure_end`, a position in its file, batches are known to
    be."""

    split: ReadSplit
    sure_end: int

    @property
    def size_bytes(self) -> int:
        """The bytes of the log that it covers."""
        return self.split.size_bytes

    def batches(self, on_loss: OnLoss, env: Env = DEFAULT_ENV) -> Iterator[pa.RecordBatch]:
        """Yields the records."""

        def on_damage(error: CorruptError) -> None:
            on_loss(told(error))

        def on_gone(error: VanishedError) -> None:
            on_loss(Gone(error.message))

        try:
            end = yield from self.split.to_batches(env=env, on_bad_batch=on_damage, on_gone=on_gone)
            cut = self.split.cut_at(end, self.sure_end, env)
        except VanishedError:
            on_loss(Gone(f"{self.split.path}: a broker removed the partition before it was read"))
            return
        damage = self.split.damage_at(end, self.sure_end)
        if cut is not None:
            on_loss(Gone(cut.message))
        elif damage is not None:
            on_damage(damage)


@dataclass(frozen=True, slots=True)
class LogDirSource:
    """The records of a log directory, a partition or a .log file that pass a filter. Internal
    topics are left out unless one is named. `settings` are the keyword arguments of
    `logdex.open`."""

    path: str
    topic: str | None = None
    partition: int | None = None
    wanted: ReadFilter = field(default_factory=ReadFilter)
    settings: Mapping[str, Any] = field(default_factory=dict)
    format: str = "kafka"

    @property
    def filter(self) -> Mapping[str, Any]:
        """The filter as JSON."""
        wanted = self.wanted
        return filter_json(
            topic=self.topic,
            partition=self.partition,
            begin_ms=wanted.begin_ms,
            end_ms=wanted.end_ms,
            offset=wanted.offset,
            control=wanted.control,
            isolation_level=wanted.isolation,
        )

    def plan(
        self,
        columns: tuple[str, ...],
        since: Positions,
        split_bytes: int,
        env: Env = DEFAULT_ENV,
        *,
        marks: Marks | None = None,
    ) -> SourcePlan:
        """Plans a read. See `LogSource`."""
        plan = SourcePlan(positions=dict(since), marks=dict(marks or {}))
        with open_kafka(self.path, env=env, **self.settings) as snapshot:
            partitions = [*self.partitions(snapshot)]
            require_whole_logs((each.directory for each in partitions), env)
            for each in partitions:
                try:
                    self._require_same(plan, each)
                    self._plan_partition(plan, each, columns, since.get(each.name), split_bytes)
                except VanishedError:
                    if each is snapshot or env.exists(each.directory):
                        raise
                    _leave_out(plan, each, since)
            left_out = [] if self.topic is not None else _internal_topics(snapshot)
        if left_out:
            plan.notes.append(f"left out: {', '.join(left_out)}, which brokers keep for themselves; --topic names one")
        return plan

    def still_holds(self, plan: SourcePlan, env: Env = DEFAULT_ENV) -> bool:
        """Whether no partition was truncated, or deleted and created again, since a plan was made.
        See `LogSource`."""
        with suppress(StoreError), open_kafka(self.path, env=env, **self.settings) as snapshot:
            for each in self.partitions(snapshot):
                with suppress(StoreError):
                    if each.name in plan.positions and self._was_cut(plan, each):
                        return False
        return True

    @staticmethod
    def _was_cut(plan: SourcePlan, partition: PartitionSnapshot) -> bool:
        mark = ReadMark.of_json(plan.marks.get(partition.name, {}))
        is_shorter = partition.log_end_offset < plan.positions[partition.name]
        return is_shorter or mark.difference(partition) is not None

    def partitions(self, snapshot: KafkaSnapshot) -> Iterator[PartitionSnapshot]:
        """Yields the wanted partitions. Raises `MissingFileError` if none has the given names."""
        count = 0
        for each in _all_partitions(snapshot):
            is_wanted = each.topic == self.topic if self.topic is not None else each.topic not in INTERNAL_TOPICS
            if is_wanted and self.partition in (None, each.partition):
                count += 1
                yield each
        if not count and (self.topic is not None or self.partition is not None):
            snapshot.scan(topic=self.topic, partition=self.partition)  # names the nearest topic
            hint = f"logdex info {shlex.quote(self.path)} lists what is here"
            raise MissingFileError("no such topic or partition", path=self.path, hint=hint)

    @staticmethod
    def _require_same(plan: SourcePlan, partition: PartitionSnapshot) -> None:
        """Raises `UsageError` if a partition is another one than was read. Notes a loss if what was
        read of it last has been replaced."""
        mark = plan.marks.get(partition.name)
        found = None if mark is None else ReadMark.of_json(mark).difference(partition)
        if found is not None and found.is_another:
            raise another_log(partition.path, partition.name, found.what)
        if found is not None:
            plan.losses.append(Gone(f"{partition.path}: {found.what}: what is in place of it is not read"))

    def _plan_partition(
        self,
        plan: SourcePlan,
        partition: PartitionSnapshot,
        columns: tuple[str, ...],
        since: int | None,
        split_bytes: int,
    ) -> None:
        wanted = self.wanted
        end = partition.last_stable_offset if wanted.isolation == READ_COMMITTED else partition.log_end_offset
        plan.positions[partition.name] = end
        if (open_since := open_transaction(partition, wanted)) is not None:
            plan.waiting.append(open_since)
        if (torn := torn_end(partition)) is not None:
            plan.notes.append(torn)
        last, log_end = partition.segments[-1] if partition.segments else None, partition.log_end
        if since is not None and since > end:
            raise ends_before(partition.path, partition.name, end, since)
        plan.marks[partition.name] = asdict(ReadMark.of(partition, end))
        if since is not None and since < partition.log_start_offset:
            gone = f"offsets {since} to {partition.log_start_offset} were removed before they were read"
            plan.losses.append(Gone(f"{partition.path}: {gone}"))
        first = max((each for each in (since, wanted.offset) if each is not None), default=None)
        if first is not None and first >= end:
            return
        found = partition.plan_read(
            replace(wanted, offset=first, end_offset=end), columns=columns, split_bytes=split_bytes
        )
        position = 0 if log_end is None else log_end.position
        for split in found.splits:
            is_last = last is not None and split.base_offset == last.base_offset
            plan.parts.append(LogPart(split, min(split.end, position) if is_last else split.end))


def unless_deleted(partition: PartitionSnapshot, act: Callable[[PartitionSnapshot], T]) -> T | None:
    """Returns the result of `act`, and None if a broker deletes the partition meanwhile."""
    try:
        return act(partition)
    except VanishedError:
        if partition.env.exists(partition.directory):
            raise
        return None


def _leave_out(plan: SourcePlan, partition: PartitionSnapshot, since: Positions) -> None:
    """Takes a partition out of a plan that a broker has deleted meanwhile."""
    plan.positions.pop(partition.name, None)
    plan.positions |= {name: offset for name, offset in since.items() if name == partition.name}
    plan.losses.append(Gone(f"{partition.path}: a broker removed the partition before it was read"))


def open_transaction(partition: PartitionSnapshot, wanted: ReadFilter, passes: Passes | None = None) -> str | None:
    """What of the wanted records a reader of committed ones leaves out at the end of a partition,
    in words; None if nothing. Records are looked at only where times, a key or `passes` choose
    some."""
    if wanted.isolation != READ_COMMITTED:
        return None
    since, log_end = partition.last_stable_offset, partition.log_end_offset
    begin, end = (
        max(since, wanted.offset or 0),
        min(log_end, log_end if wanted.end_offset is None else wanted.end_offset),
    )
    if begin >= end:
        return None
    chooses = passes is not None or any(each is not None for each in (wanted.begin_ms, wanted.end_ms, wanted.key))
    if chooses and not _count(partition, replace(wanted, isolation=READ_UNCOMMITTED, offset=begin), passes):
        return None
    offsets = f"offset {begin} is" if end - begin == 1 else f"offsets {begin} to {end - 1} are"
    told = f"{offsets} not read: a transaction is open since offset {since}"
    return f"{partition.path}: {told} (--isolation-level read_uncommitted reads on)"


def below_log_start(partition: PartitionSnapshot, wanted: ReadFilter, passes: Passes | None = None) -> str | None:
    """How many of the wanted records are still in the files of a partition and left out, because
    they are below its log start offset, in words; None if there are none."""
    start, first = partition.log_start_offset, partition.segments[0].base_offset if partition.segments else None
    if wanted.isolation is None or first is None or first >= start:
        return None
    end = start if wanted.end_offset is None else min(start, wanted.end_offset)
    count = _count(partition, replace(wanted, isolation=None, end_offset=end), passes)
    told = f"{counted(count, 'record')} below the log start offset {start} left out, which no consumer reads"
    return f"{partition.path}: {told}" if count else None


def _count(partition: PartitionSnapshot, wanted: ReadFilter, passes: Passes | None) -> int:
    """Returns how many records pass a filter. What cannot be read does not count."""
    scan = KafkaScan([partition], wanted)
    if passes is None:
        return sum(len(batch) for batch in scan.arrow_reader(["offset"]))
    return sum(passes(partition, record) for record in scan)


def torn_end(partition: PartitionSnapshot) -> str | None:
    """Where a partition ends with a batch that a crash left unfinished, in words; else None."""
    last, end = partition.segments[-1] if partition.segments else None, partition.log_end
    if last is None or end is None or end.kind is not EndKind.TORN:
        return None
    return SegmentEnd(last, end, is_last=True).description


def _internal_topics(snapshot: KafkaSnapshot) -> list[str]:
    found = [snapshot.topic] if isinstance(snapshot, PartitionSnapshot) else snapshot.topics()
    return sorted(topic for topic in found if topic in INTERNAL_TOPICS)


def _all_partitions(snapshot: KafkaSnapshot) -> Iterator[PartitionSnapshot]:
    if isinstance(snapshot, PartitionSnapshot):
        yield snapshot
        return
    yield from snapshot.partitions.values()
