"""The filters of Arrow's datasets, which DuckDB uses too, as conditions.

An Arrow expression cannot be taken apart in Python. But it can be pickled, and its pickled form is
an Arrow file with one row: the values of the row are the expression's literals, and the schema's
metadata lists its parts in order, each call before its arguments. `Schema.metadata` is a
dictionary, which has no repeated names, so the list is read from the schema's form in Arrow's C
interface.

What is not understood gives no condition, so another form in another version costs time, but no
row.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from logdex.frames import conditions as plain
from logdex.frames.conditions import Condition, Conditions

_COMPARISONS = {
    "equal": plain.EQUAL,
    "less": plain.LESS,
    "less_equal": plain.LESS_OR_EQUAL,
    "greater": plain.GREATER,
    "greater_equal": plain.GREATER_OR_EQUAL,
}
_AND = ("and_kleene", "and")


@dataclass(frozen=True, slots=True)
class _Field:
    name: str


@dataclass(frozen=True, slots=True)
class _Literal:
    value: Any


@dataclass(frozen=True, slots=True)
class _Call:
    function: str
    arguments: tuple[Any, ...]
    options: Any = None


def conditions_of(expression: pc.Expression | None) -> Conditions:
    """Returns the conditions of an expression that all must hold; those that are no `Condition` are
    left out."""
    root = _tree(expression)
    return Conditions(tuple(each for part in _conjuncts(root) if (each := _condition(part)) is not None))


def fields_of(expression: pc.Expression | None) -> frozenset[str] | None:
    """Returns the names of all fields that an expression uses; None if they are not known."""
    if expression is None:
        return frozenset()
    root = _tree(expression)
    return None if root is None else frozenset(_names(root))


def _names(part: Any) -> Iterator[str]:
    if isinstance(part, _Field):
        yield part.name
    elif isinstance(part, _Call):
        for each in part.arguments:
            yield from _names(each)


def _conjuncts(part: Any) -> Iterator[Any]:
    if isinstance(part, _Call) and part.function in _AND:
        for each in part.arguments:
            yield from _conjuncts(each)
    else:
        yield part


def _condition(part: Any) -> Condition | None:
    match part:
        case _Call(function, (_Field(name), _Literal(value))) if function in _COMPARISONS:
            return _compared(name, _COMPARISONS[function], value)
        case _Call(function, (_Literal(value), _Field(name))) if function in _COMPARISONS:
            return _compared(name, plain.turned(_COMPARISONS[function]), value)
        case _Call("is_in", (_Field(name),), options) if options is not None:
            values = [_plain(each) for each in options["value_set"].values if each.is_valid]
            return None if None in values else Condition(name, plain.IN, tuple(values))
        case _Call("if_else", (_Call("is_valid", _), sought, _Literal(otherwise))) if not otherwise.is_valid:
            return _condition(sought)  # as DuckDB writes IN
        case _Call("is_valid", (_Field(name),)):
            return Condition(name, plain.IS_NOT_NULL)
    return None


def _compared(name: str, operation: str, scalar: pa.Scalar) -> Condition | None:
    value = _plain(scalar) if scalar.is_valid else None
    return None if value is None else Condition(name, operation, value)


def _plain(scalar: pa.Scalar) -> int | str | bytes | None:
    """Returns the value of a scalar as conditions have it; None if they have no such values."""
    if pa.types.is_timestamp(scalar.type):
        zone = scalar.type.tz
        whole = scalar.cast(pa.timestamp("us", tz=zone)).value
        return int(whole)
    value = scalar.as_py()
    return value if isinstance(value, int | str | bytes) and not isinstance(value, bool) else None


# -- taking an expression apart ------------------------------------------------------------------
def _tree(expression: pc.Expression | None) -> Any:
    """Returns an expression as a tree of `_Call`, `_Field` and `_Literal`; None if that fails."""
    if expression is None:
        return None
    try:
        _, (pickled,) = expression.__reduce__()
        with pa.ipc.open_file(pickled) as file:
            literals = file.get_batch(0) if file.num_record_batches else None
            tokens = iter(_metadata(file.schema))
        return _parse(next(tokens), tokens, literals)
    except (pa.ArrowException, LookupError, StopIteration, TypeError, ValueError):
        return None


def _parse(token: tuple[str, str], tokens: Iterator[tuple[str, str]], literals: Any) -> Any:
    kind, text = token
    if kind == "field_ref":
        return _Field(text)
    if kind == "nested_field_ref":
        parts = [_parse(next(tokens), tokens, literals) for _ in range(int(text))]
        return _Call(kind, tuple(parts[:1]))
    if kind == "literal":
        return _Literal(literals.column(int(text))[0])
    arguments: list[Any] = []
    options = None
    for inner in tokens:
        if inner[0] == "end":
            return _Call(text, tuple(arguments), options)
        if inner[0] == "options":
            options = literals.column(int(inner[1]))[0]
        else:
            arguments.append(_parse(inner, tokens, literals))
    raise ValueError(text)


_METADATA_AT = 2 * ctypes.sizeof(ctypes.c_void_p)  # struct ArrowSchema: format, name, metadata
_get_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_get_pointer.restype, _get_pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]


def _metadata(schema: pa.Schema) -> list[tuple[str, str]]:
    """Returns the metadata of a schema in order, repeated names included."""
    capsule = schema.__arrow_c_schema__()
    at = ctypes.c_void_p.from_address(_get_pointer(capsule, b"arrow_schema") + _METADATA_AT).value
    texts: list[str] = []
    if at is None:
        return []
    count = ctypes.c_int32.from_address(at).value
    at += 4
    for _ in range(2 * count):
        size = ctypes.c_int32.from_address(at).value
        texts.append(ctypes.string_at(at + 4, size).decode())
        at += 4 + size
    return list(zip(texts[::2], texts[1::2], strict=True))
