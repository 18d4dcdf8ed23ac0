"""The filters of Polars as conditions.

Polars writes an expression as JSON, whose form may change: what is not understood gives no
condition, so that a query takes longer and finds the same.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from logdex.frames import conditions as plain
from logdex.frames.conditions import Condition, Conditions

_OPERATIONS = {
    "Eq": plain.EQUAL,
    "Lt": plain.LESS,
    "LtEq": plain.LESS_OR_EQUAL,
    "Gt": plain.GREATER,
    "GtEq": plain.GREATER_OR_EQUAL,
}
_BETWEEN = {
    "Both": (plain.GREATER_OR_EQUAL, plain.LESS_OR_EQUAL),
    "Left": (plain.GREATER_OR_EQUAL, plain.LESS),
    "Right": (plain.GREATER, plain.LESS_OR_EQUAL),
    "None": (plain.GREATER, plain.LESS),
}
_MICROSECONDS = {"Milliseconds": 1_000, "Microseconds": 1}


def conditions_of(predicate: Any) -> Conditions:
    """Returns the conditions of a `polars.Expr` that all must hold; those that are no `Condition`
    are left out."""
    if predicate is None:
        return Conditions()
    try:
        tree = json.loads(predicate.meta.serialize(format="json"))
    except Exception:  # Polars cannot write every expression as JSON, and has no one error for it
        return Conditions()
    return Conditions(tuple(_conditions(tree)))


def _conditions(tree: Any) -> Iterator[Condition]:
    match tree:
        case {"BinaryExpr": {"left": left, "op": "And", "right": right}}:
            yield from _conditions(left)
            yield from _conditions(right)
        case {"BinaryExpr": {"left": {"Column": str(name)}, "op": str(op), "right": literal}} if op in _OPERATIONS:
            yield from _compared(name, _OPERATIONS[op], literal)
        case {"BinaryExpr": {"left": literal, "op": str(op), "right": {"Column": str(name)}}} if op in _OPERATIONS:
            yield from _compared(name, plain.turned(_OPERATIONS[op]), literal)
        case {"Function": {"input": [{"Column": str(name)}, *literals], "function": {"Boolean": function}}}:
            yield from _of_function(name, function, literals)


def _of_function(name: str, function: Any, literals: list[Any]) -> Iterator[Condition]:
    match function, literals:
        case "IsNotNull", []:
            yield Condition(name, plain.IS_NOT_NULL)
        case {"IsBetween": {"closed": str(closed)}}, [low, high] if closed in _BETWEEN:
            for operation, literal in zip(_BETWEEN[closed], (low, high), strict=True):
                yield from _compared(name, operation, literal)
        case {"IsIn": _}, [{"Literal": {"Scalar": {"List": stored}}}]:
            values = _list(stored)
            if values is not None:
                yield Condition(name, plain.IN, values)


def _compared(name: str, operation: str, literal: Any) -> Iterator[Condition]:
    value = _value(literal)
    if value is not None:
        yield Condition(name, operation, value)


def _value(literal: Any) -> int | str | bytes | None:
    match literal:
        case {"Literal": {"Scalar": {"Datetime": [int(value), str(unit), _]}}} if unit in _MICROSECONDS:
            return value * _MICROSECONDS[unit]
        case {"Literal": {"Scalar": {"String": str(text)}}}:
            return text
        case {"Literal": {"Scalar": {"Binary": [*stored]}}}:
            return bytes(stored)
        case {"Literal": {"Scalar": scalar} | {"Dyn": scalar}} if isinstance(scalar, dict) and len(scalar) == 1:
            [(kind, value)] = scalar.items()
            return value if kind.startswith(("Int", "UInt")) and type(value) is int else None
    return None


def _list(stored: list[int]) -> tuple[Any, ...] | None:
    """Returns the values of a list, which is stored as an Arrow stream; None if they are of a type
    that conditions do not have."""
    try:
        values = pa.ipc.open_stream(bytes(stored)).read_all().column(0).drop_null().to_pylist()
    except (pa.ArrowException, LookupError, TypeError, ValueError):
        return None
    return tuple(values) if all(type(each) in (int, str, bytes) for each in values) else None
