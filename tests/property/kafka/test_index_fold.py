"""The index fold: kernel and plain twin are the same, whatever the batches and however they are cut
into windows."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from logdex.errors import OffsetOrderError, OffsetOverflowError
from logdex.kafka.segment.derive_indexes import (
    IndexFold,
    derive_indexes,
    derive_offset_index,
    derive_time_index,
    encode_offset_entries,
    encode_time_entries,
    fold_plain,
)
from logdex.kernels.kafka import sparse_index as kernel
from logdex.kernels.kafka.batch_columns import BatchColumns, make_batch_columns

INT64 = st.integers(-(1 << 63), (1 << 63) - 1)
Row = tuple[int, int, int, int]


def columns_of(rows: list[Row]) -> BatchColumns:
    """Columns of (position, last offset, largest timestamp, size)."""
    columns = make_batch_columns(len(rows))
    for k, (position, last_offset, timestamp, size) in enumerate(rows):
        columns.position[k], columns.last_offset[k] = position, last_offset
        columns.max_timestamp_ms[k], columns.size[k] = timestamp, size
    return columns


@st.composite
def rows_of_logs(draw: st.DrawFn) -> tuple[int, list[Row]]:
    """A base offset and batches that mostly rise."""
    base = draw(st.sampled_from([0, 1, 1000, 1 << 40, (1 << 63) - (1 << 31)]))
    offset, position, rows = base, 0, []
    for _ in range(draw(st.integers(0, 30))):
        offset += draw(st.sampled_from([0, 1, 1, 1, 5, 5, 5, 1 << 29, -3]))
        size = draw(st.integers(61, 300))
        timestamp = draw(st.one_of(st.integers(-2, 20), INT64))
        rows.append((position, min(offset, (1 << 63) - 1), timestamp, size))
        position += size
    return base, rows


@example((0, [(0, 0, 0, 61), (61, 0, 0, 61), (122, 5, 1, 61), (183, 2, 2, 61)]), 61, [])
@given(rows_of_logs(), st.integers(0, 600), st.lists(st.integers(0, 30), max_size=4))
def test_kernel_and_plain_twin_agree(log: tuple[int, list[Row]], interval: int, cuts: list[int]) -> None:
    base, rows = log
    state = [0, -1, base - 1, base - 1, -1, base - 1]
    offset_entries, time_entries, end, taken = fold_plain(rows, base, interval, state)

    edges = [0, *sorted(min(cut, len(rows)) for cut in cuts), len(rows)]
    fold, found_offsets, found_times = IndexFold(base, interval, path="x.log"), [], []
    error = None
    for start, stop in pairwise(edges):
        try:
            offsets, times = fold.add(columns_of(rows[start:stop]))
        except (OffsetOverflowError, OffsetOrderError) as raised:
            error = raised
            break
        found_offsets += [tuple(entry) for entry in offsets.tolist()]
        found_times += [tuple(entry) for entry in times.tolist()]
    if error is not None:
        assert error.position == rows[taken][0]
        assert isinstance(error, OffsetOverflowError if end == kernel.OVERFLOW else OffsetOrderError)
        assert (error.field == "max_timestamp_ms") == (end == kernel.TIME_OFFSET_FALLS)
        return
    assert end == kernel.GOOD
    assert (found_offsets, found_times) == (offset_entries, time_entries)
    assert fold._state == state
    alone = IndexFold(base, interval, path="x.log")
    entries = [alone.add_one(*row) for row in rows]
    assert [entry for found, _ in entries for entry in found] == offset_entries
    assert [entry for _, found in entries for entry in found] == time_entries
    assert (alone._state, alone._last_offset) == (state, fold._last_offset)
    assert fold.max_timestamp == ((state[1], state[2]) if state[1] > -1 else (-1, base))
    if (
        fold.max_timestamp[1] < state[kernel.TIME_OFFSET]
    ):  # a larger timestamp at a lower offset, and no entry since: no file can say it
        with pytest.raises(OffsetOrderError, match="max_timestamp_ms"):
            fold.finish()
        with pytest.raises(OffsetOrderError, match="max_timestamp_ms"):
            derive_indexes([columns_of(rows)], base, interval)
    elif not cuts:
        index, times_index = derive_indexes([columns_of(rows)], base, interval)
        assert index == encode_offset_entries(np.array(offset_entries, np.int64).reshape(-1, 2), base)
        assert times_index == encode_time_entries(
            np.array(found_times + [tuple(entry) for entry in fold.finish().tolist()], np.int64).reshape(-1, 2), base
        )


def test_the_rules_on_one_log() -> None:
    rows = [(0, 9, 50, 100), (100, 19, 70, 100), (200, 29, 60, 100), (300, 39, 70, 100), (400, 49, 71, 100)]
    fold = IndexFold(0, 150)
    offsets, times = fold.add(columns_of(rows))
    assert offsets.tolist() == [[29, 200], [49, 400]]  # the first batch never; above 150 bytes, not at 150
    assert times.tolist() == [[70, 19], [71, 49]]  # the earliest batch that has the largest timestamp
    assert fold.finish().tolist() == []
    assert derive_offset_index(columns_of(rows), 0, 150).hex() == "0000001d000000c80000003100000190"
    assert len(derive_time_index(columns_of(rows), 0, 1 << 20)) == 12


def test_an_entry_needs_more_bytes_than_the_interval() -> None:
    rows = [(0, 0, 1, 100), (100, 1, 2, 100)]
    assert derive_offset_index(columns_of(rows), 0, 100) == b""
    assert len(derive_offset_index(columns_of(rows), 0, 99)) == 8


def test_no_timestamps_no_time_entries() -> None:
    assert derive_time_index(columns_of([(0, 5, -1, 100), (100, 6, -1, 100)]), 5, 0) == b""


@pytest.mark.parametrize(("last_offset", "fits"), [(99, False), (100, True), (100 + (1 << 31) - 1, True)])
def test_offsets_within_reach(last_offset: int, fits: bool) -> None:
    fold = IndexFold(100, 0, path="log")
    if fits:
        fold.add(columns_of([(0, last_offset, 1, 61)]))
    else:
        with pytest.raises(OffsetOverflowError, match="log: byte 0"):
            fold.add(columns_of([(0, last_offset, 1, 61)]))


def test_an_offset_beyond_reach_names_its_batch() -> None:
    with pytest.raises(OffsetOverflowError, match=rf"byte 61.*found {1 << 31}"):
        IndexFold(0, 0, path="log").add(columns_of([(0, 1, 1, 61), (61, 1 << 31, 1, 61)]))


def test_a_fold_that_is_taken_up_goes_on_behind_the_last_entries() -> None:
    fold = IndexFold(0, 50, last_index_offset=29, last_time=(70, 19))
    offsets, times = fold.add(columns_of([(300, 39, 60, 100), (400, 49, 65, 100)]))
    assert (offsets.tolist(), times.tolist()) == ([[49, 400]], [])
    with pytest.raises(OffsetOrderError, match="above 49"):
        fold.add(columns_of([(500, 49, 65, 100)]))


def test_a_larger_timestamp_at_a_lower_offset_is_an_error() -> None:
    with pytest.raises(OffsetOrderError, match="max_timestamp_ms"):
        IndexFold(0, 1000, last_time=(70, 19), max_timestamp=(80, 3)).finish()


def test_a_copy_goes_its_own_way() -> None:
    fold = IndexFold(0, 0)
    fold.add(columns_of([(0, 1, 5, 61)]))
    twin = fold.copy()
    twin.add(columns_of([(61, 2, 9, 61)]))
    assert (fold.max_timestamp, twin.max_timestamp) == ((5, 1), (9, 2))
