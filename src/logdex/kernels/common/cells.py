"""Cells: texts one after the other, with the end of each. Here they are made of whole numbers and
of other cells, and joined to lines.

Nothing here checks bounds: the caller gives room for the longest text that each cell can have
(`logdex.arrow_text.cells`).

Twin: `json.dumps` and the lines of commands, which make the text of a few rows.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from logdex.kernels.common.memory import copy_bytes, store_u8
from logdex.kernels.compiled import inlined_kernel, kernel

Int64s = npt.NDArray[np.int64]
Flags = npt.NDArray[np.uint8]

DIGITS_MAX = 20


@inlined_kernel
def put_null(at: int) -> int:
    """Writes ``null``. Returns the address behind it."""
    store_u8(at, 0x6E)
    store_u8(at + 1, 0x75)
    store_u8(at + 2, 0x6C)
    store_u8(at + 3, 0x6C)
    return at + 4


@inlined_kernel
def hex_digit(value: int) -> int:
    """The digit of a value below 16, as a byte."""
    return value + 0x30 if value < 10 else value + 0x57


@kernel
def put_int(at: int, value: int) -> int:
    """Writes a whole number in decimal. Returns the address behind it."""
    left = np.uint64(value)
    if value < 0:
        store_u8(at, 0x2D)
        at += 1
        left = np.uint64(0) - left
    digits = 1
    rest = left // np.uint64(10)
    while rest != np.uint64(0):
        digits += 1
        rest = rest // np.uint64(10)
    for place in range(digits - 1, -1, -1):
        store_u8(at + place, np.int64(left % np.uint64(10)) + 0x30)
        left = left // np.uint64(10)
    return at + digits


@kernel
def int_cells(values: Int64s, valid: Flags, out: int, ends: Int64s) -> None:
    """Writes whole numbers in decimal, and null. `valid` is empty if none is null."""
    at = out
    for i in range(len(values)):
        at = put_null(at) if len(valid) and not valid[i] else put_int(at, values[i])
        ends[i] = at - out


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
    empty_is_nothing: int,
    out: int,
    ends: Int64s,
) -> None:
    """Writes lists of cells. `offsets` are numbers of cells, from the first one of the column
    on."""
    at = out
    for i in range(len(ends)):
        if len(valid) and not valid[i]:
            at = put_null(at)
        elif not empty_is_nothing or offsets[i] < offsets[i + 1]:
            copy_bytes(at, opening, opening_size)
            at += opening_size
            for j in range(offsets[i], offsets[i + 1]):
                if j > offsets[i]:
                    copy_bytes(at, separator, separator_size)
                    at += separator_size
                begin = cell_ends[j - 1] if j else 0
                size = cell_ends[j] - begin
                copy_bytes(at, cells + begin, size)
                at += size
            copy_bytes(at, closing, closing_size)
            at += closing_size
        ends[i] = at - out


@kernel
def add_sizes(sizes: Int64s, literal_size: int, cell_ends: Int64s, numbers: Int64s) -> None:
    """Adds to the size of each row what `put_cells` writes into it."""
    for i in range(len(sizes)):
        j = numbers[i] if len(numbers) else i
        sizes[i] += literal_size + cell_ends[j] - (cell_ends[j - 1] if j else 0)


@kernel
def put_cells(
    out: int, places: Int64s, literal: int, literal_size: int, cells: int, cell_ends: Int64s, numbers: Int64s
) -> None:
    """Writes a literal and a cell at the place of each row, and moves the places on. `numbers` are
    those of the cells, empty for a cell per row."""
    for i in range(len(places)):
        at = out + places[i]
        copy_bytes(at, literal, literal_size)
        j = numbers[i] if len(numbers) else i
        begin = cell_ends[j - 1] if j else 0
        copy_bytes(at + literal_size, cells + begin, cell_ends[j] - begin)
        places[i] += literal_size + cell_ends[j] - begin
