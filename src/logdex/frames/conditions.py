"""The conditions that a query pushes down to a log, in a form that read plans can use.

Spark, DuckDB, Polars and Arrow each have filters of their own; what they have in common is here.
All conditions must hold, so each can be used by itself, or ignored: whoever asks checks again what
is not claimed to be checked.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

EQUAL, LESS, LESS_OR_EQUAL, GREATER, GREATER_OR_EQUAL = "=", "<", "<=", ">", ">="
IN, IS_NOT_NULL = "in", "is not null"

_COMPARE: Mapping[str, Callable[[Any, Any], bool]] = {
    EQUAL: operator.eq,
    LESS: operator.lt,
    LESS_OR_EQUAL: operator.le,
    GREATER: operator.gt,
    GREATER_OR_EQUAL: operator.ge,
    IN: lambda value, wanted: value in wanted,
    IS_NOT_NULL: lambda value, _: value is not None,
}
_TURNED = {LESS: GREATER, LESS_OR_EQUAL: GREATER_OR_EQUAL, GREATER: LESS, GREATER_OR_EQUAL: LESS_OR_EQUAL}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class Condition:
    """That a column is so: `value` is a single one, a tuple for `IN`, None for `IS_NOT_NULL`.
    Values of timestamps are in microseconds since 1970."""

    column: str
    operation: str
    value: Any = None

    def holds(self, value: object) -> bool:
        """Whether the condition holds for a value of the column that is not null."""
        return _COMPARE[self.operation](value, self.value)


@dataclass(frozen=True, slots=True)
class Conditions:
    """Conditions that all must hold."""

    all: tuple[Condition, ...] = ()

    def of(self, *columns: str) -> Conditions:
        """Returns the conditions for some columns."""
        return Conditions(tuple(each for each in self.all if each.column in columns))

    def hold(self, column: str, value: object) -> bool:
        """Whether all conditions for a column hold for a value."""
        return all(each.holds(value) for each in self.all if each.column == column)

    def values(self, column: str) -> frozenset[Any] | None:
        """Returns the values that a column may have, None if they are not listed."""
        found: frozenset[Any] | None = None
        for each in self.of(column).all:
            if each.operation in (EQUAL, IN):
                wanted = frozenset(each.value if each.operation == IN else [each.value])
                found = wanted if found is None else found & wanted
        return found

    def bounds(self, column: str) -> tuple[int | None, int | None]:
        """Returns the least and the largest value that a column of whole numbers may have, both
        inclusive, None for no bound."""
        low: int | None = None
        high: int | None = None
        for each in self.of(column).all:
            first, last = _bounds(each)
            if first is not None:
                low = first if low is None else max(low, first)
            if last is not None:
                high = last if high is None else min(high, last)
        return low, high

    def __str__(self) -> str:
        told = [each for each in self.all if each.operation != IS_NOT_NULL]
        return " and ".join(f"{each.column} {each.operation} {each.value}" for each in told)


def _bounds(condition: Condition) -> tuple[int | None, int | None]:
    value = condition.value
    match condition.operation:
        case "=":
            return value, value
        case "in":
            return (min(value), max(value)) if value else (1, 0)
        case ">":
            return value + 1, None
        case ">=":
            return value, None
        case "<":
            return None, value - 1
        case "<=":
            return None, value
    return None, None


def turned(operation: str) -> str:
    """Returns the comparison that holds for b and a where `operation` holds for a and b."""
    return _TURNED.get(operation, operation)


def highest(*bounds: int | None) -> int | None:
    """Returns the highest bound, None without one."""
    return max((each for each in bounds if each is not None), default=None)


def lowest(*bounds: int | None) -> int | None:
    """Returns the lowest bound, None without one."""
    return min((each for each in bounds if each is not None), default=None)


def in_milliseconds(condition: Condition, column: str) -> Condition:
    """Returns a condition for a timestamp as one for `column`, which has the same time in whole
    milliseconds."""
    value = condition.value
    match condition.operation:
        case "=" | "in":
            times = value if isinstance(value, tuple) else (value,)
            return Condition(column, IN, tuple(time // 1000 for time in times if time % 1000 == 0))
        case ">" | "<=":
            value = value // 1000
        case "<" | ">=":
            value = -(-value // 1000)
    return Condition(column, condition.operation, value)


def plain_value(value: object) -> object:
    """Returns a Python value as conditions have it: times as microseconds since 1970, the values
    of a list as a tuple without null, which equals nothing."""
    if isinstance(value, Iterable) and not isinstance(value, str | bytes | bytearray):
        return tuple(plain_value(each) for each in value if each is not None)
    if isinstance(value, datetime):
        aware = value if value.tzinfo is not None else value.replace(tzinfo=UTC)
        return (aware - _EPOCH) // _MICROSECOND
    return bytes(value) if isinstance(value, bytearray) else value
