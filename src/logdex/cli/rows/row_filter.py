"""The filters `--grep` and `--where`, which look at the rows themselves."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic

from logdex.cli.rows.shape import Row, RowShape
from logdex.cli.times import parse_time
from logdex.errors import UsageError
from logdex.frames.conditions import Condition, Conditions
from logdex.primitives.text import to_bytes

_COMPARISON = re.compile(r"\s*([^\s=!<>]+)\s*(==|=|!=|<>|<=|>=|<|>)\s*(.*?)\s*", re.DOTALL)
_COMPARE: Mapping[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_SAME = {"==": "=", "<>": "!="}
_NUMBER = re.compile(r"[+-]?[0-9]{1,30}(?:\.[0-9]{1,30})?")
_BOUND = 1 << 62
"""Numbers beyond it are no bounds of a read plan, whose arithmetic has 64 bits."""
_INTEGER = re.compile(r"[+-]?[0-9]{1,100}")


@dataclass(frozen=True, slots=True)
class Comparison:
    """That a field compares so with a value. `value` is a number for fields that are numbers, text
    for others, None for null."""

    field: str
    operation: str
    value: int | bool | str | None

    def holds(self, found: Any) -> bool:
        """Whether it holds for what a row has in the field; for a list, for one of its values."""
        if isinstance(found, list):
            some = any(self._holds_for(each, "=" if self.operation == "!=" else self.operation) for each in found)
            return some != (self.operation == "!=")
        return self._holds_for(found, self.operation)

    def _holds_for(self, found: Any, operation: str) -> bool:
        if found is None or self.value is None:
            return operation in ("=", "!=") and (found is self.value) == (operation == "=")
        value: Any = self.value
        if isinstance(found, str) and operation not in ("=", "!=") and _NUMBER.fullmatch(found):
            value = float(value) if _NUMBER.fullmatch(value) else value
            found = float(found) if isinstance(value, float) else found
        return _COMPARE[operation](found, value)


def parse_comparison(text: str, shape: RowShape[Any]) -> Comparison:
    """Returns a comparison such as ``offset >= 10``. Raises `UsageError` for other text."""
    found = _COMPARISON.fullmatch(text)
    if found is None:
        raise UsageError(f"--where {text!r} is no comparison", hint="give FIELD = VALUE, or != < <= > >=")
    field, operation, value = found.groups()
    shape.require_field(field, [name for name in shape.names if name != shape.pairs_field])
    return Comparison(field, _SAME.get(operation, operation), _value_of(value, field, shape))


def _value_of(text: str, field: str, shape: RowShape[Any]) -> int | bool | str | None:
    if text == "null":
        return None
    if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"":
        text = text[1:-1]
    if field.endswith("timestamp_ms"):
        return parse_time(text)
    if field in shape.flags:
        if text not in ("true", "false"):
            raise UsageError(f"{field} is true or false, not {text!r}", hint=f"give {field} = true")
        return text == "true"
    if field in shape.numbers:
        if not _INTEGER.fullmatch(text):
            raise UsageError(f"{field} is a number, and {text!r} is none", hint=f"give {field} = 1, for example")
        return int(text)
    return text


class RowFilter(Generic[Row]):
    """The rows that contain a text and for which all comparisons hold. Without either it is
    false."""

    def __init__(self, shape: RowShape[Row], grep: str | None, where: Sequence[str] | None) -> None:
        self._shape = shape
        self._contains = None if grep is None else _search_of(grep)
        self._comparisons = [parse_comparison(text, shape) for text in where or ()]

    def __bool__(self) -> bool:
        return self._contains is not None or bool(self._comparisons)

    def passes(self, row: Row) -> bool:
        """Whether a row is wanted."""
        if self._comparisons:
            fields = self._shape.to_json(row)
            if not all(each.holds(self._field(row, fields, each.field)) for each in self._comparisons):
                return False
        return self._contains is None or any(map(self._contains, self._texts(row)))

    def _field(self, row: Row, fields: Mapping[str, Any], name: str) -> Any:
        content = name.removesuffix("_text")
        if content in self._shape.contents:
            return _text(self._shape.contents[content](row))
        if name in fields:
            return fields[name]
        return _text(self._shape.pair(row, name.removeprefix(f"{self._shape.pairs_field}.")))

    def _texts(self, row: Row) -> list[bytes]:
        """Returns keys and values, and headers or properties, each alone and as ``NAME=VALUE``."""
        texts = [value for of in self._shape.contents.values() if (value := of(row)) is not None]
        for name, value in self._shape.pairs(row):
            texts += [value or b"", to_bytes(name) + b"=" + (value or b"")]
        return [*texts, *self._shape.words(row)]

    def conditions(self) -> Conditions:
        """Returns the comparisons that a read plan can use. Each row is looked at again."""
        found = (_condition(each) for each in self._comparisons)
        return Conditions(tuple(each for each in found if each is not None))


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode("utf-8", "backslashreplace")


def _search_of(text: str) -> Callable[[bytes], bool]:
    """Returns what looks for a text, or for a regular expression between slashes."""
    if len(text) < 2 or not (text.startswith("/") and text.endswith("/")):
        wanted = to_bytes(text)
        return lambda value: wanted in value
    try:
        search = re.compile(text[1:-1]).search
    except (re.error, OverflowError, RecursionError) as error:
        raise UsageError(f"--grep {text} is no regular expression: {error}", hint="give TEXT or /REGEX/") from None
    return lambda value: search(value.decode("utf-8", "surrogateescape")) is not None


def _condition(comparison: Comparison) -> Condition | None:
    field, operation, value = comparison.field, comparison.operation, comparison.value
    if operation == "!=" or value is None or isinstance(value, bool):
        return None
    if isinstance(value, int):
        if not -_BOUND < value < _BOUND:
            return None
        return Condition(field, operation, value)
    is_plain = value and "\\" not in value and not re.search("[\ud800-\udfff]", value)
    if operation != "=" or not is_plain or field not in ("topic", "tags", "key"):
        return None
    return Condition(field, operation, value.encode() if field == "key" else value)
