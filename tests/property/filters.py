"""Random filters for tables, as Arrow's expressions."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from functools import reduce
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

_COMPARISONS = (operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge)


def random_filter(chance: Random, rows: pa.Table, columns: Sequence[str]) -> tuple[pc.Expression | None, set[str]]:
    """A filter with values of some rows, or close to them, and the columns that it uses."""
    used = chance.sample(columns, chance.randint(1, 3))
    parts = [part for name in used if (part := _part(chance, rows, name)) is not None]
    if not parts:
        return pc.scalar(True), set()
    return reduce(operator.or_ if chance.random() < 0.1 else operator.and_, parts), set(used)


def _part(chance: Random, rows: pa.Table, name: str) -> pc.Expression | None:
    column = rows.column(name)
    present = column.drop_null()
    if not len(present):
        return None
    values = [_near(chance, present[chance.randrange(len(present))]) for _ in range(3)]
    field = pc.field(name)
    if chance.random() < 0.2:
        return field.isin(pa.array([value.as_py() for value in values], values[0].type))
    if chance.random() < 0.05:
        return field.is_valid()
    compare = chance.choice(_COMPARISONS)
    found: pc.Expression = compare(field, values[0]) if chance.random() < 0.8 else compare(pc.scalar(values[0]), field)
    return found


def _near(chance: Random, scalar: pa.Scalar) -> Any:
    """A scalar, or one close to it; dictionaries become their values."""
    if pa.types.is_dictionary(scalar.type):
        return pa.scalar(scalar.as_py(), scalar.type.value_type)
    if pa.types.is_timestamp(scalar.type):
        return pa.scalar(scalar.value + chance.choice((-1, 0, 0, 1, 999)), scalar.type)
    if pa.types.is_integer(scalar.type):
        return pa.scalar(scalar.as_py() + chance.choice((-1, 0, 0, 1)), scalar.type)
    return scalar
