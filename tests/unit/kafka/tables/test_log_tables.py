"""The tables of a Kafka log: what is in each, and how much of the log a read of one needs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pytest

from logdex.frames.dataset import LogDataset
from logdex.io.env import Env
from logdex.kafka.directory.recognise import require_kafka
from logdex.kafka.snapshot.log_dir_snapshot import open_kafka
from logdex.kafka.tables.log_tables import KafkaTables
from tests.unit.frames.logs import COUNT, make_partition, planned_bytes
from tests.unit.rocketmq.small_stores import START_MS


@pytest.fixture(scope="module")
def log_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("logs")
    (root / "meta.properties").write_text("version=1\ncluster.id=c\nnode.id=1\n")
    for partition in range(2):
        make_partition(root / f"orders-{partition}")
    return root


class Opened:
    def __init__(self, path: Path) -> None:
        self.env = Env()
        self.snapshot = open_kafka(str(path), env=self.env)
        self.tables = KafkaTables(require_kafka(str(path)), self.snapshot, env=self.env)

    def rows(self, name: str, columns: list[str] | None = None, wanted: Any = None) -> list[dict[str, Any]]:
        dataset = LogDataset(self.tables.tables[name])
        found: list[dict[str, Any]] = dataset.to_table(columns=columns, filter=wanted).to_pylist()
        return found


@pytest.fixture
def opened(log_dir: Path) -> Iterator[Opened]:
    found = Opened(log_dir)
    with found.snapshot:
        yield found


def test_records(opened: Opened) -> None:
    rows = opened.rows("records", ["partition", "offset", "key", "timestamp", "timestamp_ms"])
    assert len(rows) == 2 * COUNT
    assert rows[-1] == {
        "partition": 1,
        "offset": COUNT - 1,
        "key": b"k-59",
        "timestamp": rows[-1]["timestamp"],
        "timestamp_ms": START_MS + 59_000,
    }
    assert rows[-1]["timestamp"].timestamp() * 1000 == START_MS + 59_000
    assert LogDataset(opened.tables.tables["records"]).count_rows() == 2 * COUNT
    assert all(scan.is_good for scan in opened.tables.scans)


@pytest.mark.parametrize(
    ("wanted", "rows"),
    [
        (pc.field("offset") == 3, 2),
        (pc.field("timestamp_ms") >= START_MS + 58_000, 4),
        ((pc.field("topic") == "orders") & (pc.field("partition") == 1) & (pc.field("offset") < 2), 2),
        (pc.field("topic") == "other", 0),
    ],
)
def test_conditions_leave_out_bytes(opened: Opened, wanted: pc.Expression, rows: int) -> None:
    opened.rows("records", ["value"])
    everything = planned_bytes(opened.tables)
    assert len(opened.rows("records", ["value"], wanted)) == rows
    assert not rows or planned_bytes(opened.tables) < everything / 2


def test_the_small_tables(opened: Opened, log_dir: Path) -> None:
    partitions = opened.rows("partitions")
    assert [
        (row["topic"], row["partition"], row["log_end_offset"], row["begin_timestamp_ms"]) for row in partitions
    ] == [("orders", 0, COUNT, START_MS), ("orders", 1, COUNT, START_MS)]
    segments = opened.rows(
        "segments", ["base_offset", "size_bytes", "offset_index_entries"], pc.field("partition") == 1
    )
    assert sum(row["size_bytes"] for row in segments) == partitions[1]["size_bytes"]
    entries = opened.rows("index_entries", wanted=(pc.field("partition") == 1) & (pc.field("index") == "offset"))
    assert len(entries) == sum(row["offset_index_entries"] for row in segments)
    assert entries[0]["position"] is not None
    assert entries[0]["timestamp"] is None
    times = opened.rows("index_entries", wanted=pc.field("index") == "time")
    assert {row["timestamp_ms"] for row in times} <= {START_MS + number * 1000 for number in range(COUNT)}
    assert opened.rows("consumer_offsets") == []


def test_one_partition(log_dir: Path) -> None:
    one = Opened(log_dir / "orders-1")
    with one.snapshot:
        assert len(one.rows("records")) == COUNT
        assert len(one.rows("partitions")) == 1
        assert one.rows("consumer_offsets") == []
