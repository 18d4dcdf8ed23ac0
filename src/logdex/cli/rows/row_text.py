"""A row as text: as a line, by a template, as columns, as JSON. One function each, for all
formats."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from logdex.cli.output import json_text, shown, shown_start
from logdex.cli.rows.row_options import RowOptions, Values
from logdex.cli.rows.shape import Cell, Pair, Row, RowShape
from logdex.cli.rows.template import compile_template
from logdex.cli.rows.value_text import RawJson, json_value_of, text_of
from logdex.primitives.text import utf8_or_none

DECODED = "decoded"
"""The field with what a row of a broker's own topic means."""

_VALUE_LETTERS = "sv"
"""The letters of a template that stand for the value; what it means, if rows are decoded."""


def renderer(shape: RowShape[Row], options: RowOptions) -> Callable[[Row], str]:
    """Returns the function that makes the text of a row, as the options say, line ends included.
    Raises `UsageError` for a template or columns that do not fit the rows."""
    if options.template is not None:
        return _by_template(shape, options, options.template)
    if options.columns is not None:
        check_columns(shape, options)
    if options.as_json:
        line = json_line if options.values is Values.JSON else json_text
        return lambda row: line(json_fields(shape, options, row)) + "\n"
    if options.columns is not None:
        return lambda row: _columns_line(shape, options, row) + "\n"
    return lambda row: _line(shape, options, row) + "\n"


def _line(shape: RowShape[Row], options: RowOptions, row: Row) -> str:
    parts, decoded = shape.line(row), shape.decode(row) if options.decode else None
    if decoded is not None:
        parts.append(shown(json_text(decoded)))
    elif options.values is not Values.NONE:
        parts.append(_shown_value(shape.contents[shape.value_field](row), options))
    return "  ".join(parts)


def _shown_value(value: bytes | None, options: RowOptions) -> str:
    if value is None:
        return "null"
    text = value if options.values in (None, Values.TEXT) else text_of(value, options.values)
    return shown(text) if options.is_full else shown_start(text)


def _by_template(shape: RowShape[Row], options: RowOptions, template: str) -> Callable[[Row], str]:
    fill, how = compile_template(template, shape.letters), options.values or Values.TEXT

    def text(row: Row, letter: str) -> str:
        decoded = shape.decode(row) if options.decode and letter in _VALUE_LETTERS else None
        return _cell_text(shape.letters[letter](row), how) if decoded is None else shown(json_text(decoded))

    return lambda row: fill(lambda letter: text(row, letter))


def _cell_text(cell: Cell, how: Values) -> str:
    if isinstance(cell, bytes):
        return text_of(cell, how)
    return "" if cell is None else shown(str(cell))


def pairs_text(pairs: list[Pair]) -> str:
    """Returns headers or properties as ``name=value,name=value``, as kcat prints them."""
    return ",".join(f"{shown(name)}={'' if value is None else shown(value)}" for name, value in pairs)


def check_columns(shape: RowShape[Row], options: RowOptions) -> None:
    """Raises `UsageError` for a column that is no field of the rows."""
    names = (*shape.names, *((DECODED,) if options.decode else ()))
    for name in options.columns or ():
        shape.require_field(name, names)


def json_fields(shape: RowShape[Row], options: RowOptions, row: Row) -> dict[str, Any]:
    """Returns a row as JSON, with the fields that the options ask for.

    By default contents are base64, and text in a field of their own. With `values` they are what it
    says, and those of NONE are left out.
    """
    fields, how = shape.to_json(row), options.values
    if how is None:
        for name, of in shape.contents.items():
            fields[f"{name}_text"] = utf8_or_none(of(row))
    elif how is Values.NONE:
        del fields[shape.value_field]
    elif how is not Values.BASE64:
        for name, of in shape.contents.items():
            fields[name] = json_value_of(of(row), how)
        if shape.pairs_are_bytes:
            fields[shape.pairs_field] = [[name, json_value_of(value, how)] for name, value in shape.pairs(row)]
    if options.decode:
        fields[DECODED] = shape.decode(row)
    if options.columns is None:
        return fields
    return {name: _field(shape, options, row, fields, name) for name in options.columns}


def _field(shape: RowShape[Row], options: RowOptions, row: Row, fields: dict[str, Any], name: str) -> Any:
    """Returns one field of a row; of headers or properties the first value with a name."""
    if name in fields:
        return fields[name]
    field, _, wanted = name.partition(".")
    if field == shape.pairs_field:
        how = options.values if shape.pairs_are_bytes else None
        return json_value_of(shape.pair(row, wanted), how or Values.TEXT)
    return None if name in shape.contents else utf8_or_none(shape.contents[name.removesuffix("_text")](row))


def _columns_line(shape: RowShape[Row], options: RowOptions, row: Row) -> str:
    how, fields = options.values or Values.TEXT, shape.to_json(row)
    cells = []
    for name in options.columns or ():
        content = name.removesuffix("_text")
        if content in shape.contents:
            cells.append(_cell_text(shape.contents[content](row), how if name == content else Values.TEXT))
        elif name == DECODED:
            cells.append(shown(json_text(shape.decode(row))))
        elif name == shape.pairs_field:
            cells.append(pairs_text(shape.pairs(row)))
        else:
            cells.append(_plain_text(_field(shape, options, row, fields, name)))
    return "\t".join(cells)


def _plain_text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return ",".join(map(_plain_text, value))
    return "" if value is None else shown(str(value))


def json_line(fields: dict[str, Any]) -> str:
    """Returns one line of JSON. A `RawJson` stands in it as it is."""
    return "{" + ", ".join(f"{json_text(name)}: {_json(fields[name])}" for name in fields) + "}"


def _json(value: Any) -> str:
    if isinstance(value, RawJson):
        return str(value)
    if isinstance(value, list):
        return "[" + ", ".join(map(_json, value)) + "]"
    return json_text(value)
