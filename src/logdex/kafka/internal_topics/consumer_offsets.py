"""`__consumer_offsets`: the committed offsets of consumer groups, and the groups.

Source: ``docs/formats/kafka-consumer-offsets.md``; Kafka's OffsetCommitKey and -Value,
GroupMetadataKey and -Value, CoordinatorRecordType, OffsetMetadataManager.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple

from logdex.errors import CorruptError
from logdex.io.env import DEFAULT_ENV, Env
from logdex.kafka.batch.record import Record
from logdex.kafka.batch.record_batch import RecordBatch
from logdex.kafka.files.checkpoints import TopicPartition
from logdex.kafka.internal_topics.batch_reading import read_batches, segment_paths
from logdex.kafka.internal_topics.message_reader import MessageReader
from logdex.kafka.internal_topics.record_schemas import GROUP_METADATA, GROUP_RECORDS, OFFSET_COMMIT
from logdex.primitives.java_hash import index_key_hash

TOPIC = "__consumer_offsets"


class CommittedOffset(NamedTuple):
    """The offset that a group last committed for a partition. Missing numbers are -1."""

    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp_ms: int
    expire_timestamp_ms: int
    record_offset: int
    """The offset of this record in `__consumer_offsets`."""


class GroupMetadata(NamedTuple):
    """A classic group as its coordinator last described it. `members` are member ids."""

    protocol_type: str
    generation: int
    protocol: str | None
    leader: str | None
    state_timestamp_ms: int
    members: tuple[str, ...]


GroupPartition = tuple[str, TopicPartition]
_Change = tuple[GroupPartition, CommittedOffset | None, int]


@dataclass(slots=True)
class ConsumerOffsets:
    """The combined contents of the partitions of `__consumer_offsets`."""

    offsets: dict[GroupPartition, CommittedOffset] = field(default_factory=dict)
    """The latest offset by (group, partition), without deleted ones."""
    groups: dict[str, GroupMetadata] = field(default_factory=dict)
    """Classic groups with metadata."""
    skipped: Counter[str] = field(default_factory=Counter)
    """The number of records of each other type, by type name or ``type N``."""
    pending: int = 0
    """The number of commits in open transactions, which are not in `offsets`."""
    problems: list[CorruptError] = field(default_factory=list)
    """What could not be read."""

    def of_group(self, group: str) -> dict[TopicPartition, CommittedOffset]:
        """The committed offsets of one group."""
        return {partition: found for (name, partition), found in self.offsets.items() if name == group}

    def group_names(self) -> list[str]:
        """All groups with offsets or metadata, sorted."""
        return sorted({name for name, _ in self.offsets} | self.groups.keys())


def read_consumer_offsets(partition_paths: list[str], *, env: Env = DEFAULT_ENV) -> ConsumerOffsets:
    """Reads the directories of partitions of `__consumer_offsets`.

    The latest record per key wins, and a record without a value deletes. Transactional commits
    count from their commit marker on.
    """
    found = ConsumerOffsets()
    for path in partition_paths:
        open_transactions: dict[int, list[_Change]] = {}
        for batch in read_batches(segment_paths(path, env=env), found.problems, env=env):
            try:
                _take_batch(batch, found, open_transactions)
            except CorruptError as error:
                found.problems.append(error)
        found.pending += sum(map(len, open_transactions.values()))
    return found


def offset_commit(group: str, place: TopicPartition, offset: int, commit_timestamp_ms: int) -> Record:
    """Returns the record by which a group commits an offset: key version 1, value version 3,
    without leader epoch and metadata."""
    texts = [_string(text) for text in (group, place.topic, "")]
    key = (1).to_bytes(2, "big") + texts[0] + texts[1] + place.partition.to_bytes(4, "big")
    numbers = offset.to_bytes(8, "big") + (-1).to_bytes(4, "big", signed=True)
    value = (3).to_bytes(2, "big") + numbers + texts[2] + commit_timestamp_ms.to_bytes(8, "big")
    return Record(key=key, value=value, timestamp_ms=commit_timestamp_ms)


def partition_for(group: str, partitions: int = 50) -> int:
    """Returns the partition of `__consumer_offsets` that keeps a group's offsets, by the
    absolute value of Java's hash of its name. Source: GroupMetadataManager.partitionFor."""
    return index_key_hash(group.encode()) % partitions


def _string(text: str) -> bytes:
    data = text.encode()
    return len(data).to_bytes(2, "big") + data


def _take_batch(batch: RecordBatch, found: ConsumerOffsets, open_transactions: dict[int, list[_Change]]) -> None:
    if batch.is_control:
        marker = batch.end_marker()
        changes = open_transactions.pop(batch.producer_id, []) if marker is not None else []
        if marker is not None and marker.is_commit:
            for change in changes:
                _put(found, change)
        return
    for record in batch.records():
        try:
            made = _take_record(record, found)
        except ValueError as error:
            found.problems.append(_problem(batch, record, str(error)))
            continue
        if made is not None and batch.is_transactional:
            open_transactions.setdefault(batch.producer_id, []).append(made)
        elif made is not None:
            _put(found, made)


def _put(found: ConsumerOffsets, change: _Change) -> None:
    key, value, record_offset = change
    known = found.offsets.get(key)
    if known is not None and known.record_offset > record_offset:
        return  # committed later, outside the transaction
    if value is None:
        found.offsets.pop(key, None)
    else:
        found.offsets[key] = value


def _take_record(record: Record, found: ConsumerOffsets) -> _Change | None:
    """Returns the change of an offset that a record makes, or None.

    Groups and records of other types are added to `found` at once.
    """
    key = MessageReader(record.key or b"")
    kind = key.integer(2)
    schema = GROUP_RECORDS.get(kind)
    if schema is OFFSET_COMMIT:
        group, topic, partition = key.text(), key.text(), key.integer(4)
        value = None if record.value is None else _committed_offset(record.value, record.offset)
        return (group, TopicPartition(topic, partition)), value, record.offset
    if schema is GROUP_METADATA:
        group = key.text()
        if record.value is None:
            found.groups.pop(group, None)
        else:
            found.groups[group] = _group_metadata(record.value)
        return None
    found.skipped[f"type {kind}" if schema is None else schema.name] += 1
    return None


def _committed_offset(data: bytes, record_offset: int) -> CommittedOffset:
    """Decodes the value of a commit. Raises `ValueError` if it is none."""
    _, value = OFFSET_COMMIT.read_value(data)
    leader_epoch, expire_timestamp = value.get("leader_epoch", -1), value.get("expire_timestamp_ms", -1)
    times = value["commit_timestamp_ms"], expire_timestamp
    return CommittedOffset(value["offset"], leader_epoch, value["metadata"], *times, record_offset)


def _group_metadata(data: bytes) -> GroupMetadata:
    """Decodes the value of a record about a classic group. Raises `ValueError` if it is none."""
    _, value = GROUP_METADATA.read_value(data)
    state_timestamp_ms = value.get("current_state_timestamp_ms", -1)
    members = tuple(member["member_id"] for member in value["members"])
    return GroupMetadata(
        *(value["protocol_type"], value["generation"], value["protocol"], value["leader"]), state_timestamp_ms, members
    )


def _problem(batch: RecordBatch, record: Record, text: str) -> CorruptError:
    return CorruptError(f"record {record.offset}: {text}", path=batch.path, position=batch.position, field="record")
