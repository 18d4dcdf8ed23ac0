"""Whatever Spark pushes down: the rows that a plan of `kafka_log` gives are all that fit, and only
those where the source claims a condition. Conditions that exclude parts of the log exclude them
from the plan."""

from __future__ import annotations

from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from logdex.frames import conditions as plain
from logdex.frames.conditions import Condition
from logdex.spark.sources.kafka.table import LogDirTable
from tests.examples import examples
from tests.property.kafka.test_read_plan import write_partitions
from tests.unit.spark.sources.tables import fitting, plan_of, rows_of

COMPARISONS = (plain.EQUAL, plain.LESS, plain.LESS_OR_EQUAL, plain.GREATER, plain.GREATER_OR_EQUAL, plain.IN)
COLUMNS = ("topic", "partition", "offset", "timestamp", "key", "logDir")


def random_conditions(chance: Random, rows: list[dict[str, Any]]) -> list[Condition]:
    """Conditions with values of some rows, or close to them."""
    found = []
    for column in chance.sample(COLUMNS, chance.randint(1, 3)):
        values = [row[column] for row in chance.choices(rows, k=3) if row[column] is not None] if rows else []
        if not values:
            continue
        moved = [value + chance.choice((-1, 0, 0, 1, 999)) if isinstance(value, int) else value for value in values]
        operation = chance.choice(COMPARISONS)
        found.append(Condition(column, operation, tuple(moved) if operation == plain.IN else moved[0]))
    return found


@settings(max_examples=examples(30))
@given(seed=st.integers(0, 1 << 32))
def test_pushed_conditions(seed: int) -> None:
    chance = Random(seed)
    with TemporaryDirectory() as folder:
        write_partitions(Path(folder), chance)
        level = chance.choice(("read_uncommitted", "read_committed"))
        options = {"path": folder, "isolation.level": level, "includeControl": chance.choice(("true", "false"))}
        options |= {"maxPartitionBytes": "400"} if chance.random() < 0.5 else {}
        table = LogDirTable(options)
        rows, whole = rows_of(table), plan_of(table)
        for _ in range(5):
            conditions = random_conditions(chance, rows)
            found = rows_of(table, *conditions)
            assert fitting(found, *conditions) == fitting(rows, *conditions), conditions
            claimed = [each for each in conditions if table.is_exact(each)]
            assert fitting(found, *claimed) == found, claimed
            plan = plan_of(table, *conditions)
            assert plan.size_bytes <= whole.size_bytes
            topics = {c.value for c in conditions if (c.column, c.operation) == ("topic", plain.EQUAL)}
            assert all({part.split.topic} == topics for part in plan.parts) or not topics  # type: ignore[attr-defined]
