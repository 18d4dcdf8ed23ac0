"""Conditions for times, in the unit of the log."""

from __future__ import annotations

from random import Random

from logdex.frames.conditions import (
    EQUAL,
    GREATER,
    GREATER_OR_EQUAL,
    IN,
    IS_NOT_NULL,
    LESS,
    LESS_OR_EQUAL,
    Condition,
    in_milliseconds,
)


def test_a_time_in_milliseconds_is_the_same_time() -> None:
    chance = Random(7)
    for _ in range(2_000):
        time_ms = chance.randint(-5, 5)
        operation = chance.choice((EQUAL, GREATER, GREATER_OR_EQUAL, LESS, LESS_OR_EQUAL, IN, IS_NOT_NULL))
        values = tuple(chance.randint(-5, 5) * 1000 + chance.choice((0, 0, 1, 500, 999)) for _ in range(3))
        value = values if operation == IN else None if operation == IS_NOT_NULL else values[0]
        condition = Condition("at", operation, value)
        assert in_milliseconds(condition, "at_ms").holds(time_ms) == condition.holds(time_ms * 1000), condition
