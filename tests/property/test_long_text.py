"""Texts of every length at every place in a page of memory: kernels take many bytes at a time, and
write what Python does."""

from __future__ import annotations

import json
import random
from base64 import b64encode

import numpy as np
import pyarrow as pa
import pytest

from logdex.arrow_text.cells import Cells, Rooms, bytes_cells, int_cells, join, lines
from logdex.arrow_text.line_cells import shown_cells
from logdex.cli.output import shown, shown_start
from logdex.kernels.common import cells as kernels
from logdex.kernels.common.json_text import ESCAPED_MAX, INVALID_IS_NULL
from logdex.primitives.text import utf8_or_none

_PAGE = 4_096
_SIZES = range(80)


def made(cells: Cells, rows: int) -> list[str]:
    """The text of each row."""
    texts = join(("", ""), [cells], rows)
    ends = texts.ends.tolist()
    return [texts.data[begin:end].tobytes().decode() for begin, end in zip([0, *ends], ends, strict=False)]


@pytest.mark.parametrize("odd", [0, 8, 50, 100])
@pytest.mark.parametrize("end", [_PAGE, _PAGE - 1, _PAGE - 31, _PAGE - 32, _PAGE - 33])
def test_texts_that_end_near_the_end_of_a_page(odd: int, end: int) -> None:
    """`odd` is how many of 100 characters are no plain ASCII."""
    rng = random.Random(odd)
    memory = np.zeros(4 * _PAGE, np.uint8)
    page = -memory.ctypes.data % _PAGE + _PAGE
    for size in _SIZES:
        text = "".join(rng.choice('é注\U0001f600"\\\n\x7f') if rng.randrange(100) < odd else "x" for _ in range(size))
        data = text.encode()[:size]  # perhaps cut in a character
        begin = page + end - len(data)
        memory[begin : begin + len(data)] = np.frombuffer(data, np.uint8)
        memory[begin + len(data) : begin + len(data) + 40] = rng.choice((0x41, 0x22, 0xE6))
        ends = np.array([begin, begin + len(data)], np.int32)
        array = pa.Array.from_buffers(pa.binary(), 1, [None, pa.py_buffer(ends), pa.py_buffer(memory)], 0)
        assert made(bytes_cells(kernels.BASE64, array, 400), 1) == [f'"{b64encode(data).decode()}"']
        found = made(bytes_cells(kernels.JSON_TEXT, array, ESCAPED_MAX * size + 2, option=INVALID_IS_NULL), 1)
        assert found == [json.dumps(utf8_or_none(data), ensure_ascii=False)]
        assert made(shown_cells(array), 1) == [shown(data)]
        assert made(shown_cells(array, chars_max=120), 1) == [shown_start(data)]


def test_numbers_of_every_length() -> None:
    numbers = [sign * (10**digits + more) for digits in range(19) for more in (-1, 0, 1) for sign in (1, -1)]
    array = pa.array([*numbers, -(1 << 63), (1 << 63) - 1], pa.int64())
    assert made(int_cells(array), len(array)) == [*map(str, array.to_pylist())]


def test_the_memory_of_texts_is_used_again() -> None:
    rooms, batch = Rooms(), pa.record_batch({"offset": pa.array([10, 11, 12])})

    def text(of: pa.RecordBatch) -> memoryview:
        return lines(of, lambda part: [("o", int_cells(part.column(0)))], "\n", rooms)

    first = text(batch)
    assert bytes(first) == b"o10\no11\no12\n"
    second = text(batch)  # the first one is not given back yet
    rooms.give_back(first)
    third = text(batch.slice(1))
    assert bytes(second) == b"o10\no11\no12\n"
    assert bytes(third) == b"o11\no12\n"
    first_at, second_at, third_at = (np.frombuffer(each, np.uint8).ctypes.data for each in (first, second, third))
    assert third_at == first_at != second_at
