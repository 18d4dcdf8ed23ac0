"""Cells: the texts of a column, which rows of cells are made of (`logdex.kernels.common.rows`), or
which are there already, one after the other, with the end of each. Here they are joined to lists.

Nothing here checks bounds: the caller gives room for the longest text that each cell can have, and
for `vectors.SLACK` bytes behind the last (`logdex.arrow_text.cells`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from logdex.kernels.common.memory import load_u8, store_u8
from logdex.kernels.common.vectors import copy_steps
from logdex.kernels.compiled import inlined_kernel, kernel

Int64s = npt.NDArray[np.int64]
Flags = npt.NDArray[np.uint8]

# What the text of a column is made of.
NOTHING, INT32, INT64, TIME, BASE64, JSON_TEXT, SHOWN, TEXTS = range(8)


class Column(NamedTuple):
    """The texts of a column. `kind` is what they are made of; `literal` is before each.

    `data` and `ends` are the addresses of an Arrow array's values or bytes and of its offsets; of
    texts that are there already (`TEXTS`), the ends are int64 and without the 0 of the first begin,
    and `numbers` is the address of the number of each row's text (0: there is one per row). `valid`
    is a bitmap (0: no cell is null) and `first` the bit of the first row. `null` is the text
    without a value, `before` the one before each value. `option` depends on the kind. The last
    fields are for the kernel, which keeps the last day and its date there.

    Texts have an address and a size, and `vectors.SLACK` readable bytes behind them.
    """

    kind: int
    literal: int = 0
    literal_size: int = 0
    data: int = 0
    ends: int = 0
    numbers: int = 0
    valid: int = 0
    first: int = 0
    null: int = 0
    null_size: int = 0
    before: int = 0
    before_size: int = 0
    option: int = 0
    day: int = 1 << 62
    date: int = 0
    date_end: int = 0


(
    KIND,
    LITERAL,
    LITERAL_SIZE,
    DATA,
    ENDS,
    NUMBERS,
    VALID,
    FIRST,
    NULL,
    NULL_SIZE,
    BEFORE,
    BEFORE_SIZE,
    OPTION,
    DAY,
    DATE,
    DATE_END,
) = range(0, 8 * len(Column._fields), 8)
COLUMN_BYTES = DATE_END + 8
"""The places of the fields in a table of int64, in bytes."""


@inlined_kernel
def hex_digit(value: int) -> int:
    """The digit of a value below 16, as a byte."""
    return value + 0x30 if value < 10 else value + 0x57


@inlined_kernel
def put_character(at: int, place: int, size: int) -> int:
    """Copies a character of 1 to 4 bytes. Returns the address behind it."""
    store_u8(at, load_u8(place))
    if size > 1:
        store_u8(at + 1, load_u8(place + 1))
        if size > 2:
            store_u8(at + 2, load_u8(place + 2))
            if size > 3:
                store_u8(at + 3, load_u8(place + 3))
    return at + size


@kernel
def list_cells(
    offsets: Int64s,
    valid: Flags,
    cells: int,
    cell_ends: Int64s,
    opening: int,
    opening_size: int,
    separator: int,
    separator_size: int,
    closing: int,
    closing_size: int,
    null: int,
    null_size: int,
    empty_is_nothing: int,
    out: int,
    ends: Int64s,
) -> None:
    """Writes lists of cells. `offsets` are numbers of cells, from the first one of the column on;
    `valid` is empty if no list is null."""
    at = out
    for i in range(len(ends)):
        if len(valid) and not valid[i]:
            at = copy_steps(at, null, null_size)
        elif not empty_is_nothing or offsets[i] < offsets[i + 1]:
            at = copy_steps(at, opening, opening_size)
            for j in range(offsets[i], offsets[i + 1]):
                if j > offsets[i]:
                    at = copy_steps(at, separator, separator_size)
                begin = cell_ends[j - 1] if j else 0
                at = copy_steps(at, cells + begin, cell_ends[j] - begin)
            at = copy_steps(at, closing, closing_size)
        ends[i] = at - out
