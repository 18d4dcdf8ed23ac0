"""Arrow batches as lines of JSON, as `json.dumps` writes the rows: bytes as base64, text of
columns of bytes in fields of its own."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from logdex.kernels.common import json_text as kernels
from logdex.kernels.common.json_text import Flags, Int64s
from logdex.kernels.compiled import add_plain_work, is_plain_quicker
from logdex.primitives.text import utf8_or_none

ROWS = 2_048
"""So many rows are written at a time, so that their text stays in the processor's cache."""

_ALPHABET = np.frombuffer(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/", np.uint8)
_NONE = np.zeros(0, np.int64)
_ALL_VALID = np.zeros(0, np.uint8)
_NULL_SIZE = 4
_PLAIN_ROW_US = 20


class _Cells(NamedTuple):
    """Texts one after the other, where each ends, and of each row the number of its text; empty if
    there is one per row."""

    data: npt.NDArray[np.uint8]
    ends: Int64s
    numbers: Int64s = _NONE


class JsonLines:
    """Writes batches of a schema. `texts` are columns of bytes whose text follows behind the other
    fields, as NAME_text: null if it is no UTF-8. Threads may share an object."""

    def __init__(self, schema: pa.Schema, texts: Sequence[str] = ()) -> None:
        names = [*schema.names, *(f"{name}_text" for name in texts)]
        self._literals = [
            _literal(f"{', ' if number else '{'}{json.dumps(name)}: ") for number, name in enumerate(names)
        ]
        self._texts = tuple(texts)

    def lines(self, batch: pa.RecordBatch) -> Iterator[memoryview]:
        """Yields the lines of a batch, each with its end, in pieces."""
        if is_plain_quicker():
            add_plain_work(_PLAIN_ROW_US * batch.num_rows)
            yield memoryview(self.plain_lines(batch))
            return
        for at in range(0, batch.num_rows, ROWS):
            yield memoryview(self._lines(batch.slice(at, ROWS)))  # type: ignore[arg-type]  # arrays are buffers

    def plain_lines(self, batch: pa.RecordBatch) -> bytes:
        """The plain twin of `lines`."""
        kinds, lines = [*zip(batch.schema.names, batch.schema.types, strict=True)], []
        for row in batch.to_pylist():
            fields = {name: _plain(kind, row[name]) for name, kind in kinds}
            fields |= {f"{name}_text": utf8_or_none(row[name]) for name in self._texts}
            lines.append(f"{json.dumps(fields, ensure_ascii=False)}\n")
        return "".join(lines).encode()

    def _lines(self, batch: pa.RecordBatch) -> npt.NDArray[np.uint8]:
        columns = batch.columns
        cells = [_cells(column) for column in columns]
        cells += [_text_cells(batch.column(name), kernels.INVALID_IS_NULL) for name in self._texts]
        return _join([*self._literals, _literal("}\n")], cells, batch.num_rows).data


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


def _literal(text: str) -> npt.NDArray[np.uint8]:
    return np.frombuffer(text.encode(), np.uint8)


def _join(literals: Sequence[npt.NDArray[np.uint8]], cells: Sequence[_Cells], rows: int) -> _Cells:
    """Joins the cells of each row, with a literal before each and one behind the last."""
    behind = _Cells(np.zeros(1, np.uint8), np.zeros(1, np.int64), np.zeros(rows, np.int64))
    sizes, parts = np.zeros(rows, np.int64), [*zip(literals, [*cells, behind], strict=True)]
    for literal, each in parts:
        kernels.add_sizes(sizes, len(literal), each.ends, each.numbers)
    ends = np.cumsum(sizes)
    places, out = ends - sizes, np.empty(max(int(ends[-1]) if rows else 0, 1), np.uint8)
    for literal, each in parts:
        kernels.put_cells(
            out.ctypes.data, places, literal.ctypes.data, len(literal), each.data.ctypes.data, each.ends, each.numbers
        )
    return _Cells(out, ends)


# -- columns -------------------------------------------------------------------------------------
def _cells(array: pa.Array) -> _Cells:
    """Returns the JSON of each element."""
    kind = array.type
    if pa.types.is_dictionary(kind):
        return _dictionary_cells(array)
    if pa.types.is_binary(kind):
        return _base64_cells(array)
    if pa.types.is_string(kind):
        return _text_cells(array, kernels.INVALID_IS_ESCAPED)
    if pa.types.is_integer(kind):
        return _int_cells(array)
    if pa.types.is_boolean(kind):
        return _Cells(*_booleans(), array.cast(pa.int64()).to_numpy(zero_copy_only=False))
    if pa.types.is_map(kind):
        return _list_cells(array, _pairs(array.keys, _cells(array.keys), array.items, ("", ": ", "")), "{}")
    if pa.types.is_list(kind) and pa.types.is_struct(kind.value_type):
        names, values = array.values.flatten()
        return _list_cells(
            array, _pairs(names, _text_cells(names, kernels.INVALID_IS_ESCAPED), values, ("[", ", ", "]")), "[]"
        )
    assert pa.types.is_list(kind), kind
    return _list_cells(array, _cells(array.values), "[]")


def _pairs(names: pa.Array, name_cells: _Cells, values: pa.Array, around: tuple[str, str, str]) -> _Cells:
    return _join([_literal(text) for text in around], [name_cells, _cells(values)], len(names))


def _valid(array: pa.Array) -> Flags:
    if not array.null_count:
        return _ALL_VALID
    return np.asarray(array.is_valid()).astype(np.uint8)


def _offsets(array: pa.Array) -> Int64s:
    offsets = np.frombuffer(array.buffers()[1], np.int32, len(array) + 1, array.offset * 4)
    return offsets.astype(np.int64)


def _address_of(array: pa.Array) -> int:
    data = array.buffers()[2]
    return 0 if data is None else int(data.address)


def _int_cells(array: pa.Array) -> _Cells:
    values = array.fill_null(0).cast(pa.int64()).to_numpy(zero_copy_only=False)
    out, ends = np.empty(kernels.DIGITS_MAX * max(len(array), 1), np.uint8), np.empty(len(array), np.int64)
    kernels.int_cells(np.ascontiguousarray(values), _valid(array), out.ctypes.data, ends)
    return _Cells(out, ends)


@cache
def _booleans() -> tuple[npt.NDArray[np.uint8], Int64s]:
    return _literal("falsetrue"), np.array([5, 9])


def _dictionary_cells(array: pa.DictionaryArray) -> _Cells:
    found = _cells(array.dictionary)
    numbers = array.indices.fill_null(0).cast(pa.int64()).to_numpy(zero_copy_only=False)
    if not array.null_count:
        return _Cells(found.data, found.ends, numbers)
    size = int(found.ends[-1]) if len(found.ends) else 0
    data = np.concatenate([found.data[:size], _literal("null")])
    ends = np.append(found.ends, size + _NULL_SIZE)
    is_null = array.is_null().to_numpy(zero_copy_only=False)
    return _Cells(data, ends, np.where(is_null, len(ends) - 1, numbers))


def _base64_cells(array: pa.Array) -> _Cells:
    offsets, ends = _offsets(array), np.empty(len(array), np.int64)
    size = int(offsets[-1] - offsets[0])
    out = np.empty(size // 3 * 4 + 6 * max(len(array), 1), np.uint8)
    kernels.base64_cells(_address_of(array), offsets, _valid(array), _ALPHABET.ctypes.data, out.ctypes.data, ends)
    return _Cells(out, ends)


def _text_cells(array: pa.Array, invalid: int) -> _Cells:
    offsets, ends = _offsets(array), np.empty(len(array), np.int64)
    size = int(offsets[-1] - offsets[0])
    out = np.empty(kernels.ESCAPED_MAX * size + _NULL_SIZE * max(len(array), 1), np.uint8)
    kernels.text_cells(_address_of(array), offsets, _valid(array), invalid, out.ctypes.data, ends)
    return _Cells(out, ends)


def _list_cells(array: pa.Array, cells: _Cells, around: str) -> _Cells:
    """Returns lists of the cells of `array.values`, whose parts before the first list and behind
    the last are not used."""
    offsets, ends = _offsets(array), np.empty(len(array), np.int64)
    count = int(offsets[-1] - offsets[0])
    size = int(cells.ends[-1]) if len(cells.ends) else 0
    out = np.empty(size + 2 * count + 4 * max(len(array), 1), np.uint8)
    kernels.list_cells(
        offsets,
        _valid(array),
        cells.data.ctypes.data,
        cells.ends,
        ord(around[0]),
        ord(around[1]),
        out.ctypes.data,
        ends,
    )
    return _Cells(out, ends)
