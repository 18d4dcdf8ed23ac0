"""Spark's filters as conditions, and a reader that takes them where Spark's setting allows it.

By default (`spark.sql.python.filterPushdown.enabled` is false) Spark refuses every read of a source
whose reader overrides `pushFilters`. It looks at the attribute `__func__` of the reader's method.
`FilterTaker` has the attribute of the method that is not overridden, so that reads work with either
setting, and filters are pushed down where the setting allows it. A test holds that it still works.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from pyspark.sql.datasource import (
    DataSourceReader,
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
)

from logdex.frames import conditions as plain
from logdex.frames.conditions import Condition, plain_value

_OPERATIONS: dict[type[Filter], str] = {
    EqualTo: plain.EQUAL,
    EqualNullSafe: plain.EQUAL,
    GreaterThan: plain.GREATER,
    GreaterThanOrEqual: plain.GREATER_OR_EQUAL,
    LessThan: plain.LESS,
    LessThanOrEqual: plain.LESS_OR_EQUAL,
    In: plain.IN,
    IsNotNull: plain.IS_NOT_NULL,
}


def condition_of(pushed: Filter) -> Condition | None:
    """Returns a filter as a condition, None if it is not one that read plans use."""
    operation = _OPERATIONS.get(type(pushed))
    path: tuple[str, ...] = getattr(pushed, "attribute", ())
    value = getattr(pushed, "value", None)
    if operation is None or len(path) != 1 or (value is None and operation != plain.IS_NOT_NULL):
        return None
    return Condition(path[0], operation, plain_value(value))


class FilterTaker:
    """Stands in for a reader's method `pushFilters`. `take` is given the conditions, and returns
    whether the read filters exactly by each, so that Spark need not check it again."""

    __func__ = staticmethod(DataSourceReader.pushFilters)

    def __init__(self, take: Callable[[Sequence[Condition]], Sequence[bool]]) -> None:
        self._take = take

    def __call__(self, filters: Sequence[Filter]) -> Iterable[Filter]:
        """Returns the filters that Spark must check itself."""
        found = [(each, condition) for each in filters if (condition := condition_of(each)) is not None]
        claimed = self._take([condition for _, condition in found])
        exact = {id(each) for (each, _), is_exact in zip(found, claimed, strict=True) if is_exact}
        return [each for each in filters if id(each) not in exact]
