"""Whatever Spark pushes down: the rows that a plan of `rocketmq_store` gives are all that fit, and
only those where the source claims a condition. Conditions that exclude parts of the log exclude
them from the plan."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from logdex.frames import conditions as plain
from logdex.frames.conditions import Condition
from logdex.layout.rocketmq import SYS_FLAG_ROLLBACK
from logdex.rocketmq.read.parts import queue_guide
from logdex.spark.sources.rocketmq.table import StoreTable
from tests.examples import examples
from tests.property.rocketmq.test_read_plan import random_messages, time_slack_ms
from tests.unit.rocketmq.small_stores import build
from tests.unit.spark.sources.tables import fitting, plan_of, rows_of

COMPARISONS = (plain.EQUAL, plain.LESS, plain.LESS_OR_EQUAL, plain.GREATER, plain.GREATER_OR_EQUAL, plain.IN)
COLUMNS = ("topic", "queueId", "queueOffset", "physicalOffset", "storeTimestamp", "tags", "uniqueKey", "brokerName")
NAMES = (*COLUMNS, "sysFlag", "body")


def random_conditions(chance: Random, rows: list[dict[str, Any]]) -> list[Condition]:
    """Conditions with values of some rows, or close to them."""
    found = []
    for column in chance.sample(COLUMNS, chance.randint(1, 3)):
        values = [row[column] for row in chance.choices(rows, k=3) if row[column] is not None]
        if not values:
            continue
        moved = [value + chance.choice((-1, 0, 0, 1, 999)) if isinstance(value, int) else value for value in values]
        operation = chance.choice(COMPARISONS)
        found.append(Condition(column, operation, tuple(moved) if operation == plain.IN else moved[0]))
    return found


def is_wanted(row: dict[str, Any], conditions: list[Condition]) -> bool:
    """Whether a row must be found. A message that was rolled back has no entry in the index, so a
    unique key that is pushed down does not find it, as no query of the engine does."""
    return not (
        row["sysFlag"] & SYS_FLAG_ROLLBACK == SYS_FLAG_ROLLBACK and any(c.column == "uniqueKey" for c in conditions)
    )


@settings(max_examples=examples(40))
@given(seed=st.integers(0, 1 << 32))
def test_pushed_conditions(seed: int) -> None:
    chance = Random(seed)
    with TemporaryDirectory() as folder:
        messages = random_messages(chance, chance.randint(5, 60), same_size=False)
        root = build(Path(folder) / "broker-a", messages)
        options = {"path": str(root), "maxHashSlotNum": "7", "maxIndexNum": "12", "rocketmqVersion": "5.5.0"}
        options |= {"timeSlackMs": str(time_slack_ms(messages))} if chance.random() < 0.5 else {}
        options |= {"maxPartitionBytes": "700"} if chance.random() < 0.5 else {}
        table = StoreTable(options)
        rows = rows_of(table, names=NAMES)
        whole = plan_of(table, names=NAMES)
        for _ in range(5):
            conditions = random_conditions(chance, rows)
            found = rows_of(table, *conditions, names=NAMES)
            wanted = [row for row in fitting(rows, *conditions) if is_wanted(row, conditions)]
            assert [row for row in fitting(found, *conditions) if is_wanted(row, conditions)] == wanted, conditions
            claimed = [each for each in conditions if table.is_exact(each)]
            assert fitting(found, *claimed) == found, claimed
            plan = plan_of(table, *conditions, names=NAMES)
            assert plan.size_bytes <= whole.size_bytes
            low = next((c.value for c in conditions if (c.column, c.operation) == ("physicalOffset", plain.GREATER)), 0)
            assert plan.size_bytes <= max(whole.total_bytes - low, 0)


@settings(max_examples=examples(40))
@given(seed=st.integers(0, 1 << 32))
def test_offsets_of_queues(seed: int) -> None:
    """startingOffsets and endingOffsets give the rows of a whole read that they name, and all rows
    of queues that they do not name."""
    chance = Random(seed)
    with TemporaryDirectory() as folder:
        messages = random_messages(chance, chance.randint(5, 60), same_size=False)
        root = build(Path(folder) / "broker-a", messages)
        given = {"path": str(root), "maxHashSlotNum": "7", "maxIndexNum": "12", "rocketmqVersion": "5.5.0"}
        rows = rows_of(StoreTable(given), names=NAMES)
        queues = sorted({(row["topic"], row["queueId"]) for row in rows})
        for _ in range(5):
            limits: dict[str, dict[str, dict[int, int]]] = {"startingOffsets": {}, "endingOffsets": {}}
            for topic, queue in queues:
                for name, offset in zip(limits, sorted(chance.choices(range(13), k=2)), strict=True):
                    if chance.random() < 0.5:
                        limits[name].setdefault(topic, {})[queue] = offset
            options = {name: json.dumps(each) for name, each in limits.items()} | {"failOnDataLoss": "false"}
            options |= {"mode": "PERMISSIVE"} if chance.random() < 0.3 else {}

            def is_in(row: dict[str, Any], limits: dict[str, dict[str, dict[int, int]]] = limits) -> bool:
                first = limits["startingOffsets"].get(row["topic"], {}).get(row["queueId"], 0)
                end = limits["endingOffsets"].get(row["topic"], {}).get(row["queueId"], 1 << 60)
                return bool(first <= row["queueOffset"] < end)

            with pytest.MonkeyPatch.context() as patched:
                if chance.random() < 0.7:
                    patched.setattr(queue_guide, "is_worth_it", lambda guide, begin: True)
                columns = chance.choice((NAMES, ("body",), ("brokerName",)))
                found_rows = rows_of(StoreTable(given | options), names=columns)
            assert found_rows == [{name: row[name] for name in columns} for row in rows if is_in(row)], options
