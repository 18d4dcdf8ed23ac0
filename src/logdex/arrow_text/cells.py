"""Columns of Arrow as cells, texts one after the other, and cells joined to lines."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from logdex.kernels.common import cells as kernels
from logdex.kernels.common.cells import Flags, Int64s

ROWS = 2_048
"""So many rows are written at a time, so that their text stays in the processor's cache."""

Text = npt.NDArray[np.uint8]

_NONE = np.zeros(0, np.int64)
_ALL_VALID = np.zeros(0, np.uint8)
_NULL = "null"


class Cells(NamedTuple):
    """Texts one after the other, where each ends, and of each row the number of its text; empty if
    there is one per row."""

    data: Text
    ends: Int64s
    numbers: Int64s = _NONE


@cache
def literal(text: str) -> Text:
    """Returns text as an array of bytes."""
    return np.frombuffer(text.encode(), np.uint8)


def join(literals: Sequence[str], cells: Sequence[Cells], rows: int) -> Cells:
    """Joins the cells of each row, with a literal before each and one behind the last."""
    behind = Cells(np.zeros(1, np.uint8), np.zeros(1, np.int64), np.zeros(rows, np.int64))
    sizes, parts = np.zeros(rows, np.int64), [*zip(map(literal, literals), [*cells, behind], strict=True)]
    for text, each in parts:
        kernels.add_sizes(sizes, len(text), each.ends, each.numbers)
    ends = np.cumsum(sizes)
    places, out = ends - sizes, np.empty(max(int(ends[-1]) if rows else 0, 1), np.uint8)
    for text, each in parts:
        kernels.put_cells(
            out.ctypes.data, places, text.ctypes.data, len(text), each.data.ctypes.data, each.ends, each.numbers
        )
    return Cells(out, ends)


Parts = Sequence[tuple[str, Cells]]
"""The cells of a line, each with the text before it."""


def lines(batch: pa.RecordBatch, parts_of: Callable[[pa.RecordBatch], Parts], end: str) -> Iterator[memoryview]:
    """Yields the rows of a batch as lines, in pieces."""
    for at in range(0, batch.num_rows, ROWS):
        part = batch.slice(at, ROWS)
        literals, cells = zip(*parts_of(part), strict=True)
        yield memoryview(join((*literals, end), cells, part.num_rows).data)  # type: ignore[arg-type]  # a buffer


def valid_of(array: pa.Array) -> Flags:
    """Returns which elements are not null; empty if none is."""
    return np.asarray(array.is_valid()).astype(np.uint8) if array.null_count else _ALL_VALID


def offsets_of(array: pa.Array) -> Int64s:
    """Returns the offsets of texts or lists."""
    offsets = np.frombuffer(array.buffers()[1], np.int32, len(array) + 1, array.offset * 4)
    return offsets.astype(np.int64)


def elements_of(array: pa.Array, column: pa.Array) -> pa.Array:
    """Returns the elements of the lists of an array, without those of lists before and behind it
    that share their `column`."""
    offsets = offsets_of(array)
    return column.slice(int(offsets[0]), int(offsets[-1] - offsets[0]))


def address_of(array: pa.Array) -> int:
    """Returns where the bytes of texts begin."""
    data = array.buffers()[2]
    return 0 if data is None else int(data.address)


def int_cells(array: pa.Array) -> Cells:
    """Returns whole numbers in decimal."""
    values = array.fill_null(0).cast(pa.int64()).to_numpy(zero_copy_only=False)
    out, ends = np.empty(kernels.DIGITS_MAX * max(len(array), 1), np.uint8), np.empty(len(array), np.int64)
    kernels.int_cells(np.ascontiguousarray(values), valid_of(array), out.ctypes.data, ends)
    return Cells(out, ends)


def dictionary_cells(array: pa.DictionaryArray, cells_of: Callable[[pa.Array], Cells]) -> Cells:
    """Returns the cells of a dictionary, which rows share."""
    found = cells_of(array.dictionary)
    numbers = array.indices.fill_null(0).cast(pa.int64()).to_numpy(zero_copy_only=False)
    if not array.null_count:
        return Cells(found.data, found.ends, numbers)
    size = int(found.ends[-1]) if len(found.ends) else 0
    data = np.concatenate([found.data[:size], literal(_NULL)])
    ends = np.append(found.ends, size + len(_NULL))
    is_null = array.is_null().to_numpy(zero_copy_only=False)
    return Cells(data, ends, np.where(is_null, len(ends) - 1, numbers))


def list_cells(array: pa.Array, cells: Cells, around: tuple[str, str, str], *, empty_is_nothing: bool = False) -> Cells:
    """Returns lists of the cells of an array's elements. `around` are what opens, parts and closes
    a list."""
    offsets, ends = offsets_of(array), np.empty(len(array), np.int64)
    offsets -= offsets[0]
    count = int(offsets[-1])
    size = int(cells.ends[-1]) if len(cells.ends) else 0
    opening, separator, closing = map(literal, around)
    ends_size = len(opening) + len(closing) + len(_NULL)
    out = np.empty(size + len(separator) * count + ends_size * max(len(array), 1), np.uint8)
    texts = [each for text in (opening, separator, closing) for each in (text.ctypes.data, len(text))]
    kernels.list_cells(
        offsets,
        valid_of(array),
        cells.data.ctypes.data,
        cells.ends,
        *texts,
        int(empty_is_nothing),
        out.ctypes.data,
        ends,
    )
    return Cells(out, ends)
