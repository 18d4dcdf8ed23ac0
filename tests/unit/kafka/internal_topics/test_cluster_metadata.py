from __future__ import annotations

import struct
import uuid
from pathlib import Path

import pytest

from logdex.kafka.files.metadata_files import uuid_to_text
from logdex.kafka.internal_topics.cluster_metadata import ClusterMetadata, read_cluster_metadata
from logdex.layout.kafka import BATCH_CONTROL
from tests.unit.kafka.batch.batch_bytes import batch, record

DIRECTORY = uuid.UUID(int=0x123456789ABCDEF0FEDCBA9876543210)
ID = uuid_to_text(DIRECTORY)
VOTER = struct.pack(">i", 1) + DIRECTORY.bytes
ENDPOINT = b"\x02C\x05host" + struct.pack(">H", 39093) + b"\0"


def read(tmp_path: Path, *batches: bytes) -> ClusterMetadata:
    (tmp_path / f"{0:020d}.log").write_bytes(b"".join(batches))
    return read_cluster_metadata(str(tmp_path))


def control(kind: int, value: bytes, offset: int = 0) -> bytes:
    payload = record(0, 0, struct.pack(">hh", 0, kind), value)
    return batch(payload, 1, base_offset=offset, attributes=BATCH_CONTROL, leader_epoch=3, base_ms=50, max_ms=50)


@pytest.mark.parametrize(
    ("kind", "value", "name", "fields"),
    [
        (
            2,
            struct.pack(">hi", 0, 1) + b"\x02" + struct.pack(">i", 1) + b"\0" + b"\x01" + b"\0",
            "leader-change",
            {"version": 0, "leader_id": 1, "voters": [{"voter_id": 1}], "granting_voters": []},
        ),
        (
            2,
            struct.pack(">hi", 1, 1) + b"\x02" + VOTER + b"\0" + b"\x02" + VOTER + b"\0" + b"\0",
            "leader-change",
            {
                "version": 1,
                "leader_id": 1,
                "voters": [{"voter_id": 1, "directory_id": ID}],
                "granting_voters": [{"voter_id": 1, "directory_id": ID}],
            },
        ),
        (
            3,
            struct.pack(">hq", 0, 77) + b"\0",
            "snapshot-header",
            {"version": 0, "last_contained_log_timestamp_ms": 77},
        ),
        (4, struct.pack(">h", 0) + b"\0", "snapshot-footer", {"version": 0}),
        (5, struct.pack(">hh", 0, 1) + b"\0", "kraft-version", {"version": 0, "kraft_version": 1}),
        (
            6,
            struct.pack(">h", 0) + b"\x02" + VOTER + b"\x02" + ENDPOINT + struct.pack(">hh", 0, 1) + b"\0\0\0",
            "kraft-voters",
            {
                "version": 0,
                "voters": [
                    {
                        "voter_id": 1,
                        "directory_id": ID,
                        "endpoints": [{"name": "C", "host": "host", "port": 39093}],
                        "kraft_version_feature": {"min_supported_version": 0, "max_supported_version": 1},
                    }
                ],
            },
        ),
        (1, struct.pack(">hi", 0, 9), "commit", {"version": 0, "coordinator_epoch": 9}),
        (42, b"", "type 42", {}),
    ],
)
def test_control_records(tmp_path: Path, kind: int, value: bytes, name: str, fields: dict[str, object]) -> None:
    found = read(tmp_path, control(kind, value))
    assert found.problems == []
    (only,) = found.control_records
    assert (only.offset, only.leader_epoch, only.timestamp_ms) == (0, 3, 50)
    assert (only.name, only.fields) == (name, fields)
    if kind != 42:
        cut = read(tmp_path, control(kind, value[:1]), control(5, struct.pack(">hh", 0, 1) + b"\0", 1))
        assert [problem.position for problem in cut.problems] == [0]
        assert [record.name for record in cut.control_records] == ["kraft-version"]


def test_data_is_counted(tmp_path: Path) -> None:
    data = batch(record(0, 0, None, b"x") + record(1, 0, None, b"y"), 2)
    found = read(tmp_path, data, control(4, struct.pack(">h", 0) + b"\0", 2))
    assert (found.batches, found.data_records, len(found.control_records)) == (2, 2, 1)


def test_snapshots_are_read_too(tmp_path: Path) -> None:
    header, footer = control(3, struct.pack(">hq", 0, 7) + b"\0"), control(4, struct.pack(">h", 0) + b"\0", 2)
    data = batch(record(0, 0, None, b"x"), 1, base_offset=1)
    name = f"{30:020d}-{2:010d}.checkpoint"
    (tmp_path / name).write_bytes(header + data + footer)
    found = read(tmp_path, data)
    assert {key: [each.name for each in value] for key, value in found.snapshots.items()} == {
        name: ["snapshot-header", "snapshot-footer"]
    }
    assert (found.data_records, found.control_records, found.problems) == (1, [], [])
