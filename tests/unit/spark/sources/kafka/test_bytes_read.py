"""Every kind of filter of `kafka_log` gives what the same filter gives without pushdown, and reads
fewer bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from logdex.frames import conditions as plain
from logdex.frames.conditions import Condition
from logdex.io.env import Env
from logdex.spark.sources.kafka.table import LogDirTable
from tests import remote
from tests.unit.frames.logs import COUNT, make_partition, make_partition_with_keys
from tests.unit.spark.sources.kafka.small_logs import START_MS
from tests.unit.spark.sources.tables import Row, fitting, rows_and_bytes

LAST_MS = START_MS + 1000 * (COUNT - 1)


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Two log directories of 1.2 MB per partition: `a` has orders-0, orders-1 and other-0, `b` has
    third-0."""
    root = tmp_path_factory.mktemp("counted")
    for name in ("a/orders-0", "a/orders-1", "a/other-0", "b/third-0"):
        (root / name).parent.mkdir(exist_ok=True)
        make_partition_with_keys(root / name)
    with pytest.MonkeyPatch.context() as patched, remote.in_memory(root, "counted-logs") as url:
        remote.small_parts(patched)
        yield url


@pytest.fixture(scope="module")
def everything(logs: str) -> tuple[list[Row], int]:
    return rows_and_bytes(opened(logs))


def opened(logs: str, **options: str) -> Callable[[Env], LogDirTable]:
    return lambda env: LogDirTable({"path": f"{logs}/a,{logs}/b", **options}, env)


def at(milliseconds: int) -> int:
    """A time as conditions have it, in microseconds."""
    return milliseconds * 1000


@pytest.mark.parametrize(
    "conditions",
    [
        [Condition("topic", plain.EQUAL, "other")],
        [Condition("topic", plain.IN, ("other", "nothing"))],
        [Condition("partition", plain.EQUAL, 1)],
        [Condition("partition", plain.GREATER, 0)],
        [Condition("logDir", plain.EQUAL, "{b}")],
        [Condition("offset", plain.EQUAL, 30)],
        [Condition("offset", plain.GREATER_OR_EQUAL, 55)],
        [Condition("offset", plain.LESS, 5)],
        [Condition("timestamp", plain.GREATER, at(LAST_MS - 2_000))],
        [Condition("timestamp", plain.EQUAL, at(START_MS + 30_000))],
        [Condition("key", plain.EQUAL, b"k-30")],
        [Condition("topic", plain.EQUAL, "orders"), Condition("offset", plain.EQUAL, 3)],
    ],
    ids=lambda conditions: " and ".join(f"{c.column} {c.operation} {c.value}" for c in conditions),
)
def test_conditions(logs: str, everything: tuple[list[Row], int], conditions: list[Condition]) -> None:
    meant = [
        Condition(each.column, each.operation, f"{logs}/b") if each.value == "{b}" else each for each in conditions
    ]
    rows, all_bytes = everything
    found, read = rows_and_bytes(opened(logs), *meant)
    assert fitting(found, *meant) == fitting(rows, *meant) != []
    assert read < all_bytes * 0.9


@pytest.mark.parametrize(
    ("options", "is_wanted"),
    [
        ({"subscribe": "other"}, lambda row: row["topic"] == "other"),
        ({"subscribePattern": "o.*r"}, lambda row: row["topic"] == "other"),
        ({"assign": '{"orders": [1]}'}, lambda row: (row["topic"], row["partition"]) == ("orders", 1)),
        ({"startingTimestamp": str(LAST_MS - 2_000)}, lambda row: row["offset"] >= COUNT - 3),
        ({"endingTimestamp": str(START_MS + 2_000)}, lambda row: row["offset"] < 2),
        (
            {"subscribe": "other", "startingOffsets": '{"other": {"0": 57}}'},
            lambda row: row["topic"] == "other" and row["offset"] >= 57,
        ),
        (
            {"subscribe": "other", "endingOffsets": '{"other": {"0": 3}}'},
            lambda row: row["topic"] == "other" and row["offset"] < 3,
        ),
        (
            {
                "subscribe": "other",
                "startingOffsetsByTimestamp": f'{{"other": {{"0": {LAST_MS - 2_000}}}}}',
                "endingOffsetsByTimestamp": f'{{"other": {{"0": {LAST_MS}}}}}',
            },
            lambda row: row["topic"] == "other" and COUNT - 3 <= row["offset"] < COUNT - 1,
        ),
        ({"key": "k-30"}, lambda row: row["key"] == b"k-30"),
    ],
    ids=lambda value: ",".join(value) if isinstance(value, dict) else "",
)
def test_options(
    logs: str, everything: tuple[list[Row], int], options: dict[str, str], is_wanted: Callable[[Row], bool]
) -> None:
    """Each reads less than the same without what narrows it beside the choice of topics."""
    topics = options.get("subscribe", "")
    rows, all_bytes = rows_and_bytes(opened(logs, subscribe=topics)) if len(options) > 1 else everything
    found, read = rows_and_bytes(opened(logs, **options))
    assert found == [row for row in rows if is_wanted(row)] != []
    assert read < all_bytes * 0.9


def test_the_latest_time_excludes_no_batch(logs: str, everything: tuple[list[Row], int]) -> None:
    """A header states a batch's latest time, and records have their times in any order."""
    conditions = [Condition("timestamp", plain.LESS_OR_EQUAL, at(START_MS + 2_000))]
    rows, all_bytes = everything
    found, read = rows_and_bytes(opened(logs), *conditions)
    assert fitting(found, *conditions) == fitting(rows, *conditions) != []
    assert read <= all_bytes


@pytest.mark.usefixtures("logs")  # for the small parts
def test_a_key_without_an_index_is_searched_for(tmp_path: Path) -> None:
    """So that what is counted above is the index at work."""
    make_partition(tmp_path / "logs" / "third-0")
    with remote.in_memory(tmp_path / "logs", "logs-without-index") as url:
        rows, all_bytes = rows_and_bytes(lambda env: LogDirTable({"path": url}, env))
        found, read = rows_and_bytes(lambda env: LogDirTable({"path": url, "key": "k-30"}, env))
    assert found == [row for row in rows if row["key"] == b"k-30"] != []
    assert read >= all_bytes
