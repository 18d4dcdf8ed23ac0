"""`OffsetIndex`: the cases of Kafka's OffsetIndexTest, written anew from the behaviour, and what
Kafka leaves out."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from logdex.errors import CorruptError, IndexFullError, OffsetOrderError, OffsetOverflowError, StorageError, UsageError
from logdex.io.env import Env
from logdex.kafka.segment.offset_index import OffsetIndex
from logdex.testing.fault_env import Fault, FaultEnv
from tests.unit.kafka.segment.segments import check_sanity

BASE = 45
SLOTS = 30
SIZE = SLOTS * 8


def make(path: Path, *, base: int = BASE, size: int = SIZE, env: Env | None = None) -> OffsetIndex:
    return OffsetIndex(str(path / "x.index"), base, max_size_bytes=size, writable=True, env=env or Env())


def test_lookups_at_between_and_around_the_entries(tmp_path: Path) -> None:
    with make(tmp_path) as index:
        assert index.lookup(92) == (BASE, 0)
        for slot in range(SLOTS):
            index.append(BASE + slot + 1, slot)
        assert [index.lookup(BASE + slot + 1) for slot in range(SLOTS)] == [
            (BASE + slot + 1, slot) for slot in range(SLOTS)
        ]
        assert index.lookup(BASE) == (BASE, 0)
        assert index.lookup(BASE + SLOTS + 1000) == (BASE + SLOTS, SLOTS - 1)
        assert index.entry(3) == (BASE + 4, 3)


def test_extreme_offsets(tmp_path: Path) -> None:
    with make(tmp_path, base=0) as index:
        index.append((1 << 31) - 1, (1 << 31) - 1)
        assert index.lookup((1 << 31) - 1) == ((1 << 31) - 1, (1 << 31) - 1)
        assert index.lookup(1 << 62) == ((1 << 31) - 1, (1 << 31) - 1)
        assert index.lookup(-1) == (0, 0)


def test_an_entry_that_is_not_there(tmp_path: Path) -> None:
    with make(tmp_path) as index:
        index.append(50, 1)
        for slot in (-1, 1):
            with pytest.raises(UsageError, match=f"entry {slot},"):
                index.entry(slot)


def test_a_full_index_takes_no_more(tmp_path: Path) -> None:
    with make(tmp_path) as index:
        for slot in range(SLOTS):
            assert not index.is_full
            index.append(BASE + slot + 1, slot)
        assert index.is_full
        with pytest.raises(IndexFullError, match="at most 30"):
            index.append(BASE + SLOTS + 1, SLOTS)
        assert index.entries == SLOTS


@pytest.mark.parametrize("offset", [51, 50, 46])
def test_offsets_must_rise(tmp_path: Path, offset: int) -> None:
    with make(tmp_path) as index:
        index.append(51, 0)
        with pytest.raises(OffsetOrderError, match=r"byte 8.*above 6"):
            index.append(offset, 1)
        assert (index.entries, index.last_offset) == (1, 51)


@pytest.mark.parametrize("offset", [BASE - 1, BASE + (1 << 31)])
def test_offsets_out_of_reach(tmp_path: Path, offset: int) -> None:
    with make(tmp_path) as index:
        assert not index.can_append_offset(offset)
        with pytest.raises(OffsetOverflowError, match="relative_offset"):
            index.append(offset, 0)
        assert index.can_append_offset(BASE)
        assert index.can_append_offset(BASE + (1 << 31) - 1)
        index.append(BASE, 0)  # the base offset itself is an offset that a first entry can have


@pytest.mark.parametrize("position", [-1, 1 << 31])
def test_positions_that_no_log_has(tmp_path: Path, position: int) -> None:
    with make(tmp_path) as index:
        with pytest.raises(UsageError, match=r"not a position in a \.log"):
            index.append(50, position)
        assert (index.entries, any((tmp_path / "x.index").read_bytes())) == (0, False)


def test_a_closed_index_neither_answers_nor_overwrites(tmp_path: Path) -> None:
    index = make(tmp_path)
    index.append(50, 1)
    index.close()
    before = (tmp_path / "x.index").read_bytes()
    for use in (lambda: index.append(60, 2), lambda: index.lookup(50), index.trim_to_valid_size, index.flush):
        with pytest.raises(UsageError, match="was closed"):
            use()
    index.close()
    assert (tmp_path / "x.index").read_bytes() == before


def test_many_entries_are_appended_all_or_none(tmp_path: Path) -> None:
    with make(tmp_path) as index:
        index.append_many(np.array([[50, 1], [60, 2]]))
        for bad, error in (
            ([[61, 3], [61, 4]], OffsetOrderError),
            ([[70, 3], [69, 4], [80, 5]], OffsetOrderError),
            ([[61, 3], [BASE + (1 << 31), 4]], OffsetOverflowError),
            ([[100 + k, k] for k in range(SLOTS - 1)], IndexFullError),
        ):
            with pytest.raises(error):
                index.append_many(np.array(bad))
        index.append_many(np.empty((0, 2), np.int64))
        assert [index.entry(slot) for slot in range(index.entries)] == [(50, 1), (60, 2)]


def test_upper_bound_of_a_fetch(tmp_path: Path) -> None:
    with make(tmp_path, base=0) as index:
        assert index.fetch_upper_bound_offset(0, 5) is None
        for offset, position in ((1, 0), (2, 10), (3, 23), (4, 37)):
            index.append(offset, position)
        assert index.fetch_upper_bound_offset(0, 5) == (2, 10)
        assert index.fetch_upper_bound_offset(0, 10) == (2, 10)
        assert index.fetch_upper_bound_offset(0, 23) == (3, 23)
        assert index.fetch_upper_bound_offset(0, 22) == (3, 23)
        assert index.fetch_upper_bound_offset(10, 13) == (3, 23)
        assert index.fetch_upper_bound_offset(0, 37) == (4, 37)
        assert index.fetch_upper_bound_offset(0, 38) is None
        assert index.fetch_upper_bound_offset(37, (1 << 31) - 1) is None  # Kafka's sum wraps and finds the first entry


def test_reopened_it_has_what_it_had(tmp_path: Path) -> None:
    with make(tmp_path) as index:
        index.append(51, 0)  # a position of 0 is an entry all the same
        index.append(52, 1)
    for writable in (False, True):
        with OffsetIndex(str(tmp_path / "x.index"), BASE, max_size_bytes=SIZE, writable=writable) as again:
            assert [again.entry(slot) for slot in range(again.entries)] == [(51, 0), (52, 1)]
            assert (again.last_offset, again.slots) == (52, SLOTS)
    with OffsetIndex(str(tmp_path / "x.index"), BASE, count_zero_slots=True) as kafkas:
        assert kafkas.entries == SLOTS
        kafkas.sanity_check()


def test_truncation(tmp_path: Path) -> None:
    with make(tmp_path, base=0) as index:
        index.truncate()

        def fill() -> None:
            index.truncate()
            for offset in range(1, 10):
                index.append(offset, offset)

        for at, last, entries in ((12, 9, 9), (10, 9, 9), (9, 8, 8), (5, 4, 4), (1, 0, 0), (0, 0, 0)):
            fill()
            index.truncate_to(at)
            assert (index.last_offset, index.entries) == (last, entries), at
        fill()
        index.truncate()
        assert (index.entries, index.last_offset) == (0, 0)
        index.append(0, 0)


def test_what_is_truncated_does_not_come_back(tmp_path: Path) -> None:
    with make(tmp_path) as index:
        for slot in range(10):
            index.append(BASE + slot + 1, slot)
        index.truncate_to(BASE + 4)
    with OffsetIndex(str(tmp_path / "x.index"), BASE) as again:
        assert again.entries == 3


def test_sizes(tmp_path: Path) -> None:
    path = tmp_path / "x.index"
    with make(tmp_path, size=8 * 30 + 7) as index:
        assert path.stat().st_size == SIZE  # rounded down to whole slots
        index.append(50, 1)
        assert not index.resize(SIZE + 3)
        index.trim_to_valid_size()
        assert (path.read_bytes().hex(), index.is_full) == ("0000000500000001", True)
        assert index.resize(SIZE)
        assert (index.entries, index.slots, index.is_full) == (1, SLOTS, False)
        index.append(51, 2)
        index.reset()
        assert (index.entries, index.size_bytes, any(path.read_bytes())) == (0, SIZE, False)
        index.rewrite(bytes.fromhex("00000005000000010000000700000009"))
        assert (index.entries, index.last_offset, path.stat().st_size) == (2, 52, 16)


def test_a_large_index_is_sparse(tmp_path: Path) -> None:
    with make(tmp_path, size=10 << 20) as index:
        index.append(50, 1)
        assert index.size_bytes == 10 << 20
        assert (tmp_path / "x.index").stat().st_blocks * 512 < 1 << 20
    with OffsetIndex(str(tmp_path / "x.index"), BASE, count_zero_slots=True) as kafkas:
        assert kafkas.lookup(60) == (BASE, 0)  # its zeros mislead a broker's search


def test_reading_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "x.index"
    path.write_bytes(bytes.fromhex("0000000500000001") + bytes(800))
    before = (path.stat().st_mtime_ns, path.read_bytes())
    with OffsetIndex(str(path), BASE) as index:
        assert index.lookup(60) == (50, 1)
        for change in (lambda: index.append(60, 2), index.truncate, index.trim_to_valid_size, index.reset, index.flush):
            with pytest.raises(UsageError, match="for reading only"):
                change()
    assert (path.stat().st_mtime_ns, path.read_bytes()) == before


def test_a_missing_file_is_an_index_without_entries_and_is_not_made(tmp_path: Path) -> None:
    with OffsetIndex(str(tmp_path / "x.index"), BASE) as index:
        assert (index.missing, index.entries, index.lookup(99)) == (True, 0, (BASE, 0))
    assert list(tmp_path.iterdir()) == []


def test_sanity(tmp_path: Path) -> None:
    path = tmp_path / "x.index"
    for data, message in (
        (bytes.fromhex("0000000500000001ffffffff00000002"), "byte 8.*found -1"),
        (bytes.fromhex("0000000500000001000000"), "byte 8.*multiple of 8, found 11"),
        (bytes.fromhex("0000000500000001"), None),
        (b"", None),
    ):
        path.write_bytes(data)
        with OffsetIndex(str(path), BASE) as index:
            check_sanity(index, message)


def test_a_torn_slot_is_no_entry(tmp_path: Path) -> None:
    path = tmp_path / "x.index"
    path.write_bytes(bytes.fromhex("00000005000000010000000700"))
    with OffsetIndex(str(path), BASE) as index:
        assert (index.entries, index.slots, index.lookup(99)) == (1, 1, (50, 1))


def test_too_small_and_too_large(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="has no room for an entry"):
        make(tmp_path, size=7)
    assert list(tmp_path.iterdir()) == []
    with (tmp_path / "x.index").open("wb") as file:
        file.truncate((1 << 30) + 8)
    with pytest.raises(CorruptError, match="too large for an index"):
        OffsetIndex(str(tmp_path / "x.index"), BASE)


def test_a_write_that_fails_adds_nothing(tmp_path: Path) -> None:
    import errno

    env = FaultEnv(str(tmp_path), Fault(at=2, errno=errno.ENOSPC, kinds=frozenset({"write_at"})))
    with make(tmp_path, env=env) as index:
        index.append(50, 1)
        with pytest.raises(StorageError) as caught:
            index.append(51, 2)
        assert caught.value.errno == errno.ENOSPC
        assert (index.entries, index.last_offset) == (1, 50)
        index.append(51, 2)
        assert index.entries == 2


def test_renamed_and_released_it_goes_on(tmp_path: Path) -> None:
    with make(tmp_path) as index:
        index.append(50, 1)
        index.release()
        index.rename(str(tmp_path / "y.index"))
        assert index.lookup(99) == (50, 1)
        index.append(51, 2)
        index.flush()
    assert not (tmp_path / "x.index").exists()
    with OffsetIndex(str(tmp_path / "y.index"), BASE) as again:
        assert again.last_offset == 51
