"""Parts of lines from Arrow columns: kernels write what the functions for single rows return."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from logdex.arrow_text.cells import Cells, choice_cells, join
from logdex.arrow_text.line_cells import shown_cells, shown_list_cells, shown_pair_cells, time_cells
from logdex.cli.output import VALUE_SHOWN, human_time, shown, shown_start

_ODD = "\x00\x1b\n\x7f\x80\x9f\xa0\u2027\u2028\u202e\u202f\u2065\u2066\u2069\u206aé注\U0001f600"
TEXT = st.one_of(
    st.binary(max_size=40),
    st.text(max_size=40).map(str.encode),
    st.text(_ODD, max_size=20).map(str.encode),
    st.sampled_from([b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xc0\x80", b"a\xe2\x82", b"\xc2", b"\xff" * 9]),
)
_LONG = st.builds(
    lambda piece, count, tail: piece * count + tail,
    st.sampled_from([b"x", b"\n", b"\xff", "注".encode(), "\U0001f600".encode(), b"abc\x1b", b"\xe2\x80\xa8"]),
    st.integers(0, 2 * VALUE_SHOWN),
    TEXT,
)


def texts(cells: Cells, rows: int) -> list[str]:
    """The cell of each row."""
    made = join(("", ""), [cells], rows)
    ends = made.ends.tolist()
    return [made.data[begin:end].tobytes().decode() for begin, end in zip([0, *ends], ends, strict=False)]


@given(st.lists(st.none() | TEXT, max_size=6), st.integers(0, 6))
def test_shown(values: list[bytes | None], start: int) -> None:
    array = pa.array(values, pa.binary()).slice(start)
    expected = ["null" if each is None else f"k={shown(each)}" for each in values[start:]]
    assert texts(shown_cells(array, prefix="k=", null="null"), len(array)) == expected


@given(st.lists(TEXT | _LONG, max_size=4))
@example([b"x" * 119, b"x" * 120, b"x" * 121, b"\xff" * 30, b"\xff" * 31, b"x" * 119 + b"\n", b"x" * 118 + b"\n\n"])
@example(["\U0001f600".encode() * count for count in (119, 120, 121, 122)])
def test_the_start_of_long_values(values: list[bytes]) -> None:
    array = pa.array(values, pa.binary())
    assert texts(shown_cells(array, chars_max=VALUE_SHOWN), len(array)) == [*map(shown_start, values)]


@given(st.lists(st.lists(TEXT, max_size=3), max_size=5), st.integers(0, 5))
def test_lists(values: list[list[bytes]], start: int) -> None:
    array = pa.array(values, pa.list_(pa.binary())).slice(start)
    expected = [f"keys={','.join(map(shown, each))}" if each else "" for each in values[start:]]
    assert texts(shown_list_cells(array, "keys=", ","), len(array)) == expected


@given(st.lists(st.lists(st.tuples(TEXT, st.none() | TEXT), max_size=3), max_size=5), st.integers(0, 5))
def test_pairs(values: list[list[tuple[bytes, bytes | None]]], start: int) -> None:
    kind = pa.list_(pa.struct([pa.field("key", pa.binary()), pa.field("value", pa.binary())]))
    rows = [[{"key": name, "value": value} for name, value in each] for each in values]
    array = pa.array(rows, kind).slice(start)
    expected = [
        "".join(f"  {shown(name)}:{'null' if value is None else shown(value)}" for name, value in each)
        for each in values[start:]
    ]
    assert texts(shown_pair_cells(array, ("  ", ":", ""), "null"), len(array)) == expected


@given(st.lists(st.integers(-(1 << 63), (1 << 63) - 1) | st.integers(-(1 << 46), 1 << 48), max_size=8))
@example([0, -1, 951_782_399_999, 951_782_400_000, -62_135_596_800_000, -62_135_596_800_001])
@example([253_402_300_799_999, 253_402_300_800_000, 1_709_164_800_000, 4_107_542_400_000])
def test_times(times: list[int]) -> None:
    array = pa.array(times, pa.int64())
    assert texts(time_cells(array), len(array)) == [*map(human_time, times)]
    expected = [human_time(each if each >= 0 else None) for each in times]
    assert texts(time_cells(array, negative_is_none=True), len(array)) == expected


@pytest.mark.parametrize("choices", [["", "é", "ccc"], [""]])
def test_choices(choices: list[str]) -> None:

    numbers = np.array([len(choices) - 1, 0, len(choices) // 2])
    assert texts(choice_cells(choices, numbers), 3) == [choices[number] for number in numbers]
