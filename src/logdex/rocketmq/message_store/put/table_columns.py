"""The columns of a table to put, each with the type that its values must have.

A column of another type is a `UsageError` that says which one it is.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from logdex.errors import UsageError
from logdex.frames.times import milliseconds_hint
from logdex.rocketmq.message.properties import KEY_SEPARATOR

Int64s = npt.NDArray[np.int64]


class Bytes(NamedTuple):
    """A column of texts or bytes: value i is `data[offsets[i] : offsets[i + 1]]`."""

    data: npt.NDArray[np.uint8]
    offsets: Int64s

    @property
    def sizes(self) -> Int64s:
        """The size of each value."""
        return np.diff(self.offsets)


_LISTS = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
"""Not views of lists: PyArrow 26 casts those with nulls to other elements."""
_KEY_LISTS = pa.list_(pa.large_binary())
"""Arrow joins nullable elements only."""
NOTHING = np.zeros(8, np.uint8)


def column_of(table: pa.Table | pa.RecordBatch, name: str) -> Any:
    """A column as one array."""
    column = table.column(name)
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def texts_of(table: pa.Table | pa.RecordBatch, name: str) -> Any:
    """A column of texts or bytes, perhaps as a dictionary, as large_binary."""
    return _as_type(column_of(table, name), name, pa.large_binary(), "texts or bytes")


def numbered_texts(table: pa.Table | pa.RecordBatch, name: str) -> Any:
    """A column of texts or bytes as a dictionary of large_binary."""
    column = column_of(table, name)
    try:
        column = column.dictionary_encode()
    except pa.ArrowException:
        return texts_of(table, name)  # tells what is wrong
    texts = _as_type(column.dictionary, name, pa.large_binary(), "texts or bytes")
    return pa.DictionaryArray.from_arrays(column.indices, texts)


def numbers_of(table: pa.Table | pa.RecordBatch, name: str) -> Any:
    """A column of whole numbers as int64. Times are none: their numbers count another unit."""
    column = column_of(table, name)
    values = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if pa.types.is_temporal(values) or pa.types.is_boolean(values):
        hint = milliseconds_hint(values)
        raise UsageError(f"the column {name} is {column.type}, and must have whole numbers", hint=hint)
    return _as_type(column, name, pa.int64(), "whole numbers")


def _as_type(column: Any, name: str, kind: pa.DataType, wanted: str) -> Any:
    try:
        if pa.types.is_dictionary(column.type):
            column = column.dictionary_decode()
        return column.cast(kind)
    except pa.ArrowException as error:
        raise UsageError(
            f"the column {name} is {column.type}, and must have {wanted}: {error}", hint=f"cast it before: {kind}"
        ) from None


def bytes_of(column: Any, count: int) -> Bytes:
    """A column of large_binary with `count` rows. A null is empty."""
    column = column.fill_null(b"")
    _, offsets, data = column.buffers()
    found = np.frombuffer(offsets, np.int64, count + 1, 8 * column.offset)
    return Bytes(np.frombuffer(data, np.uint8) if data is not None and data.size else NOTHING, found)


def maps_of(table: pa.Table | pa.RecordBatch) -> Any:
    """The properties of each row, as maps of texts or bytes."""
    column = column_of(table, "properties")
    if not pa.types.is_map(column.type) and not pa.types.is_null(column.type):
        raise UsageError(f"the column properties is {column.type}", hint="make it a map of strings")
    return column


def _require_single_keys(keys: Any) -> None:
    """Raises `UsageError` for a key with a space: readers would find several in place of it."""
    has_space = pc.match_substring(keys, KEY_SEPARATOR)
    if pc.any(has_space).as_py():
        found = keys.filter(has_space)[0].as_py().decode("utf-8", "backslashreplace")
        raise UsageError(
            f"the column keys has a key with a space in it, {found!r}, and spaces separate keys in RocketMQ",
            hint="make several keys of it, or put another character in place of the space",
        )


def keys_of(table: pa.Table | pa.RecordBatch) -> Any:
    """The KEYS of each row, null where it has none."""
    column = column_of(table, "keys")
    if any(is_kind(column.type) for is_kind in _LISTS):
        if column.flatten().null_count:
            raise UsageError("the column keys has a null among the keys of a row", hint="leave the nulls out")
        try:
            lists = column.cast(_KEY_LISTS)
        except pa.ArrowException as error:
            raise UsageError(
                f"the column keys is {column.type}, and must have texts: {error}", hint="cast it before"
            ) from None
        _require_single_keys(lists.flatten())
        column = pc.binary_join(lists, pa.scalar(KEY_SEPARATOR, pa.large_binary()))
    column = _as_type(column, "keys", pa.large_binary(), "texts or bytes")
    is_empty = pc.equal(pc.binary_length(column), 0)
    return pc.if_else(is_empty, pa.scalar(None, pa.large_binary()), column) if pc.any(is_empty).as_py() else column
