"""Reads Kafka's protocol messages by a schema: a line of text that lists their fields.

A schema is ``NAME TYPE``, separated by commas. A TYPE is a number (``int8``, ``uint16``,
``float64``), ``bool``, ``string``, ``bytes``, ``uuid``, an array ``[TYPE]`` or a structure
``{SCHEMA}``; ``?`` before it says that it may be null. ``@2`` behind it says that the field is
there from version 2 on, ``@1-1`` in version 1 alone, ``#0`` that it is a tagged field with that
number: one that stands at the end, and only if it has not its default.

Source: Kafka's protocol guide, MessageGenerator.
"""

from __future__ import annotations

import base64
import math
import re
import struct
from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple

from logdex.kafka.files.metadata_files import uuid_to_text
from logdex.kafka.internal_topics.message_reader import MessageReader

_TOKEN = re.compile(r"[\w-]+|[\[\]{},?@#]")
_VERSION_MAX = 1 << 15
_INTEGERS = {"int8": 1, "int16": 2, "int32": 4, "int64": 8}


class Kind(NamedTuple):
    """A type. `name` is that of a simple one, or ``[`` with `element`, or ``{`` with `fields`."""

    name: str
    is_nullable: bool = False
    element: Kind | None = None
    fields: tuple[Field, ...] = ()


class Field(NamedTuple):
    """A field, which is there in the versions from `first` to `last`."""

    name: str
    kind: Kind
    first: int = 0
    last: int = _VERSION_MAX
    tag: int | None = None


@cache
def parse_schema(text: str) -> tuple[Field, ...]:
    """Returns the fields that a schema lists."""
    return tuple(_fields(iter([*_TOKEN.findall(text), "}"])))


def _fields(tokens: Iterator[str]) -> Iterator[Field]:
    token = next(tokens)
    while token != "}":
        name, kind = token, _kind(tokens)
        first, last, tag = 0, _VERSION_MAX, None
        while (token := next(tokens)) not in {",", "}"}:
            if token == "#":
                tag = int(next(tokens))
            else:
                begin, _, end = next(tokens).partition("-")
                first, last = int(begin), int(end or last)
        yield Field(name, kind, first, last, tag)
        if token == ",":
            token = next(tokens)


def _kind(tokens: Iterator[str]) -> Kind:
    token = next(tokens)
    if is_nullable := token == "?":
        token = next(tokens)
    if token == "{":
        return Kind(token, is_nullable, fields=tuple(_fields(tokens)))
    if token == "[":
        kind = Kind(token, is_nullable, _kind(tokens))
        next(tokens)  # ]
        return kind
    return Kind(token, is_nullable)


def read_message(reader: MessageReader, fields: tuple[Field, ...], version: int) -> dict[str, Any]:
    """Returns the fields of a structure, by name. A tagged field that has its default, and is not
    written then, is left out. Raises `ValueError` for truncated or invalid bytes."""
    there = [field for field in fields if field.first <= version <= field.last]
    found = {field.name: _value(reader, field.kind, version) for field in there if field.tag is None}
    tagged = {field.tag: field for field in there if field.tag is not None}
    for tag, data in reader.tagged_fields():
        if (field := tagged.get(tag)) is not None:
            found[field.name] = _value(MessageReader(data, flexible=True), field.kind, version)
    return found


def _value(reader: MessageReader, kind: Kind, version: int) -> Any:
    if kind.name in _INTEGERS:
        return reader.integer(_INTEGERS[kind.name])
    if kind.name == "string":
        return reader.string() if kind.is_nullable else reader.text()
    if kind.name == "uuid":
        return uuid_to_text(reader.uuid())
    if kind.name == "{":
        if kind.is_nullable and reader.integer(1) <= 0:  # null is -1, and 0 in a tagged field
            return None
        return read_message(reader, kind.fields, version)
    if kind.name == "[":
        assert kind.element is not None
        count = reader.nullable_array_size()
        return None if count is None else [_value(reader, kind.element, version) for _ in range(count)]
    if kind.name == "bytes":
        data = reader.byte_string()
        return None if data is None else base64.b64encode(data).decode()
    number = reader.integer(8 if kind.name == "float64" else 2 if kind.name == "uint16" else 1)
    if kind.name == "float64":
        (value,) = struct.unpack(">d", struct.pack(">q", number))
        return value if math.isfinite(value) else str(value)
    return bool(number) if kind.name == "bool" else number & 0xFFFF
