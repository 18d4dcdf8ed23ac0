"""How far named readers and consumer groups have read partitions, and where a reset would put a
reader."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from logdex.frames.lag import lag_of
from logdex.kafka.files.reader_positions import read_position, reader_names
from logdex.kafka.internal_topics.consumer_offsets import TOPIC
from logdex.kafka.snapshot.log_dir_snapshot import KafkaSnapshot, LogDirSnapshot
from logdex.kafka.snapshot.partition_snapshot import PartitionSnapshot


@dataclass(frozen=True, slots=True)
class ReaderProgress:
    """How far a named reader, or a consumer group, has read a partition. `offset` is None if it has
    committed none."""

    name: str
    partition: PartitionSnapshot
    offset: int | None

    @property
    def lag(self) -> int:
        """How many offsets of the partition the reader has not read."""
        return lag_of(self.offset, self.partition.log_start_offset, self.partition.log_end_offset)


def progress_of(partitions: Iterable[PartitionSnapshot], name: str | None, *, is_named: bool) -> list[ReaderProgress]:
    """The progress of all readers, or of one; with `is_named` also where it has no position."""
    return [
        ReaderProgress(each, partition, read_position(partition.path, each))
        for partition in partitions
        for each in (reader_names(partition.path) if name is None or not is_named else [name])
        if name in (None, each)
    ]


def group_progress(
    snapshot: KafkaSnapshot, partitions: Iterable[PartitionSnapshot], problems: list[str] | None = None
) -> list[ReaderProgress]:
    """The progress of the broker's consumer groups; none for one partition by itself, because
    `__consumer_offsets` is another one. Adds to `problems` what of that topic cannot be read, so
    that groups may be missing or further than it says."""
    if not isinstance(snapshot, LogDirSnapshot):
        return []
    known = {(each.topic, each.partition): each for each in partitions}
    found = snapshot.log_dir.consumer_offsets()
    if problems is not None:
        problems += map(str, found.problems)
    return [
        ReaderProgress(group, known[place], commit.offset)
        for (group, place), commit in sorted(found.offsets.items())
        if place in known
    ]


def missing_of_groups(snapshot: KafkaSnapshot) -> list[str]:
    """Returns what to tell of the partitions of `__consumer_offsets` that a checkpoint names and
    that are not here."""
    if not isinstance(snapshot, LogDirSnapshot):
        return []
    gone = [(each, path) for each, path in snapshot.log_dir.missing_partitions().items() if each.topic == TOPIC]
    return [f"{path}: it names {each}, which is not here: groups may be missing" for each, path in gone]


def reset_target(partition: PartitionSnapshot, to: str, time_ms: int | None) -> int:
    """The offset that a reader is reset to: ``earliest``, ``latest``, or an offset; with `time_ms`
    the first record at or after that time. It lies within the partition."""
    low, high = partition.log_start_offset, partition.log_end_offset
    if time_ms is not None:
        found = partition.offset_for_timestamp(time_ms)
        return high if found is None else found.offset
    if to in ("earliest", "latest"):
        return low if to == "earliest" else high
    return min(max(int(to), low), high)
