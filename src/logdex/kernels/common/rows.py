"""Rows of cells: the kernel that writes the text of all columns, row by row, into one place.

Twin: `json.dumps` and the lines of commands, which make the text of a few rows.
"""

from __future__ import annotations

import numpy as np

from logdex.kernels.common.cells import (
    BASE64,
    BEFORE,
    BEFORE_SIZE,
    COLUMN_BYTES,
    DATA,
    DAY,
    ENDS,
    FIRST,
    INT32,
    INT64,
    JSON_TEXT,
    KIND,
    LITERAL,
    LITERAL_SIZE,
    NULL,
    NULL_SIZE,
    NUMBERS,
    OPTION,
    SHOWN,
    TEXTS,
    TIME,
    VALID,
)
from logdex.kernels.common.digits import put_int, put_time
from logdex.kernels.common.json_text import put_base64, put_json_text
from logdex.kernels.common.line_text import put_shown
from logdex.kernels.common.memory import load_i32, load_i64, load_u8, store_i64
from logdex.kernels.common.vectors import copy_steps
from logdex.kernels.compiled import inner_kernel, kernel

PLAIN, NEGATIVE_IS_NULL = 0, 1
"""The options of numbers and times."""


@inner_kernel
def _put_number(at: int, column: int, kind: int, row: int) -> int:
    """Writes a number or a time. Returns the address behind it, -1 if it is null."""
    data = load_i64(column + DATA)
    if kind == INT32:
        return put_int(at, load_i32(data + 4 * row))
    value = load_i64(data + 8 * row)
    if kind == INT64:
        return put_int(at, value)
    if value < 0 and load_i64(column + OPTION) == NEGATIVE_IS_NULL:
        return np.int64(-1)
    return put_time(at, value, column + DAY)


@inner_kernel
def _put_text(at: int, column: int, row: int) -> int:
    """Copies a text that is there already. Returns the address behind it."""
    data, ends, numbers = load_i64(column + DATA), load_i64(column + ENDS), load_i64(column + NUMBERS)
    number = row if numbers == 0 else load_i64(numbers + 8 * row)
    begin = np.int64(0) if number == 0 else load_i64(ends + 8 * number - 8)
    return copy_steps(at, data + begin, load_i64(ends + 8 * number) - begin)


@inner_kernel
def _put_bytes(at: int, column: int, kind: int, row: int) -> int:
    """Writes bytes of Arrow. Returns the address behind them, -1 if they are null."""
    data, ends = load_i64(column + DATA), load_i64(column + ENDS)
    place, end = data + load_i32(ends + 4 * row), data + load_i32(ends + 4 * row + 4)
    if kind == BASE64:
        return put_base64(at, place, end)
    if kind == JSON_TEXT:
        return put_json_text(at, place, end, load_i64(column + OPTION))
    at = copy_steps(at, load_i64(column + BEFORE), load_i64(column + BEFORE_SIZE))
    return put_shown(at, place, end, load_i64(column + OPTION))


@inner_kernel
def _put_cell(at: int, column: int, row: int) -> int:
    """Writes a cell. Returns the address behind it, -1 if it is null."""
    valid = load_i64(column + VALID)
    if valid != 0:
        bit = load_i64(column + FIRST) + row
        if load_u8(valid + (bit >> 3)) >> (bit & 7) & 1 == 0:
            return np.int64(-1)
    kind = load_i64(column + KIND)
    if kind in (BASE64, JSON_TEXT, SHOWN):
        return _put_bytes(at, column, kind, row)
    if kind in (INT32, INT64, TIME):
        return _put_number(at, column, kind, row)
    return _put_text(at, column, row) if kind == TEXTS else at


@kernel
def put_rows(columns: int, count: int, rows: int, out: int, ends: int) -> int:
    """Writes rows of `count` cells at `out`, and where each row ends at `ends`, unless that is 0.
    `columns` is the address of a table of `Column`s. Returns the size."""
    at = out
    for row in range(rows):
        for k in range(count):
            column = columns + COLUMN_BYTES * k
            at = copy_steps(at, load_i64(column + LITERAL), load_i64(column + LITERAL_SIZE))
            behind = _put_cell(at, column, row)
            at = copy_steps(at, load_i64(column + NULL), load_i64(column + NULL_SIZE)) if behind < 0 else behind
        if ends != 0:
            store_i64(ends + 8 * row, at - out)
    return at - out
