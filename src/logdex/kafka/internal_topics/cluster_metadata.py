"""`__cluster_metadata-0`: the log of a KRaft quorum. Control records are decoded, data records
counted.

Source: ``docs/formats/kafka-consumer-offsets.md``; Kafka's ControlRecordType, LeaderChangeMessage,
SnapshotHeaderRecord, KRaftVersionRecord, VotersRecord.
"""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass, field
from typing import Any

from logdex.errors import CorruptError
from logdex.io.env import DEFAULT_ENV, Env
from logdex.kafka.batch.record import Record
from logdex.kafka.batch.record_batch import RecordBatch
from logdex.kafka.internal_topics.batch_reading import read_batches, segment_paths
from logdex.kafka.internal_topics.record_schemas import CONTROL_RECORDS
from logdex.layout.kafka import CONTROL_RECORD_KEY

TOPIC = "__cluster_metadata"
_SNAPSHOT = re.compile(r"\d{20}-\d{10}\.checkpoint")  # end offset and epoch


@dataclass(frozen=True, slots=True)
class ControlRecord:
    """One control record. `name` is that of one of `CONTROL_RECORDS`, or ``type N``; `fields` are
    its decoded fields."""

    offset: int
    leader_epoch: int
    timestamp_ms: int
    name: str
    fields: dict[str, Any]


@dataclass(slots=True)
class ClusterMetadata:
    """The contents of the quorum's log."""

    control_records: list[ControlRecord] = field(default_factory=list)
    """The control records of the log."""
    batches: int = 0
    data_records: int = 0
    snapshots: dict[str, list[ControlRecord]] = field(default_factory=dict)
    """The control records (header, voters, footer) of each snapshot, by file name, oldest first."""
    problems: list[CorruptError] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """The object that ``logdex info --json --store`` prints."""
        return {
            "batches": self.batches,
            "data_records": self.data_records,
            "control_records": [asdict(record) for record in self.control_records],
            "snapshots": {name: [asdict(record) for record in found] for name, found in self.snapshots.items()},
        }


def read_cluster_metadata(partition_path: str, *, env: Env = DEFAULT_ENV) -> ClusterMetadata:
    """Reads the directory of `__cluster_metadata-0`. What cannot be read is in `problems`."""
    found = ClusterMetadata()
    for batch in read_batches(segment_paths(partition_path, env=env), found.problems, env=env):
        found.batches += 1
        if batch.is_control:
            found.control_records += _control_records(batch, found.problems)
        else:
            found.data_records += max(batch.count, 0)
    for name in env.list_dir(partition_path):
        if _SNAPSHOT.fullmatch(name):
            controls = found.snapshots[name] = []
            for batch in read_batches([f"{partition_path}/{name}"], found.problems, env=env):
                controls += _control_records(batch, found.problems) if batch.is_control else []
    return found


def _control_records(batch: RecordBatch, problems: list[CorruptError]) -> list[ControlRecord]:
    try:
        return [_control_record(batch, record) for record in batch.records()]
    except CorruptError as error:
        problems.append(error)
        return []


def _control_record(batch: RecordBatch, record: Record) -> ControlRecord:
    key = record.key or b""
    try:
        if len(key) < CONTROL_RECORD_KEY.size_bytes:
            raise ValueError("its key is truncated")
        kind = CONTROL_RECORD_KEY.struct.unpack_from(key)[1]
        schema = CONTROL_RECORDS.get(kind)
        fields: dict[str, Any] = {}
        if schema is not None:
            version, fields = schema.read_value(record.value or b"")
            fields = {"version": version, **fields}
    except ValueError as error:
        raise CorruptError(
            f"control record {record.offset}: {error}", path=batch.path, position=batch.position, field="record"
        ) from error
    name = f"type {kind}" if schema is None else schema.name
    return ControlRecord(record.offset, batch.leader_epoch, record.timestamp_ms, name, fields)
