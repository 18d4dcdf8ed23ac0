"""Look-ups in bulk equal single ones; what counts as an entry; single ones equal a plain reading of
the rules."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from logdex.kafka.segment.derive_indexes import encode_offset_entries, encode_time_entries
from logdex.kafka.segment.offset_index import OffsetIndex
from logdex.kafka.segment.time_index import TimeIndex
from logdex.kernels.kafka.sparse_lookup import first_at_least

INT64 = st.integers(-(1 << 63), (1 << 63) - 1)
Write = Callable[[bytes, int], str]
BASES = st.sampled_from([0, 7, 1 << 40])


def rising(low: int, high: int, size_max: int = 80) -> st.SearchStrategy[list[int]]:
    return st.lists(st.integers(low, high), unique=True, max_size=size_max).map(sorted)


@pytest.fixture(scope="module")
def write(tmp_path_factory: pytest.TempPathFactory) -> Write:
    """Writes an index and a tail of zeros, over the one before; the path."""
    path = tmp_path_factory.mktemp("index") / "x"

    def put(data: bytes, tail: int) -> str:
        path.write_bytes(data + bytes(tail))
        return str(path)

    return put


@given(BASES, rising(0, (1 << 31) - 1), st.integers(0, 40), st.lists(INT64, max_size=40), st.integers(1, 4))
def test_offset_lookups(write: Write, base: int, offsets: list[int], zeros: int, wild: list[int], step: int) -> None:
    entries = np.array([[base + o, 100 + 50 * k] for k, o in enumerate(offsets)], np.int64).reshape(-1, 2)
    path = write(encode_offset_entries(entries, base), 8 * zeros)
    with OffsetIndex(path, base) as index:
        assert index.entries == len(offsets)
        assert index.slots == len(offsets) + zeros
        queries = [q for o in offsets[::step] for q in (base + o - 1, base + o, base + o + 1)] + wild
        found = index.lookup_many(np.array(queries, np.int64))
        for query, row in zip(queries, found.tolist(), strict=True):
            below = [(base + o, 100 + 50 * k) for k, o in enumerate(offsets) if base + o <= query]
            assert tuple(row) == index.lookup(query) == (below[-1] if below else (base, 0))
        for k in range(0, len(offsets), step):
            for position in (100 + 50 * k - 1, 100 + 50 * k, 100 + 50 * k + 1):
                at_least = [e for e in entries.tolist() if e[1] >= position]
                expected = tuple(at_least[0]) if at_least else None
                assert index.fetch_upper_bound_offset(position, 0) == expected
                assert index.fetch_upper_bound_offset(0, position) == expected


@given(BASES, rising(-5, 1 << 62), st.integers(0, 40), st.lists(INT64, max_size=40))
@example(7, [], 1, [-1, 0])
def test_time_lookups(write: Write, base: int, times: list[int], zeros: int, wild: list[int]) -> None:
    entries = np.array([[t, base + k + 1] for k, t in enumerate(times)], np.int64).reshape(-1, 2)
    path = write(encode_time_entries(entries, base), 12 * zeros)
    known = list(map(tuple, entries.tolist()))
    if not times and zeros == 1:  # a file of one slot was trimmed, so its zeros are an entry
        known = [(0, base)]
    with TimeIndex(path, base) as index:
        assert index.entries == len(known)
        queries = [q for t in times for q in (t - 1, t, t + 1)] + wild
        found = index.lookup_many(np.array(queries, np.int64))
        for query, row in zip(queries, found.tolist(), strict=True):
            below = [entry for entry in known if entry[0] <= query]
            assert tuple(row) == index.lookup(query) == (below[-1] if below else (-1, base))


@given(st.lists(INT64, max_size=70).map(sorted), st.lists(INT64, max_size=40))
def test_first_at_least_is_searchsorted(values: list[int], wild: list[int]) -> None:
    table, wanted = np.array(values, np.int64), np.array(values + wild, np.int64)
    np.testing.assert_array_equal(first_at_least(table, wanted), np.searchsorted(table, wanted))


@given(st.integers(0, 3000), st.lists(st.integers(0, 3100), max_size=20))
def test_the_warm_end_answers_as_the_rest(write: Write, count: int, wanted: list[int]) -> None:
    """Indexes longer than the 8 KiB that are looked into first."""
    entries = np.array([[k + 1, 7 * k] for k in range(count)], np.int64).reshape(-1, 2)
    with OffsetIndex(write(encode_offset_entries(entries, 0), 0), 0) as index:
        for query in wanted:
            place = min(query, count)
            assert index.lookup(query) == ((place, 7 * (place - 1)) if place else (0, 0))
