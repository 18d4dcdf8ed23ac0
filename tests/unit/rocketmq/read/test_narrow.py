"""A filter with the conditions of a query."""

from __future__ import annotations

from typing import Any

import pytest

from logdex.frames.conditions import EQUAL, GREATER, IN, LESS_OR_EQUAL, Condition, Conditions
from logdex.rocketmq.read.narrow import narrowed
from logdex.rocketmq.read.read_filter import ReadFilter

ALL = ReadFilter()
TOPIC = Condition("topic", EQUAL, "a")


def narrow(wanted: ReadFilter, *conditions: Condition) -> ReadFilter | None:
    return narrowed(wanted, Conditions(conditions))


@pytest.mark.parametrize(
    ("conditions", "expected"),
    [
        ([TOPIC], {"topic": b"a"}),
        ([Condition("topic", IN, ("a", "b"))], {}),
        ([Condition("topic", EQUAL, "back\\slash")], {}),
        ([Condition("unique_key", EQUAL, "u")], {}),
        ([TOPIC, Condition("unique_key", EQUAL, "u")], {"topic": b"a", "key": b"u"}),
        ([TOPIC, Condition("unique_key", EQUAL, "u"), Condition("key", EQUAL, "k")], {"topic": b"a", "key": b"k"}),
        ([Condition("tags", IN, ("x", "y"))], {"tags": frozenset((b"x", b"y"))}),
        ([Condition("queue_id", EQUAL, 3)], {"queue_ids": frozenset((3,))}),
        ([Condition("queue_id", IN, (3, 5))], {"queue_ids": frozenset((3, 5))}),
        (
            [Condition("physical_offset", GREATER, 5), Condition("physical_offset", LESS_OR_EQUAL, 9)],
            {"begin_offset": 6, "end_offset": 10},
        ),
        ([Condition("queue_offset", EQUAL, 5)], {"begin_queue_offset": 5, "end_queue_offset": 6}),
        ([Condition("store_timestamp_ms", GREATER, 5)], {"begin_ms": 6}),
        ([Condition("body", EQUAL, b"x"), Condition("flag", GREATER, 1)], {}),
    ],
)
def test_each_condition(conditions: list[Condition], expected: dict[str, Any]) -> None:
    assert narrow(ALL, *conditions) == ReadFilter(**expected)


def test_a_filter_stays() -> None:
    wanted = ReadFilter(
        topic=b"a",
        queue_ids=frozenset((1, 3)),
        begin_ms=10,
        end_ms=20,
        tags=frozenset((b"x", b"y")),
        key=b"k",
        begin_queue_offset=7,
    )
    assert narrow(wanted) == wanted
    conditions = [
        *(
            TOPIC,
            Condition("queue_id", IN, (1, 2)),
            Condition("tags", IN, ("y", "z")),
            Condition("key", EQUAL, "other"),
        ),
        *(Condition("store_timestamp_ms", GREATER, 3), Condition("queue_offset", GREATER, 7)),
    ]
    found = narrow(wanted, *conditions)
    assert found == ReadFilter(
        topic=b"a",
        queue_ids=frozenset((1,)),
        begin_ms=10,
        end_ms=20,
        tags=frozenset((b"y",)),
        key=b"k",
        begin_queue_offset=8,
    )


@pytest.mark.parametrize(
    "impossible", [Condition("topic", EQUAL, "b"), Condition("queue_id", EQUAL, 2), Condition("tags", EQUAL, "z")]
)
def test_nothing_is_left(impossible: Condition) -> None:
    assert narrow(ReadFilter(topic=b"a", queue_ids=frozenset((1,)), tags=frozenset((b"x",))), impossible) is None
