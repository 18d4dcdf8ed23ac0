"""`__cluster_metadata-0`: the log of a KRaft quorum. Control records are decoded, data records
counted.

Source: ``docs/formats/kafka-consumer-offsets.md``; Kafka's ControlRecordType, LeaderChangeMessage,
SnapshotHeaderRecord, KRaftVersionRecord, VotersRecord.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

from logdex.errors import CorruptError
from logdex.io.env import DEFAULT_ENV, Env
from logdex.kafka.batch.record import Record
from logdex.kafka.batch.record_batch import RecordBatch
from logdex.kafka.files.metadata_files import uuid_to_text
from logdex.kafka.internal_topics.batch_reading import read_batches, segment_paths
from logdex.kafka.internal_topics.message_reader import MessageReader
from logdex.layout.kafka import CONTROL_RECORD_KEY

TOPIC = "__cluster_metadata"
_SNAPSHOT = re.compile(r"\d{20}-\d{10}\.checkpoint")  # end offset and epoch
CONTROL_NAMES = {
    0: "abort",
    1: "commit",
    2: "leader-change",
    3: "snapshot-header",
    4: "snapshot-footer",
    5: "kraft-version",
    6: "kraft-voters",
}


@dataclass(frozen=True, slots=True)
class ControlRecord:
    """One control record. `name` is one of `CONTROL_NAMES` or ``type N``; `fields` are its decoded
    fields."""

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
        read = _VALUES.get(kind)
        fields = {} if read is None else read(MessageReader(record.value or b"", flexible=True))
    except ValueError as error:
        raise CorruptError(
            f"control record {record.offset}: {error}", path=batch.path, position=batch.position, field="record"
        ) from error
    name = CONTROL_NAMES.get(kind, f"type {kind}")
    return ControlRecord(record.offset, batch.leader_epoch, record.timestamp_ms, name, fields)


def _marker(reader: MessageReader) -> dict[str, Any]:
    return {"version": reader.integer(2), "coordinator_epoch": reader.integer(4)}


def _leader_change(reader: MessageReader) -> dict[str, Any]:
    version, leader_id = reader.integer(2), reader.integer(4)
    voters = [_voter(reader, version) for _ in range(reader.array_size())]
    granting = [_voter(reader, version) for _ in range(reader.array_size())]
    return {"version": version, "leader_id": leader_id, "voters": voters, "granting_voters": granting}


def _voter(reader: MessageReader, version: int) -> dict[str, Any]:
    voter: dict[str, Any] = {"voter_id": reader.integer(4)}
    if version >= 1:
        voter["directory_id"] = uuid_to_text(reader.uuid())
    reader.skip_tagged_fields()
    return voter


def _snapshot_header(reader: MessageReader) -> dict[str, Any]:
    return {"version": reader.integer(2), "last_contained_log_timestamp_ms": reader.integer(8)}


def _snapshot_footer(reader: MessageReader) -> dict[str, Any]:
    return {"version": reader.integer(2)}


def _kraft_version(reader: MessageReader) -> dict[str, Any]:
    return {"version": reader.integer(2), "kraft_version": reader.integer(2)}


def _voters(reader: MessageReader) -> dict[str, Any]:
    version = reader.integer(2)
    return {"version": version, "voters": [_quorum_voter(reader) for _ in range(reader.array_size())]}


def _quorum_voter(reader: MessageReader) -> dict[str, Any]:
    voter: dict[str, Any] = {"voter_id": reader.integer(4), "directory_id": uuid_to_text(reader.uuid())}
    voter["endpoints"] = [_endpoint(reader) for _ in range(reader.array_size())]
    voter["kraft_versions"] = [reader.integer(2), reader.integer(2)]
    reader.skip_tagged_fields()  # of the version range
    reader.skip_tagged_fields()
    return voter


def _endpoint(reader: MessageReader) -> dict[str, Any]:
    endpoint = {"name": reader.text(), "host": reader.text(), "port": reader.integer(2) & 0xFFFF}
    reader.skip_tagged_fields()
    return endpoint


_VALUES: dict[int, Callable[[MessageReader], dict[str, Any]]] = {
    0: _marker,
    1: _marker,
    2: _leader_change,
    3: _snapshot_header,
    4: _snapshot_footer,
    5: _kraft_version,
    6: _voters,
}
