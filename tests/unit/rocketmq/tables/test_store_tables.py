"""The tables of a store: what is in each, and how much of the log a read of one needs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pytest

from logdex.frames.dataset import LogDataset
from logdex.io.env import Env
from logdex.rocketmq.snapshot.store_snapshot import StoreSnapshot
from logdex.rocketmq.tables.store_tables import StoreTables
from tests.unit.frames.logs import BODY, COUNT, STORE_CONFIG, make_store, planned_bytes
from tests.unit.rocketmq.small_stores import START_MS


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = make_store(tmp_path_factory.mktemp("stores") / "store")
    (root / "config").mkdir(exist_ok=True)
    offsets = {"orders@billing": {"0": 10}, "gone@billing": {"3": 5}}
    (root / "config" / "consumerOffset.json").write_text(json.dumps({"offsetTable": offsets}))
    return root


class Opened:
    def __init__(self, snapshot: StoreSnapshot, env: Env, **options: Any) -> None:
        self.tables = StoreTables(snapshot, env=env, **options)
        self.env = env

    def rows(self, name: str, columns: list[str] | None = None, **wanted: Any) -> list[dict[str, Any]]:
        expression = None
        for column, value in wanted.items():
            part = pc.field(column) == value
            expression = part if expression is None else expression & part
        found: list[dict[str, Any]] = self.dataset(name).to_table(columns=columns, filter=expression).to_pylist()
        return found

    def dataset(self, name: str) -> LogDataset:
        return LogDataset(self.tables.tables[name])


@pytest.fixture
def opened(store: Path) -> Iterator[Opened]:
    env = Env()
    with StoreSnapshot(str(store), config=STORE_CONFIG, env=env) as snapshot:
        yield Opened(snapshot, env, time_slack_ms=0)


def test_messages(opened: Opened) -> None:
    rows = opened.rows("messages")
    assert len(rows) == COUNT
    assert rows[1]["topic"] == "other"
    assert rows[1]["store_timestamp_ms"] == START_MS + 1000
    assert rows[1]["store_timestamp"].timestamp() * 1000 == START_MS + 1000
    assert opened.dataset("messages").count_rows() == COUNT
    assert [scan.end.is_clean for scan in opened.tables.scans if scan.end is not None] == [True, True]


def test_message_keys(opened: Opened) -> None:
    columns = ["key", "queue_offset", "topic"]
    rows = opened.rows("message_keys", columns)
    assert sorted(row["key"] for row in rows[:3]) == ["hot", "k-0", "u-0"]
    assert len(rows) == 3 * COUNT
    for key in ("k-7", "u-7"):
        assert opened.rows("message_keys", columns, topic="other", key=key) == [
            {"key": key, "queue_offset": 3, "topic": "other"}
        ]
    assert opened.rows("message_keys", columns, topic="orders", key="k-7") == []
    assert len(opened.rows("message_keys", columns, topic="orders", key="hot")) == COUNT // 2
    assert planned_bytes(opened.tables) < 50 * len(BODY)
    assert opened.rows("message_keys", columns, key="k-8") == [{"key": "k-8", "queue_offset": 4, "topic": "orders"}]


@pytest.mark.parametrize(
    "wanted",
    [
        {"topic": "orders", "unique_key": "u-8"},
        {"topic": "orders", "queue_offset": 4, "physical_offset": 0},
        {"store_timestamp_ms": START_MS + 2000},
    ],
)
def test_conditions_leave_out_bytes(opened: Opened, wanted: dict[str, Any]) -> None:
    opened.rows("messages", ["body"])
    everything = planned_bytes(opened.tables)
    assert len(opened.rows("messages", ["body"], **wanted)) == ("physical_offset" not in wanted)
    assert planned_bytes(opened.tables) < everything / 4


def test_queues_and_segments(opened: Opened, store: Path) -> None:
    assert [(row["topic"], row["queue_id"], row["max_offset"], row["messages"]) for row in opened.rows("queues")] == [
        ("orders", 0, COUNT // 2, COUNT // 2),
        ("other", 0, COUNT // 2, COUNT // 2),
    ]
    assert opened.rows("queues", ["begin_timestamp"])[1]["begin_timestamp"].timestamp() * 1000 == START_MS + 1000
    segments = opened.rows("segments")
    assert [row["path"] for row in segments] == sorted(map(str, (store / "commitlog").iterdir()))
    assert segments[1]["start_offset"] == segments[0]["size_bytes"]


def test_index_entries(opened: Opened) -> None:
    rows = opened.rows("index_entries")
    offsets = {row["physical_offset"] for row in opened.rows("messages", ["physical_offset"])}
    assert {row["physical_offset"] for row in rows} == offsets
    assert rows[0]["number"] == 1
    assert rows[0]["store_timestamp_ms"] == START_MS


def test_consumer_offsets(opened: Opened) -> None:
    rows = opened.rows("consumer_offsets")
    assert [tuple(row.values()) for row in rows] == [
        ("billing", "orders", 0, 10, COUNT // 2 - 10),
        ("billing", "gone", 3, 5, None),
    ]


def test_one_commit_log_file(store: Path) -> None:
    path = sorted((store / "commitlog").iterdir())[0]
    with StoreSnapshot(str(path), config=STORE_CONFIG) as snapshot:
        one = Opened(snapshot, Env())
        assert 0 < len(one.rows("messages")) < COUNT
        assert one.rows("message_keys", ["topic"], topic="orders", key="u-0") == [{"topic": "orders"}]
        assert one.rows("index_entries") == one.rows("consumer_offsets") == []
        assert [row["topic"] for row in one.rows("queues")] == ["orders", "other"]
