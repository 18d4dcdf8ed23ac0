"""Arrow batches as lines of JSON, as `json.dumps` writes the rows: bytes as base64, text of
columns of bytes in fields of its own."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from logdex.arrow_text.cells import (
    Cells,
    Parts,
    Rooms,
    Texts,
    bytes_cells,
    dictionary_cells,
    elements_of,
    flag_cells,
    int_cells,
    join,
    lines,
    list_cells,
    offsets_of,
)
from logdex.kernels.common import cells as kernels
from logdex.kernels.common.json_text import ESCAPED_MAX, INVALID_IS_ESCAPED, INVALID_IS_NULL
from logdex.kernels.compiled import add_plain_work, is_plain_quicker
from logdex.primitives.text import utf8_or_none

_LIST = ("[", ", ", "]")
_PLAIN_ROW_US = 20


class JsonLines:
    """Writes batches of a schema. `texts` are columns of bytes whose text follows behind the other
    fields, as NAME_text: null if it is no UTF-8. Threads may share an object."""

    def __init__(self, schema: pa.Schema, texts: Sequence[str] = ()) -> None:
        names = [*schema.names, *(f"{name}_text" for name in texts)]
        self._literals = [f"{', ' if number else '{'}{json.dumps(name)}: " for number, name in enumerate(names)]
        self._texts = tuple(texts)

    def lines(self, batch: pa.RecordBatch, rooms: Rooms | None = None) -> memoryview:
        """Returns the lines of a batch, each with its end. Whoever has used them may give their
        memory back to `rooms`."""
        if is_plain_quicker():
            add_plain_work(_PLAIN_ROW_US * batch.num_rows)
            return memoryview(self.plain_lines(batch))
        return lines(batch, self._parts, "}\n", rooms)

    def plain_lines(self, batch: pa.RecordBatch) -> bytes:
        """The plain twin of `lines`."""
        kinds, texts = [*zip(batch.schema.names, batch.schema.types, strict=True)], []
        for row in batch.to_pylist():
            fields = {name: _plain(kind, row[name]) for name, kind in kinds}
            fields |= {f"{name}_text": utf8_or_none(row[name]) for name in self._texts}
            texts.append(f"{json.dumps(fields, ensure_ascii=False)}\n")
        return "".join(texts).encode()

    def _parts(self, batch: pa.RecordBatch) -> Parts:
        texts = [_text_cells(batch.column(name), INVALID_IS_NULL) for name in self._texts]
        return [*zip(self._literals, [*map(_cells, batch.columns), *texts], strict=True)]


def _plain(kind: pa.DataType, value: Any) -> Any:
    """Returns a value of an Arrow column as `json.dumps` takes it."""
    if value is None:
        return None
    if pa.types.is_binary(kind):
        return b64encode(value).decode()
    if pa.types.is_map(kind):
        return dict(value)
    if pa.types.is_list(kind) and pa.types.is_struct(kind.value_type):
        pairs = (tuple(each.values()) for each in value)
        return [[name.decode("utf-8", "backslashreplace"), _plain(pa.binary(), data)] for name, data in pairs]
    return value


# -- columns -------------------------------------------------------------------------------------
def _cells(array: pa.Array) -> Cells:
    """Returns the JSON of each element."""
    kind = array.type
    if pa.types.is_dictionary(kind):
        return dictionary_cells(array, _cells)
    if pa.types.is_binary(kind):
        return _base64_cells(array)
    if pa.types.is_string(kind):
        return _text_cells(array, INVALID_IS_ESCAPED)
    if pa.types.is_integer(kind):
        return int_cells(array)
    if pa.types.is_boolean(kind):
        return flag_cells(array)
    if pa.types.is_map(kind):
        return list_cells(array, lambda: _map_pairs(array), ("{", ", ", "}"))
    if pa.types.is_list(kind) and pa.types.is_struct(kind.value_type):
        return list_cells(array, lambda: _list_pairs(array), _LIST)
    assert pa.types.is_list(kind), kind
    return list_cells(array, lambda: _elements(array), _LIST)


def _map_pairs(array: pa.Array) -> Texts:
    names, values = elements_of(array, array.keys), elements_of(array, array.items)
    return join(("", ": ", ""), [_cells(names), _cells(values)], len(names))


def _list_pairs(array: pa.Array) -> Texts:
    names, values = elements_of(array, array.values).flatten()
    return join(_LIST, [_text_cells(names, INVALID_IS_ESCAPED), _cells(values)], len(names))


def _elements(array: pa.Array) -> Texts:
    elements = elements_of(array, array.values)
    return join(("", ""), [_cells(elements)], len(elements))


def _base64_cells(array: pa.Array) -> Cells:
    return bytes_cells(kernels.BASE64, array, _size_of(array) // 3 * 4 + 6 * len(array))


def _text_cells(array: pa.Array, invalid: int) -> Cells:
    return bytes_cells(kernels.JSON_TEXT, array, ESCAPED_MAX * _size_of(array) + 2 * len(array), option=invalid)


def _size_of(array: pa.Array) -> int:
    offsets = offsets_of(array)
    return int(offsets[-1] - offsets[0])
