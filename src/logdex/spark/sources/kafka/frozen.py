"""The partitions of some log directories as they were when a DataFrame was made."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from logdex.errors import UsageError
from logdex.io.env import Env
from logdex.kafka.directory.ids import PartitionIds
from logdex.kafka.read.log_read import READ_COMMITTED
from logdex.kafka.snapshot.log_dir_snapshot import KafkaSnapshot, LogDirSnapshot
from logdex.kafka.snapshot.partition_snapshot import PartitionSnapshot
from logdex.spark.sources.kafka.replicas import Replica
from logdex.spark.sources.kafka.selection import Limit, Selection


@dataclass(frozen=True, slots=True)
class FrozenPartition:
    """The offsets [`begin`, `end`) of a partition that a DataFrame reads, in the log directory or
    partition at `root`. The log's last batch ended at `last_position` of the segment
    `last_base`."""

    root: str
    topic: str
    partition: int
    begin: int
    end: int
    last_base: int
    last_position: int
    size_bytes: int
    topic_id: str | None = None

    @property
    def name(self) -> str:
        """``topic-N``."""
        return f"{self.topic}-{self.partition}"


def selected(snapshot: KafkaSnapshot, selection: Selection) -> Iterator[PartitionSnapshot]:
    """Yields the partitions of a snapshot to read."""
    if isinstance(snapshot, PartitionSnapshot):
        named = (snapshot.topic, snapshot.partition)
        if selection == Selection() or selection.takes(*named):
            yield snapshot
        return
    for topic, numbers in snapshot.topics().items():
        for number in numbers:
            if selection.takes(topic, number):
                yield snapshot.partition(topic, number)


def partition_of(snapshot: KafkaSnapshot, topic: str, partition: int) -> PartitionSnapshot:
    """Returns one partition of a snapshot."""
    return snapshot.partition(topic, partition) if isinstance(snapshot, LogDirSnapshot) else snapshot


def replica_of(snapshot: PartitionSnapshot, root: str, env: Env) -> Replica:
    """Returns what tells a partition from its replicas."""
    epochs = snapshot.leader_epochs
    ids = PartitionIds.of(snapshot.directory, env)  # without ids, partitions of one name are taken for replicas
    return Replica(
        root,
        snapshot.topic,
        snapshot.partition,
        epochs[-1].epoch if epochs else -1,
        snapshot.log_start_offset,
        snapshot.log_end_offset,
        *ids,
        snapshot.mark,
    )


def freeze(
    snapshot: PartitionSnapshot, replica: Replica, limits: tuple[Limit, Limit], isolation: str, *, or_latest: bool
) -> FrozenPartition:
    """Returns the offsets to read of a partition. Where no record is at or after a starting
    timestamp, nothing is read with `or_latest`; else `UsageError` is raised."""
    name = snapshot.topic, snapshot.partition
    earliest = snapshot.log_start_offset
    latest = snapshot.last_stable_offset if isolation == READ_COMMITTED else snapshot.log_end_offset

    def by_time(timestamp_ms: int) -> int | None:
        found = snapshot.offset_for_timestamp(timestamp_ms)
        return None if found is None else found.offset

    begin = limits[0].offset(name, earliest, latest, by_time)
    if begin is None and not or_latest:
        what = f"{snapshot.name} has no record at or after the starting timestamp"
        raise UsageError(what, hint="option startingOffsetsByTimestampStrategy=latest reads nothing of it then")
    end = limits[1].offset(name, earliest, latest, by_time)
    last, log_end = snapshot.segments[-1] if snapshot.segments else None, snapshot.log_end
    return FrozenPartition(
        replica.root,
        *name,
        latest if begin is None else begin,
        latest if end is None else min(end, latest) if limits[1].offsets is None else end,
        -1 if last is None else last.base_offset,
        0 if log_end is None else log_end.position,
        snapshot.size_bytes,
        replica.topic_id,
    )
