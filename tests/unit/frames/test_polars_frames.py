"""Tables as frames of Polars, and its filters as conditions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from random import Random
from typing import Any

import polars as pl
import pyarrow as pa
import pytest

from logdex.errors import EnvironmentProblem
from logdex.frames import extras
from logdex.frames.conditions import (
    EQUAL,
    GREATER,
    GREATER_OR_EQUAL,
    IN,
    IS_NOT_NULL,
    LESS,
    LESS_OR_EQUAL,
    Condition,
    Conditions,
)
from logdex.frames.extras import to_install
from logdex.frames.polars_filters import conditions_of
from logdex.frames.polars_frames import data_frame, lazy_frame
from logdex.frames.tables import TimedTable

A, B = pl.col("a"), pl.col("b")
SCHEMA = pa.schema(
    [
        ("n", pa.int64()),
        ("topic", pa.dictionary(pa.int32(), pa.string())),
        ("key", pa.binary()),
        ("at_timestamp_ms", pa.int64()),
        ("properties", pa.map_(pa.string(), pa.string())),
    ]
)


@pytest.mark.parametrize(
    ("predicate", "expected"),
    [
        (A == 3, [Condition("a", EQUAL, 3)]),
        (pl.lit(3) > A, [Condition("a", LESS, 3)]),
        ((A > 3) & (B <= "ä") & (A != 4), [Condition("a", GREATER, 3), Condition("b", LESS_OR_EQUAL, "ä")]),
        (A.is_in(["x", "y"]), [Condition("a", IN, ("x", "y"))]),
        (A.is_in([b"\xff"]), [Condition("a", IN, (b"\xff",))]),
        (A.is_not_null(), [Condition("a", IS_NOT_NULL)]),
        (A == b"k\xff", [Condition("a", EQUAL, b"k\xff")]),
        (datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC) < A, [Condition("a", GREATER, 1_000_000)]),
        (A.is_between(1, 3, closed="left"), [Condition("a", GREATER_OR_EQUAL, 1), Condition("a", LESS, 3)]),
        ((A == 1) | (B == 2), []),
        (~(A == 1), []),
        (A == B, []),
        (A == 1.5, []),
        (A.is_in([1.5]), []),
        (pl.lit(True), []),
        (A.map_elements(lambda value: hash(value) > 3, return_dtype=pl.Boolean), []),
        (None, []),
    ],
)
def test_conditions(predicate: Any, expected: list[Condition]) -> None:
    assert list(conditions_of(predicate).all) == expected


class Source:
    """Three batches of ten rows. Notes what is asked for, and leaves nothing out."""

    schema = SCHEMA

    def __init__(self) -> None:
        self.asked: list[tuple[list[str], Conditions]] = []
        self.batches_read = 0

    def batches(self, columns: Sequence[str], conditions: Conditions) -> Iterator[pa.RecordBatch]:
        self.asked.append((list(columns), conditions))
        for start in range(0, 30, 10):
            self.batches_read += 1
            rows = [
                {
                    "n": n,
                    "topic": "xy"[n % 2],
                    "key": b"%d" % n,
                    "at_timestamp_ms": n * 1000,
                    "properties": [("a", "b")],
                }
                for n in range(start, start + 10)
            ]
            yield pa.RecordBatch.from_pylist(rows, schema=SCHEMA)


@pytest.fixture
def source() -> Source:
    return Source()


def test_only_what_is_needed_is_asked_for(source: Source) -> None:
    frame = lazy_frame(TimedTable(source))
    found = frame.filter(pl.col("topic") == "x", pl.col("n") > 25).select("key").collect()
    assert found.to_dicts() == [{"key": b"26"}, {"key": b"28"}]
    [(columns, conditions)] = source.asked
    assert columns == ["n", "topic", "key"]
    assert {*conditions.all} == {Condition("topic", EQUAL, "x"), Condition("n", GREATER, 25)}


def test_times(source: Source) -> None:
    frame = lazy_frame(TimedTable(source)).filter(pl.col("at_timestamp") >= datetime(1970, 1, 1, 0, 0, 28, 500, UTC))
    assert frame.select("n", "at_timestamp").collect().row(0) == (29, datetime(1970, 1, 1, 0, 0, 29, tzinfo=UTC))
    assert source.asked[-1][1] == Conditions((Condition("at_timestamp_ms", GREATER_OR_EQUAL, 28_001),))


def test_counts_and_limits(source: Source) -> None:
    frame = lazy_frame(TimedTable(source))
    assert frame.select(pl.len()).collect().item() == 30
    source.asked.clear()
    source.batches_read = 0
    assert frame.head(5).filter(pl.col("n") > 3).collect()["n"].to_list() == [4]
    assert source.asked[0][1] == Conditions(), "rows that do not fit count too"
    assert source.batches_read == 1
    assert frame.filter(pl.col("n") > 3).head(2).collect()["n"].to_list() == [4, 5]


def test_random_filters_in_both_engines(source: Source) -> None:
    chance, frame = Random(3), lazy_frame(TimedTable(source))
    whole = frame.collect()
    for _ in range(20):
        predicate = pl.col("n") > chance.randint(-1, 30)
        if chance.random() < 0.5:
            predicate &= pl.col("topic").is_in(["x"])
        if chance.random() < 0.5:
            predicate |= pl.col("key") == b"3"
        found = frame.filter(predicate).collect(engine=chance.choice(("in-memory", "streaming")))
        assert found.equals(whole.filter(predicate))


def test_all_rows_at_once(source: Source) -> None:
    reader = pa.RecordBatchReader.from_batches(SCHEMA, source.batches([], Conditions()))
    frame = data_frame(reader)
    assert (frame.height, frame.schema["topic"]) == (30, pl.String)


def test_a_missing_package_is_named(source: Source, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> Any:
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    monkeypatch.setattr(extras, "import_module", missing)
    with pytest.raises(EnvironmentProblem, match="Polars is not installed") as refused:
        lazy_frame(TimedTable(source))
    assert refused.value.hint == to_install("polars")
