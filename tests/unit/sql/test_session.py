"""SQL over stores and logs: what reaches the read plan, and what errors look like."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from logdex.errors import CorruptError, EnvironmentProblem, UsageError
from logdex.frames import extras
from logdex.frames.extras import to_install
from logdex.kafka.batch.record import Record
from logdex.kafka.log.log import Log
from tests.unit.frames.logs import BODY, COUNT, GEOMETRY, make_partition, make_store, planned_bytes
from tests.unit.rocketmq.small_stores import START_MS

pytest.importorskip("duckdb")
from logdex.sql import SqlSession, connect


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_store(tmp_path_factory.mktemp("stores") / "store")


@pytest.fixture(scope="module")
def partition(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_partition(tmp_path_factory.mktemp("logs") / "orders-0")


@pytest.fixture
def session(store: Path) -> Iterator[SqlSession]:
    with connect(str(store), time_slack_ms=0, **GEOMETRY) as opened:
        yield opened


def rows(session: SqlSession, query: str) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for batch in session.batches(query) for row in batch.to_pylist()]


def planned(session: SqlSession) -> int:
    return planned_bytes(session.tables)  # type: ignore[arg-type]  # those of one of the formats


def test_the_tables(session: SqlSession) -> None:
    assert rows(session, "SELECT topic, count(*) AS n FROM messages GROUP BY 1 ORDER BY 1") == [
        ("orders", COUNT // 2),
        ("other", COUNT // 2),
    ]
    assert rows(session, "SELECT count(*) FROM messages") == [(COUNT,)]
    assert rows(session, "SELECT count(*) FROM message_keys") == [(3 * COUNT,)]
    assert rows(session, "SELECT max_offset FROM queues") == [(COUNT // 2,)] * 2
    assert rows(session, "SELECT sum(size_bytes) > 0 FROM segments") == [(True,)]
    assert rows(session, "SELECT count(DISTINCT physical_offset) FROM index_entries") == [(COUNT,)]
    assert rows(session, "SELECT * FROM consumer_offsets") == []
    joined = "SELECT queue_offset FROM messages JOIN queues USING (topic, queue_id) WHERE queue_offset = max_offset - 1"
    assert len(rows(session, joined)) == 2


@pytest.mark.parametrize(
    ("where", "count"),
    [
        ("topic = 'orders' AND unique_key = 'u-8'", 1),
        ("physical_offset BETWEEN 0 AND 10", 1),
        ("topic IN ('orders') AND unique_key IN ('u-8')", 1),
        (f"store_timestamp_ms >= {START_MS + 57_000}", 3),
        ("store_timestamp >= '2023-11-14T22:14:17Z' AND store_timestamp < TIMESTAMPTZ '2023-11-14 22:14:19'", 2),
    ],
)
def test_conditions_reach_the_read_plan(session: SqlSession, where: str, count: int) -> None:
    rows(session, "SELECT max(body) FROM messages")
    everything = planned(session)
    assert len(rows(session, f"SELECT body FROM messages WHERE {where}")) == count
    assert planned(session) < everything / 4


def test_a_key_is_looked_up(session: SqlSession) -> None:
    rows(session, "SELECT max(body) FROM message_keys")
    everything = planned(session)
    found = rows(session, "SELECT key, queue_offset, body FROM message_keys WHERE topic = 'orders' AND key = 'k-8'")
    assert found == [("k-8", 4, BODY)]
    assert planned(session) < everything / 4


def test_a_partition(partition: Path) -> None:
    with connect(str(partition)) as session:
        rows(session, "SELECT max(value) FROM records")
        everything = planned(session)
        for where, count in {
            '"offset" = 3': 1,
            f"timestamp_ms >= {START_MS + 58_000}": 2,
            "timestamp >= '2023-11-14 22:14:18'": 2,
            "topic = 'other'": 0,
        }.items():
            assert len(rows(session, f"SELECT value FROM records WHERE {where}")) == count
            assert not count or planned(session) < everything / 2, where
        assert rows(session, "SELECT \"offset\" FROM records WHERE key = 'k-7'") == [(7,)]
        assert rows(session, "SELECT count(*) FROM records") == [(COUNT,)]
        with pytest.raises(UsageError, match="syntax") as refused:
            rows(session, "SELECT offset FROM records")
        assert "double quotes" in str(refused.value.hint)


@pytest.mark.parametrize(
    ("query", "hint"),
    [
        ("SELECT length(body) FROM messages", "octet_length counts bytes"),
        ("SELECT bit_count(body) FROM messages", "Candidate functions: bit_count("),
        ("SELECT sum(topic) FROM messages", "-> HUGEINT; sum("),
        ("SELECT abs(body) FROM messages", "; and "),
    ],
)
def test_functions_for_other_types(session: SqlSession, query: str, hint: str) -> None:
    with pytest.raises(UsageError, match="No function matches") as refused:
        rows(session, query)
    assert hint in str(refused.value.hint)
    assert not str(refused.value.hint).endswith(":")
    if hint == "octet_length counts bytes":
        assert rows(session, query.replace("length", "octet_length"))


def test_errors(session: SqlSession, store: Path, partition: Path) -> None:
    with pytest.raises(UsageError, match="nothing"):
        rows(session, "SELECT nothing FROM messages")
    with pytest.raises(UsageError):
        rows(session, "SELECT * FROM nowhere")
    with pytest.raises(UsageError, match="Conversion"):
        rows(session, "SELECT topic::INT FROM messages")
    with pytest.raises(UsageError, match="max_index_num"):
        connect(str(partition), max_index_num=3)
    assert rows(session, "SELECT 1 + 1") == [(2,)], "the session goes on"


def test_names_of_python_are_no_tables(session: SqlSession) -> None:
    with pytest.raises(UsageError):
        rows(session, "SELECT * FROM query")


def test_damage_is_raised_as_it_is(partition: Path, tmp_path: Path) -> None:
    damaged = tmp_path / "orders-0"
    with Log.open(str(damaged)) as log:
        log.append([Record(b"k", b"v" * 50, START_MS)], compression="gzip")
    file = next(damaged.glob("*.log"))
    data = bytearray(file.read_bytes())
    data[70] ^= 1
    file.write_bytes(data)
    with connect(str(damaged)) as session:
        assert rows(session, "SELECT count(*) FROM records") == [(0,)]
        [scan] = session.tables.scans  # type: ignore[attr-defined]  # those of Kafka
        assert isinstance(scan.problems[0], CorruptError)


def test_a_missing_extra_is_named(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> Any:
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    monkeypatch.setattr(extras, "import_module", missing)
    with pytest.raises(EnvironmentProblem, match="DuckDB is not installed") as refused:
        connect(str(store), **GEOMETRY)
    assert refused.value.hint == to_install("'logdex[sql]'")
    assert os.path.isdir(store)
