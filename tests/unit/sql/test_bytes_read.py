"""What a condition of SQL leaves unread, counted in bytes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from logdex.io.env import Env
from tests.examples import cases
from tests.unit.frames.logs import COUNT, QUEUES_COUNT, QUEUES_GEOMETRY, remote_logs
from tests.unit.rocketmq.small_stores import START_MS

pytest.importorskip("duckdb")
from logdex.sql import connect


@dataclass
class Log:
    """A log on a remote file system, where bytes are counted as they are used. A file of a local
    disk is mapped, and nothing counts its bytes."""

    url: str
    settings: dict[str, Any]

    def ask(self, query: str) -> tuple[list[dict[str, Any]], int]:
        """The rows of a query, and the bytes that opening the log and asking took."""
        env = Env()
        with connect(self.url, env=env, **self.settings) as session:
            rows = [row for batch in session.batches(query) for row in batch.to_pylist()]
        assert env.counters.mapped_bytes == 0
        return rows, env.counters.read_bytes

    def require_less(self, columns: str, table: str, where: str) -> list[dict[str, Any]]:
        """The rows that a condition leaves, which are those that it leaves of all rows that were
        read without it."""
        everything, all_bytes = self.ask(f"WITH every AS MATERIALIZED (SELECT * FROM {table}) SELECT * FROM every")
        expected = f"WITH every AS MATERIALIZED (SELECT * FROM {table}) SELECT {columns} FROM every WHERE {where}"
        found, read = self.ask(f"SELECT {columns} FROM {table} WHERE {where}")
        assert found == self.ask(expected)[0] != []
        assert len(found) < len(everything)
        assert read < all_bytes * 0.9
        return found


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Log]]:
    with remote_logs(tmp_path_factory.mktemp("counted"), "sql") as (store_url, logs_url):
        yield {"store": Log(store_url, {"time_slack_ms": 0, **QUEUES_GEOMETRY}), "logs": Log(logs_url, {})}


@pytest.mark.parametrize(
    ("table", "where"),
    cases(
        [
            ("messages", "topic = 'Large' AND unique_key = 'u-77'"),
            ("messages", "topic = 'Rare'"),
            ("messages", "topic = 'Large' AND queue_id = 3"),
            ("messages", "physical_offset < 30000"),
            ("messages", "queue_offset >= 18"),
            ("messages", f"store_timestamp_ms >= {START_MS + QUEUES_COUNT - 10}"),
            ("messages", "store_timestamp < '2023-11-14T22:13:20.010Z'"),
            ("message_keys", "topic = 'Large' AND key = 'u-77'"),
        ],
        4,
    ),
)
def test_a_store(logs: dict[str, Log], table: str, where: str) -> None:
    logs["store"].require_less("physical_offset, body", table, where)


@pytest.mark.parametrize(
    "where", ['"offset" = 3', '"offset" >= 58', f"timestamp_ms >= {START_MS + 1000 * (COUNT - 2)}", "key = 'k-7'"]
)
def test_logs(logs: dict[str, Log], where: str) -> None:
    logs["logs"].require_less('"offset", value', "records", where)
