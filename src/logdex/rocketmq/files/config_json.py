"""JSON as the broker's library (fastjson) writes and reads it, with unquoted integer keys, and
objects as keys in a client's file.

It also accepts unquoted names, single quotes, extra commas, comments, and numbers with a type
letter. Source: ``docs/formats/config-json.md``.
"""

from __future__ import annotations

import json
import math
import re
import sys
from typing import Any, NoReturn

from logdex.errors import CorruptError

DEPTH_MAX = 64
"""The broker's files nest four levels deep."""
_NUMBER_DIGITS_MAX = 64

# Possessive: without backtracking, megabytes of blanks or of escapes need no memory.
_BLANKS = r"[ \t\r\n\f\b\ufeff]++|//[^\n]*+|/\*.*?\*/"
_SPACE = re.compile(rf"(?:{_BLANKS})*+", re.DOTALL)
_COMMAS = re.compile(rf"(?:{_BLANKS}|,++)*+", re.DOTALL)
_STRING = re.compile(r""""([^"\\]*+(?:\\.[^"\\]*+)*+)"|'([^'\\]*+(?:\\.[^'\\]*+)*+)'""", re.DOTALL)
_NUMBER = re.compile(r"(-?[0-9]+)(\.[0-9]+)?([eE][+-]?[0-9]+)?[LSBFDlsbfd]?(?![\w.])")
_NAME = re.compile(r"[^\W\d][\w$.%|-]*|\$[\w$.-]*")
_INT_KEY = re.compile(r"-?[0-9]+")
_ESCAPE = re.compile(
    r"\\u([dD][89abAB][0-9a-fA-F]{2})\\u([dD][c-fC-F][0-9a-fA-F]{2})"
    r"|\\u([0-9a-fA-F]{4})|\\x([0-9a-fA-F]{2})|\\([^ux])|\\",
    re.DOTALL,
)
_INT_NAME = re.compile(r""""[^"\\]*+(?:\\.[^"\\]*+)*+"|(?<=[{,])[ \t\r\n]*+(-?[0-9]+)[ \t\r\n]*+(?=:)""", re.DOTALL)
_INT_NAME_AT_ALL = re.compile(r"[{,][ \t\r\n]*+-?[0-9]+[ \t\r\n]*+:")
_LONG_NUMBER = re.compile(rf"[0-9]{{{_NUMBER_DIGITS_MAX + 1}}}")
_LETTERS = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "0": "\0"}
_WORDS = {"true": True, "false": False, "null": None}


Key = int | str | tuple[tuple[int | str, Any], ...]
"""A member's name. An object as a name is a tuple of its members."""


def parse_config_json(data: bytes, *, path: str = "<bytes>") -> dict[Any, Any]:
    """Parses `data`, which must be one object. Unquoted integer keys become `int`, objects as keys
    tuples of their members.

    Bytes that are not UTF-8 become surrogate escapes. Raises `CorruptError`, with the byte
    position, for anything else.
    """
    # A crash may leave zeros behind the content, which the broker's library passes over.
    text = data.rstrip(b"\0").decode("utf-8", "surrogateescape")
    found = _parse_quickly(text)
    if found is not None:
        return found
    parser = _Parser(text, path)
    parser.skip(_SPACE)
    if not parser.text.startswith("{", parser.at):
        parser.fail("no object starts here", "{")
    value = parser.object(1)
    parser.skip(_SPACE)
    if parser.at != len(parser.text):
        parser.fail("more behind the object", "the end")
    return value


def format_config_json(value: dict[Any, Any], *, number_keys_share_a_line: bool = False) -> bytes:
    """The bytes of an object as the broker writes it: a line per field, tabs, integer keys without
    quotes; with `number_keys_share_a_line` as versions before 5.1.0 write maps with such keys. Text
    that stands for bytes that are not UTF-8 is written as these bytes."""
    return _format(value, "", number_keys_share_a_line).encode("utf-8", "surrogateescape")


def _format(value: Any, indent: str, shares: bool) -> str:
    inner = f"{indent}\t"
    if isinstance(value, tuple):
        value = dict(value)
    if isinstance(value, dict) and value:
        pairs = [f"{_format(key, inner, shares)}:{_format(item, inner, shares)}" for key, item in value.items()]
        if shares and isinstance(next(iter(value)), int):
            return "{" + ",".join(pairs) + f"\n{indent}}}"
        return "{\n" + ",\n".join(inner + pair for pair in pairs) + f"\n{indent}}}"
    if isinstance(value, list) and value:
        items = (inner + _format(item, inner, shares) for item in value)
        return "[\n" + ",\n".join(items) + f"\n{indent}]"
    return json.dumps(value, ensure_ascii=False)


def _parse_quickly(text: str) -> dict[Any, Any] | None:
    """Parses text that is plain JSON but for integer keys, three to five times as fast as
    `_Parser`. Returns None for all other text. Files of brokers with many topics have tens of
    megabytes."""
    if "\\u" in text or _LONG_NUMBER.search(text):
        return None
    value = _load(text)
    if value is None and _INT_NAME_AT_ALL.search(text):
        value = _load(_INT_NAME.sub(_quoted, text), object_hook=_with_int_names)
    return value if isinstance(value, dict) and _is_flat(value) else None


def _load(text: str, **how: Any) -> Any:
    try:
        return json.loads(text, parse_float=_finite, parse_constant=_no_constant, **how)
    except (ValueError, RecursionError):
        return None


def _quoted(found: re.Match[str]) -> str:
    return found[0] if found[1] is None else f'"\\u0000{found[1]}"'


def _with_int_names(found: dict[str, Any]) -> dict[Any, Any]:
    return {int(name[1:]) if name.startswith("\0") else name: value for name, value in found.items()}


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(text)
    return value


def _no_constant(name: str) -> NoReturn:
    raise ValueError(name)


def _is_flat(value: Any) -> bool:
    """Whether objects and arrays nest at most `DEPTH_MAX` levels deep."""
    level = [value]
    for _ in range(DEPTH_MAX):
        inner = (each.values() if isinstance(each, dict) else each for each in level)
        level = [item for items in inner for item in items if isinstance(item, dict | list)]
        if not level:
            return True
    return False


class _Parser:
    """Parses the text in one pass; `at` is the next character."""

    def __init__(self, text: str, path: str) -> None:
        self.text, self.path, self.at = text, path, 0

    def fail(self, message: str, expected: str) -> NoReturn:
        """Raises the error for the current position."""
        position = len(self.text[: self.at].encode("utf-8", "surrogateescape"))
        found = repr(self.text[self.at : self.at + 12]) if self.at < len(self.text) else "the end"
        raise CorruptError(message, path=self.path, position=position, expected=expected, found=found)

    def skip(self, pattern: re.Pattern[str]) -> None:
        found = pattern.match(self.text, self.at)
        self.at = found.end() if found else self.at

    def match(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        found = pattern.match(self.text, self.at)
        if found:
            self.at = found.end()
        return found

    def value(self, depth: int) -> Any:
        first = self.text[self.at : self.at + 1]
        if first in ("{", "[") and first:
            if depth > DEPTH_MAX:
                self.fail("nested too deep", f"at most {DEPTH_MAX} levels")
            return self.object(depth) if first == "{" else self.array(depth)
        if first in ('"', "'") and first:
            return self.string()
        number = self.match(_NUMBER)
        if number:
            return self.number(number)
        word = self.match(_NAME)
        if word and word[0] in _WORDS:
            return _WORDS[word[0]]
        self.at = word.start() if word else self.at
        return self.fail("no value starts here", "a value")

    def number(self, found: re.Match[str]) -> int | float:
        if len(found[0]) > _NUMBER_DIGITS_MAX:
            self.at = found.start()
            self.fail("a number too long", f"at most {_NUMBER_DIGITS_MAX} digits")
        if found[2] or found[3]:
            value = float(found[1] + (found[2] or "") + (found[3] or ""))
            if not math.isfinite(value):
                self.at = found.start()
                self.fail("a number too large", f"at most {sys.float_info.max}")
            return value
        return int(found[1])

    def object(self, depth: int) -> dict[Any, Any]:
        self.at += 1
        pairs: dict[Any, Any] = {}
        while True:
            self.skip(_COMMAS)
            if self.text.startswith("}", self.at):
                self.at += 1
                return pairs
            key = self.key(depth)
            self.skip(_SPACE)
            if not self.text.startswith(":", self.at):
                self.fail("a name without a value", ":")
            self.at += 1
            self.skip(_SPACE)
            pairs[key] = self.value(depth + 1)
            self.end_of_item("}")

    def array(self, depth: int) -> list[Any]:
        self.at += 1
        items: list[Any] = []
        while True:
            self.skip(_COMMAS)
            if self.text.startswith("]", self.at):
                self.at += 1
                return items
            items.append(self.value(depth + 1))
            self.end_of_item("]")

    def end_of_item(self, closing: str) -> None:
        self.skip(_SPACE)
        if self.text[self.at : self.at + 1] not in (",", closing):
            self.fail("an item does not end", f", or {closing}")

    def key(self, depth: int) -> Key:
        if self.text[self.at : self.at + 1] in ('"', "'"):
            return self.string()
        if self.text.startswith("{", self.at):
            return self.object_key(depth)
        number = self.match(_INT_KEY)
        if number:
            if len(number[0]) > _NUMBER_DIGITS_MAX:
                self.at = number.start()
                self.fail("a number too long", f"at most {_NUMBER_DIGITS_MAX} digits")
            return int(number[0])
        name = self.match(_NAME)
        return name[0] if name else self.fail("no name starts here", "a name")

    def object_key(self, depth: int) -> Key:
        """An object in the place of a name; its values are texts and numbers."""
        start = self.at
        pairs = tuple(self.value(depth + 1).items())
        if not all(isinstance(value, str | int | float) for _, value in pairs):
            self.at = start
            self.fail("an object that cannot be a name", "texts and numbers in it")
        return pairs

    def string(self) -> str:
        found = self.match(_STRING)
        if not found:
            self.fail("a string does not end", "a quote")
        raw = found[1] if found[1] is not None else found[2]
        return _ESCAPE.sub(_unescape, raw) if "\\" in raw else raw


def _unescape(found: re.Match[str]) -> str:
    high, low, unit, byte, letter = found.groups()
    if high:
        return chr(0x10000 + (int(high, 16) - 0xD800) * 0x400 + int(low, 16) - 0xDC00)
    if unit:
        # half of a surrogate pair, which Java writes as U+FFFD
        return "\ufffd" if 0xD800 <= int(unit, 16) < 0xE000 else chr(int(unit, 16))
    if byte:
        return chr(int(byte, 16))
    return _LETTERS.get(letter, letter) if letter else "\\"
