"""Every kind of filter of `rocketmq_store` gives what the same filter gives without pushdown, and
reads fewer bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from logdex.frames import conditions as plain
from logdex.frames.conditions import Condition
from logdex.io.env import Env
from logdex.spark.sources.rocketmq.table import StoreTable
from tests import remote
from tests.examples import cases
from tests.unit.frames.logs import QUEUES_COUNT as COUNT
from tests.unit.frames.logs import make_store_of_queues
from tests.unit.rocketmq.small_stores import START_MS
from tests.unit.spark.sources.tables import Row, fitting, rows_and_bytes

SETTINGS = {"maxHashSlotNum": "7", "maxIndexNum": "2000", "timeSlackMs": "0"}


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Two stores, broker-a and broker-b, of 1.7 MB each."""
    root = tmp_path_factory.mktemp("counted")
    for name in ("broker-a", "broker-b"):
        make_store_of_queues(root / name)
    with pytest.MonkeyPatch.context() as patched, remote.in_memory(root, "counted-stores") as url:
        remote.small_parts(patched)
        yield url


@pytest.fixture(scope="module")
def everything(stores: str) -> tuple[list[Row], int]:
    return rows_and_bytes(opened(stores))


def opened(stores: str, **options: str) -> Callable[[Env], StoreTable]:
    return lambda env: StoreTable({"path": f"{stores}/broker-*", **SETTINGS, **options}, env)


def at(milliseconds: int) -> int:
    """A time as conditions have it, in microseconds."""
    return milliseconds * 1000


@pytest.mark.parametrize(
    "conditions",
    cases(
        [
            [Condition("topic", plain.EQUAL, "Rare")],
            [Condition("queueId", plain.EQUAL, 3)],
            [Condition("queueId", plain.IN, (3, 5))],
            [Condition("queueOffset", plain.GREATER_OR_EQUAL, 18)],
            [Condition("queueOffset", plain.EQUAL, 0)],
            [Condition("physicalOffset", plain.GREATER, 1_500_000)],
            [Condition("physicalOffset", plain.LESS, 500_000)],
            [Condition("storeTimestamp", plain.GREATER_OR_EQUAL, at(START_MS + COUNT - 10))],
            [Condition("storeTimestamp", plain.LESS, at(START_MS + 10))],
            [Condition("storeTimestamp", plain.EQUAL, at(START_MS + 400))],
            [Condition("brokerName", plain.EQUAL, "broker-b")],
            [Condition("topic", plain.EQUAL, "Large"), Condition("queueId", plain.EQUAL, 3)],
            [Condition("topic", plain.EQUAL, "Large"), Condition("tags", plain.EQUAL, "t5")],
            [Condition("topic", plain.EQUAL, "Large"), Condition("uniqueKey", plain.EQUAL, "u-77")],
        ],
        3,
    ),
    ids=lambda conditions: " and ".join(f"{c.column} {c.operation} {c.value}" for c in conditions),
)
def test_conditions(stores: str, everything: tuple[list[Row], int], conditions: list[Condition]) -> None:
    rows, all_bytes = everything
    found, read = rows_and_bytes(opened(stores), *conditions)
    assert fitting(found, *conditions) == fitting(rows, *conditions) != []
    assert read < all_bytes * 0.9


@pytest.mark.parametrize(
    ("options", "is_wanted"),
    [
        ({"topic": "Rare"}, lambda row: row["topic"] == "Rare"),
        ({"queueId": "3"}, lambda row: row["queueId"] == 3),
        ({"topic": "Large", "queueId": "3,5"}, lambda row: row["topic"] == "Large" and row["queueId"] in (3, 5)),
        ({"startingPhysicalOffset": "1500000"}, lambda row: row["physicalOffset"] >= 1_500_000),
        ({"endingPhysicalOffset": "500000"}, lambda row: row["physicalOffset"] < 500_000),
        ({"tag": "t5"}, lambda row: row["tags"] == "t5"),
        ({"topic": "Large", "key": "u-77"}, lambda row: row["uniqueKey"] == "u-77"),
        (
            {"startingTimestamp": str(START_MS + COUNT - 10)},
            lambda row: row["storeTimestamp"] >= at(START_MS + COUNT - 10),
        ),
        ({"endingTimestamp": str(START_MS + 10)}, lambda row: row["storeTimestamp"] < at(START_MS + 10)),
    ],
    ids=lambda value: ",".join(value) if isinstance(value, dict) else "",
)
def test_options(
    stores: str, everything: tuple[list[Row], int], options: dict[str, str], is_wanted: Callable[[Row], bool]
) -> None:
    rows, all_bytes = everything
    found, read = rows_and_bytes(opened(stores, **options))
    assert found == [row for row in rows if is_wanted(row)] != []
    assert read < all_bytes * 0.9
