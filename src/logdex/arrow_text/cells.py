"""Columns of Arrow as cells, and cells joined to rows of text."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from logdex.kernels.common import cells as kernels
from logdex.kernels.common.cells import Column, Flags, Int64s
from logdex.kernels.common.digits import DIGITS_MAX
from logdex.kernels.common.rows import put_rows
from logdex.kernels.common.vectors import SLACK

Text = npt.NDArray[np.uint8]

_ALL_VALID = np.zeros(0, np.uint8)
_NULL = "null"
_SLACK = bytes(SLACK)
_ROOMS_KEPT = 64


class Literal(NamedTuple):
    """A text as the kernels take it."""

    data: Text
    size: int

    @property
    def address(self) -> int:
        """Where it begins."""
        return int(self.data.ctypes.data)


class Cells(NamedTuple):
    """How the texts of a column are made.

    `room` is how many bytes those of all rows take at most. `keeps` holds what the column has
    addresses of. `same` is the text that all rows have, if they have one.
    """

    column: Column
    room: int
    keeps: tuple[Any, ...] = ()
    same: bytes | None = None


class Texts(NamedTuple):
    """Texts one after the other, and where each ends."""

    data: Text
    ends: Int64s


class Rooms:
    """Memory for texts that are used and given back again and again, by several threads."""

    def __init__(self) -> None:
        self._free = deque[Text](maxlen=_ROOMS_KEPT)

    def take(self, size: int) -> Text:
        """Returns at least `size` bytes, which may hold anything."""
        try:
            found = self._free.pop()
        except IndexError:
            return np.empty(size, np.uint8)
        return found if len(found) >= size else np.empty(size, np.uint8)

    def give_back(self, text: memoryview) -> None:
        """Takes back the memory of a text."""
        made = text.obj
        if isinstance(made, np.ndarray) and made.base is not None:
            self._free.append(made.base)


def literal(text: str | bytes) -> Literal:
    """Returns a text as the kernels take it."""
    data = text.encode() if isinstance(text, str) else text
    return Literal(np.frombuffer(data + _SLACK, np.uint8), len(data))


_literal = cache(literal)
"""For texts of the program, not of a log."""

_END = Cells(Column(kernels.NOTHING), 0)

Parts = Sequence[tuple[str, Cells]]
"""The cells of a line, each with the text before it."""


def join(literals: Sequence[str], cells: Sequence[Cells], rows: int) -> Texts:
    """Joins the cells of each row, with a literal before each and one behind the last."""
    table = _table(literals, cells, rows)
    out, ends = np.empty(table.room, np.uint8), np.empty(rows, np.int64)
    put_rows(table.columns.ctypes.data, len(table.columns), rows, out.ctypes.data, ends.ctypes.data)
    return Texts(out, ends)


def lines(
    batch: pa.RecordBatch, parts_of: Callable[[pa.RecordBatch], Parts], end: str, rooms: Rooms | None = None
) -> memoryview:
    """Returns the rows of a batch as lines. Whoever has used them may give their memory back to
    `rooms`."""
    if not batch.num_rows:
        return memoryview(b"")
    rows, (texts, cells) = batch.num_rows, zip(*parts_of(batch), strict=True)
    table = _table((*texts, end), cells, rows)
    out = (rooms or Rooms()).take(table.room)
    size = put_rows(table.columns.ctypes.data, len(table.columns), rows, out.ctypes.data, 0)
    return memoryview(out[:size])  # type: ignore[arg-type]  # a buffer


class _Table(NamedTuple):
    """The columns for the kernel, how much room their text needs, and what they have addresses
    of."""

    columns: Int64s
    room: int
    keeps: tuple[Any, ...]


def _table(literals: Sequence[str], cells: Sequence[Cells], rows: int) -> _Table:
    """Returns the table of cells, with a literal before each and one behind the last. Cells that
    are the same in all rows become parts of the literals."""
    columns, keeps, room, before = list[Column](), list[Any](), SLACK, b""
    for text, each in zip(literals, [*cells, _END], strict=True):
        before += text.encode()
        if each.same is not None:
            before += each.same
            continue
        made = literal(before)
        columns.append(each.column._replace(literal=made.address, literal_size=made.size))
        keeps += [made, each.keeps]
        room += made.size * rows + each.room
        before = b""
    return _Table(np.array(columns, np.int64), room, tuple(keeps))


# -- columns of Arrow ------------------------------------------------------------------------------
def valid_of(array: pa.Array) -> Flags:
    """Returns which elements are not null; empty if none is."""
    return np.asarray(array.is_valid()).astype(np.uint8) if array.null_count else _ALL_VALID


def offsets_of(array: pa.Array) -> npt.NDArray[np.int32]:
    """Returns the offsets of texts or lists."""
    return np.frombuffer(array.buffers()[1], np.int32, len(array) + 1, array.offset * 4)


def elements_of(array: pa.Array, column: pa.Array) -> pa.Array:
    """Returns the elements of the lists of an array, without those of lists before and behind it
    that share their `column`."""
    offsets = offsets_of(array)
    return column.slice(int(offsets[0]), int(offsets[-1] - offsets[0]))


def bytes_cells(
    kind: int, array: pa.Array, room: int, *, before: str = "", null: str = _NULL, option: int = 0
) -> Cells:
    """Returns texts that are made of bytes, with the text `before` each, and `null` for none."""
    rows, nulls, behind, none = len(array), array.null_count, _literal(before), _literal(null)
    if rows and nulls == rows:
        return same_cells(null)
    valid, offsets, data = array.buffers()
    column = Column(
        kind,
        data=0 if data is None else data.address,
        ends=offsets.address + 4 * array.offset,
        valid=valid.address if nulls else 0,
        first=array.offset,
        null=none.address,
        null_size=none.size,
        before=behind.address,
        before_size=behind.size,
        option=option,
    )
    return Cells(column, room + (behind.size + none.size) * rows, (array,))


def number_cells(kind: int, array: pa.Array, room: int, option: int = 0, *, null: str = _NULL) -> Cells:
    """Returns texts that are made of numbers of 32 or 64 bits."""
    rows, nulls, none, values = len(array), array.null_count, _literal(null), _values_of(array)
    if rows and nulls == rows:
        return same_cells(null)
    column = Column(
        kind,
        data=values.ctypes.data,
        valid=array.buffers()[0].address if nulls else 0,
        first=array.offset,
        null=none.address,
        null_size=none.size,
        option=option,
    )
    return Cells(column, room + none.size * rows, (array,))


def _values_of(array: pa.Array) -> npt.NDArray[Any]:
    """Returns signed numbers, which mean nothing where they are null."""
    size = array.type.bit_width // 8
    return np.frombuffer(array.buffers()[1] or b"", f"i{size}", len(array), array.offset * size)


def _are_same(values: npt.NDArray[Any]) -> bool:
    return len(values) > 0 and values[0] == values[-1] and bool((values == values[0]).all())


def int_cells(array: pa.Array) -> Cells:
    """Returns whole numbers in decimal."""
    values, nulls = _values_of(array), array.null_count
    if not nulls and _are_same(values):
        return same_cells(str(values[0]))
    if array.type.bit_width < 32:
        array = pa.array(values.astype(np.int32), mask=~valid_of(array).astype(bool) if nulls else None)
    kind = kernels.INT64 if array.type.bit_width == 64 else kernels.INT32
    return number_cells(kind, array, DIGITS_MAX * len(array))


def same_cells(text: str | bytes) -> Cells:
    """Returns the same text for each row."""
    return Cells(Column(kernels.NOTHING), 0, (), text.encode() if isinstance(text, str) else text)


def text_cells(texts: Texts, numbers: Int64s | None = None) -> Cells:
    """Returns texts that are there already, one per row, or those with the numbers."""
    if numbers is None:
        size = int(texts.ends[-1]) if len(texts.ends) else 0
        return Cells(Column(kernels.TEXTS, data=texts.data.ctypes.data, ends=texts.ends.ctypes.data), size, (texts,))
    room = int(np.diff(texts.ends, prepend=0)[numbers].sum())
    column = Column(
        kernels.TEXTS, data=texts.data.ctypes.data, ends=texts.ends.ctypes.data, numbers=numbers.ctypes.data
    )
    return Cells(column, room, (texts, numbers))


def choice_cells(choices: Sequence[str], numbers: Int64s) -> Cells:
    """Returns for each row the text with its number."""
    ends = np.cumsum([len(text.encode()) for text in choices], dtype=np.int64)
    return text_cells(Texts(literal("".join(choices)).data, ends), np.ascontiguousarray(numbers, np.int64))


def dictionary_cells(array: pa.DictionaryArray, cells_of: Callable[[pa.Array], Cells]) -> Cells:
    """Returns the cells of a dictionary, which rows share."""
    numbers, texts = _values_of(array.indices), array.dictionary
    if not array.null_count and _are_same(numbers):
        found = join(("", ""), [cells_of(texts.slice(int(numbers[0]), 1))], 1)
        return same_cells(found.data[: found.ends[0]].tobytes())
    found = join(("", ""), [cells_of(texts)], len(texts))
    if not array.null_count:
        return text_cells(found, numbers.astype(np.int64))
    size = int(found.ends[-1]) if len(found.ends) else 0
    data = np.concatenate([found.data[:size], _literal(_NULL).data])
    ends = np.append(found.ends, size + len(_NULL))
    is_null = array.is_null().to_numpy(zero_copy_only=False)
    return text_cells(Texts(data, ends), np.where(is_null, len(ends) - 1, numbers).astype(np.int64))


def flag_cells(array: pa.BooleanArray) -> Cells:
    """Returns true and false, of flags of which none is null."""
    count, choices = array.true_count, ("false", "true")
    if count in (0, len(array)):
        return same_cells(choices[bool(count)])
    return choice_cells(choices, array.to_numpy(zero_copy_only=False))


def list_cells(
    array: pa.Array, cells_of: Callable[[], Texts], around: tuple[str, str, str], *, empty_is_nothing: bool = False
) -> Cells:
    """Returns lists of the texts of an array's elements. `around` are what opens, parts and closes
    a list."""
    offsets, ends = offsets_of(array), np.empty(len(array), np.int64)
    count = int(offsets[-1] - offsets[0])
    if not count and not array.null_count:
        return same_cells("" if empty_is_nothing else around[0] + around[2])
    cells = cells_of()
    size = int(cells.ends[-1]) if len(cells.ends) else 0
    texts = [*map(_literal, (*around, _NULL))]
    opening, separator, closing, null = (each.size for each in texts)
    room = size + separator * count + (opening + closing + null) * len(array) + SLACK
    out = np.empty(room, np.uint8)
    kernels.list_cells(
        offsets.astype(np.int64) - offsets[0],
        valid_of(array),
        cells.data.ctypes.data,
        cells.ends,
        *(value for each in texts for value in (each.address, each.size)),
        int(empty_is_nothing),
        out.ctypes.data,
        ends,
    )
    return text_cells(Texts(out, ends))
