"""Spark's filters as conditions, and what a plan learns of them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

import pyarrow as pa
import pytest

pytest.importorskip("pyspark")
from pyspark.sql import datasource as spark

from logdex.convert.columns.projection import SourceColumn, of_format, same, timestamp
from logdex.frames.conditions import EQUAL, GREATER, IN, LESS, Condition, Conditions
from logdex.spark.sources.pushdown import FilterTaker, condition_of


def of(*filters: spark.Filter) -> Conditions:
    return Conditions(tuple(each for each in map(condition_of, filters) if each is not None))


def test_bounds() -> None:
    found = of(
        spark.GreaterThan(("offset",), 3),
        spark.LessThanOrEqual(("offset",), 90),
        spark.In(("offset",), [5, 70, None]),  # type: ignore[arg-type]
        spark.LessThan(("other",), 1),
        spark.IsNotNull(("offset",)),
    )
    assert found.bounds("offset") == (5, 70)
    assert found.bounds("other") == (None, 0)
    assert found.bounds("third") == (None, None)
    assert of(spark.In(("offset",), ())).bounds("offset") == (1, 0)
    assert found.hold("offset", 5)
    assert not found.hold("offset", 6)


def test_values() -> None:
    found = of(spark.EqualTo(("topic",), "a"), spark.In(("topic",), ("a", "b")))
    assert found.values("topic") == frozenset("a")
    assert found.values("queue") is None
    assert of(spark.EqualTo(("t",), "a"), spark.EqualTo(("t",), "b")).values("t") == frozenset()


def test_times_are_rounded_inwards() -> None:
    at = datetime(2026, 11, 1, 0, 0, 0, 1500, UTC)
    whole = int(at.timestamp()) * 1000
    columns = (timestamp("at", "at_ms"), same("n", "number", pa.int64()), SourceColumn("place", pa.string()))

    def bounds(pushed: spark.Filter) -> tuple[int | None, int | None]:
        return of_format(columns, of(pushed)).bounds("at_ms")

    assert bounds(spark.GreaterThanOrEqual(("at",), at)) == (whole + 2, None)
    assert bounds(spark.LessThanOrEqual(("at",), at)) == (None, whole + 1)
    exactly = datetime(2026, 11, 1, tzinfo=UTC)
    assert bounds(spark.GreaterThan(("at",), exactly)) == (whole + 1, None)
    assert bounds(spark.EqualTo(("at",), exactly)) == (whole, whole)
    assert bounds(spark.EqualTo(("at",), datetime(1969, 12, 31, 23, 59, 59, 999_000, UTC))) == (-1, -1)
    others = of_format(columns, of(spark.EqualTo(("n",), 1), spark.EqualTo(("place",), "b")))
    assert others == Conditions((Condition("number", EQUAL, 1),))


@pytest.mark.parametrize(
    "unused",
    [
        spark.Not(spark.EqualTo(("topic",), "a")),
        spark.IsNull(("topic",)),
        spark.StringStartsWith(("topic",), "a"),
        spark.EqualTo(("_corrupt", "file"), "a"),
        spark.EqualNullSafe(("topic",), None),
    ],
)
def test_other_filters_are_left_to_spark(unused: spark.Filter) -> None:
    assert condition_of(unused) is None
    taker = FilterTaker(lambda conditions: [True] * len(conditions))
    assert list(taker([unused])) == [unused]


def test_what_is_not_claimed_is_returned() -> None:
    taken: list[Condition] = []

    def take(conditions: Sequence[Condition]) -> list[bool]:
        taken.extend(conditions)
        return [each.column == "a" for each in conditions]

    filters: list[spark.Filter] = [spark.EqualTo(("a",), 1), spark.EqualTo(("b",), 1), spark.IsNull(("a",))]
    assert list(FilterTaker(take)(filters)) == filters[1:]
    assert taken == [Condition("a", EQUAL, 1), Condition("b", EQUAL, 1)]


def test_the_work_around_for_disabled_pushdown() -> None:
    """PySpark compares this attribute (`plan_data_source_read.py`), and refuses a read where it
    differs."""
    taker = FilterTaker(lambda _: [])
    assert getattr(taker, "__func__", None) is spark.DataSourceReader.pushFilters


def test_as_text() -> None:
    found = Conditions((Condition("a", GREATER, 1), Condition("b", IN, ("x", "y")), Condition("c", LESS, 3)))
    assert str(found) == "a > 1 and b in ('x', 'y') and c < 3"
