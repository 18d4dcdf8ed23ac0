"""A filter with the conditions of a query."""

from __future__ import annotations

from typing import Any

import pytest

from logdex.frames.conditions import EQUAL, GREATER, IN, LESS, Condition, Conditions
from logdex.kafka.read.narrow import narrowed
from logdex.kafka.read.read_filter import ReadFilter


@pytest.mark.parametrize(
    ("conditions", "expected"),
    [
        ([], {}),
        ([Condition("topic", EQUAL, "orders"), Condition("partition", IN, (1, 2))], {}),
        ([Condition("offset", GREATER, 5), Condition("offset", LESS, 9)], {"offset": 6, "end_offset": 9}),
        ([Condition("timestamp_ms", EQUAL, 5)], {"begin_ms": 5, "end_ms": 5}),
        ([Condition("key", EQUAL, b"k")], {"key": b"k"}),
        ([Condition("key", IN, (b"k", b"l"))], {}),
        ([Condition("value", EQUAL, b"v")], {}),
    ],
)
def test_each_condition(conditions: list[Condition], expected: dict[str, Any]) -> None:
    assert narrowed(ReadFilter(), "orders", 1, Conditions(tuple(conditions))) == ReadFilter(**expected)


def test_a_filter_stays() -> None:
    wanted = ReadFilter(offset=7, end_offset=9, begin_ms=3, end_ms=8, key=b"k", isolation="read_committed")
    conditions = [
        Condition("offset", GREATER, 2),
        Condition("timestamp_ms", LESS, 6),
        Condition("key", IN, (b"k", b"x")),
    ]
    found = narrowed(wanted, "orders", 1, Conditions(tuple(conditions)))
    assert found == ReadFilter(offset=7, end_offset=9, begin_ms=3, end_ms=5, key=b"k", isolation="read_committed")


@pytest.mark.parametrize(
    "impossible", [Condition("topic", EQUAL, "b"), Condition("partition", GREATER, 1), Condition("key", IN, ())]
)
def test_nothing_is_left(impossible: Condition) -> None:
    assert narrowed(ReadFilter(), "orders", 1, Conditions((impossible,))) is None


def test_no_record_has_two_keys() -> None:
    assert narrowed(ReadFilter(key=b"k"), "orders", 1, Conditions((Condition("key", EQUAL, b"x"),))) is None
