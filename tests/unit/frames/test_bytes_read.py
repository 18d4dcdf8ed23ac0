"""What the filters of lazy scans leave unread, counted in bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import duckdb
import polars as pl
import pyarrow.compute as pc
import pytest

import logdex
from logdex.io.env import Env
from tests.unit.frames.logs import COUNT, QUEUES_COUNT, QUEUES_GEOMETRY, remote_logs
from tests.unit.rocketmq.small_stores import START_MS


@dataclass
class Log:
    """A log on a remote file system, where bytes are counted as they are used, and its settings."""

    url: str
    settings: dict[str, Any]


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Log]]:
    with remote_logs(tmp_path_factory.mktemp("counted"), "frames") as (store_url, logs_url):
        yield {"store": Log(store_url, QUEUES_GEOMETRY), "logs": Log(logs_url, {})}


def by_pyarrow(scan: Any, column: str, condition: str, value: Any) -> list[Any]:
    field = pc.field(column)
    wanted = field == value if condition == "=" else field >= value
    return list(scan.to_dataset().to_table(columns=[column], filter=wanted)[column].to_pylist())


def by_duckdb(scan: Any, column: str, condition: str, value: Any) -> list[Any]:
    with duckdb.connect() as connection:
        connection.register("log", scan.to_dataset())
        rows = connection.execute(f'SELECT "{column}" FROM log WHERE "{column}" {condition} ?', [value]).fetchall()
    return [found for (found,) in rows]


def by_polars(scan: Any, column: str, condition: str, value: Any) -> list[Any]:
    wanted = pl.col(column) == value if condition == "=" else pl.col(column) >= value
    return list(scan.to_lazy_polars().filter(wanted).select(column).collect()[column])


def asked(log: Log, ask: Callable[[Any], list[Any]]) -> tuple[list[Any], int]:
    """What a question answers, and the bytes that opening the log and asking took."""
    env = Env()
    with logdex.open(log.url, env=env, **log.settings) as snapshot:
        scan = snapshot.scan(time_slack_ms=0) if log.settings else snapshot.scan()  # type: ignore[call-arg]
        found = ask(scan)
    assert env.counters.mapped_bytes == 0
    return found, env.counters.read_bytes


@pytest.mark.parametrize(
    ("kind", "column", "condition", "value", "count"),
    [
        ("store", "topic", "=", "Rare", 1),
        ("store", "store_timestamp_ms", ">=", START_MS + QUEUES_COUNT - 10, 10),
        ("logs", "offset", ">=", COUNT - 2, 2),
        ("logs", "timestamp_ms", ">=", START_MS + 1000 * (COUNT - 2), 2),
    ],
)
@pytest.mark.parametrize("way", [by_pyarrow, by_duckdb, by_polars])
def test_a_filter_reads_fewer_bytes(
    logs: dict[str, Log],
    way: Callable[[Any, str, str, Any], list[Any]],
    kind: str,
    column: str,
    condition: str,
    value: Any,
    count: int,
) -> None:
    everything, all_bytes = asked(logs[kind], lambda scan: scan.to_arrow([column]).read_all()[column].to_pylist())
    expected = [each for each in everything if (each == value if condition == "=" else each >= value)]
    found, read = asked(logs[kind], lambda scan: way(scan, column, condition, value))
    assert found == expected
    assert len(found) == count < len(everything)
    assert read < all_bytes * 0.9
