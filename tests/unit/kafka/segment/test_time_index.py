"""`TimeIndex`: the cases of Kafka's TimeIndexTest, written anew from the behaviour, and what Kafka
leaves out."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from logdex.errors import CorruptError, IndexFullError, OffsetOrderError, OffsetOverflowError, UsageError
from logdex.kafka.segment.time_index import TimeIndex
from tests.unit.kafka.segment.segments import check_sanity

BASE = 45
SLOTS = 30


def make(path: Path, entries: int = 0) -> TimeIndex:
    index = TimeIndex(str(path / "x.timeindex"), BASE, max_size_bytes=SLOTS * 12, writable=True)
    for k in range(1, entries + 1):
        index.maybe_append(k * 10, BASE + k * 10)
    return index


def test_lookup(tmp_path: Path) -> None:
    with make(tmp_path) as index:
        assert index.lookup(100) == (-1, BASE)
        assert index.last_entry == (-1, BASE)
        for k in range(1, 20):
            index.maybe_append(k * 10, BASE + k * 10)
        assert index.lookup(9) == (-1, BASE)
        assert index.lookup(10) == (10, BASE + 10)
        assert index.lookup(11) == (10, BASE + 10)
        assert index.lookup(189) == (180, BASE + 180)
        assert index.lookup(1 << 62) == (190, BASE + 190)
        assert index.entry(2) == (30, BASE + 30)
        with pytest.raises(UsageError, match="entry 19,"):
            index.entry(19)


def test_the_last_slot_is_kept_for_the_roll(tmp_path: Path) -> None:
    with make(tmp_path, SLOTS - 2) as index:
        before = index.is_full
        index.maybe_append(10_000, BASE + 10_000)
        assert (before, index.is_full) == (False, True)
        with pytest.raises(IndexFullError, match="at most 29"):
            index.maybe_append(10_001, BASE + 10_001)
        assert index.maybe_append(10_001, BASE + 10_001, on_roll=True)
        assert not index.maybe_append(10_001, BASE + 10_001, on_roll=True)  # a second close of a full index
        with pytest.raises(IndexFullError, match="at most 30"):
            index.maybe_append(10_002, BASE + 10_002, on_roll=True)


def test_what_does_not_rise(tmp_path: Path) -> None:
    with make(tmp_path, 5) as index:
        assert not index.maybe_append(50, BASE + 50)  # the same again: a segment that is closed twice
        assert not index.maybe_append(50, BASE + 60)  # not above the last timestamp
        with pytest.raises(OffsetOrderError, match="relative_offset"):
            index.maybe_append(60, BASE + 49)
        with pytest.raises(OffsetOrderError, match="timestamp_ms"):
            index.maybe_append(49, BASE + 60)
        assert index.entries == 5


def test_offsets_out_of_reach(tmp_path: Path) -> None:
    with make(tmp_path) as index:
        with pytest.raises(OffsetOverflowError):
            index.maybe_append(1, BASE + (1 << 31))
        with pytest.raises(OffsetOverflowError):
            index.maybe_append(1, BASE - 1)
        assert index.entries == 0


def test_no_timestamp_is_no_entry(tmp_path: Path) -> None:
    with make(tmp_path) as index:
        assert not index.maybe_append(-1, BASE + 5)
        assert index.entries == 0


def test_many_entries_are_appended_all_or_none(tmp_path: Path) -> None:
    with make(tmp_path, 2) as index:
        for bad, error in (
            ([[30, BASE + 30], [30, BASE + 31]], OffsetOrderError),
            ([[30, BASE + 30], [40, BASE + 29]], OffsetOrderError),
            ([[20, BASE + 30]], OffsetOrderError),
            ([[30, BASE + 30], [40, BASE + (1 << 31)]], OffsetOverflowError),
            ([[30 + k, BASE + 30] for k in range(SLOTS - 2)], IndexFullError),
        ):
            with pytest.raises(error):
                index.append_many(np.array(bad))
        assert index.entries == 2
        index.append_many(np.array([[30, BASE + 30], [40, BASE + 30]]))
        assert (index.entries, index.last_entry) == (4, (40, BASE + 30))


def test_truncation(tmp_path: Path) -> None:
    for at, entries in ((BASE + 65, 6), (BASE + 60, 5), (BASE + 10, 0), (BASE, 0), (BASE + 1000, 10)):
        with make(tmp_path, 10) as index:
            index.truncate_to(at)
            expected = (10 * entries, BASE + 10 * entries) if entries else (-1, BASE)
            assert (index.entries, index.last_entry) == (entries, expected), at
            index.truncate()
            assert index.last_entry == (-1, BASE)
        with TimeIndex(str(tmp_path / "x.timeindex"), BASE) as again:
            assert again.entries == 0  # nothing of what was dropped comes back
        (tmp_path / "x.timeindex").unlink()


def test_sizes_and_reopening(tmp_path: Path) -> None:
    with make(tmp_path, 5) as index:
        assert index.size_bytes == SLOTS * 12
        index.trim_to_valid_size()
        assert (index.size_bytes, index.last_entry) == (60, (50, BASE + 50))
        index.resize(SLOTS * 12)
        assert (index.entries, index.last_entry) == (5, (50, BASE + 50))
    with TimeIndex(str(tmp_path / "x.timeindex"), BASE) as again:
        assert (again.entries, again.last_entry, again.slots) == (5, (50, BASE + 50), SLOTS)
        again.sanity_check()
    kafkas = TimeIndex(str(tmp_path / "x.timeindex"), BASE, count_zero_slots=True)
    with kafkas, pytest.raises(CorruptError, match="below the first"):
        kafkas.sanity_check()  # where Kafka's own check stumbles over an untrimmed index


def test_a_first_timestamp_of_zero(tmp_path: Path) -> None:
    """Its slot is all zeros when the offset is the base offset, and an entry as soon as others
    follow."""
    with make(tmp_path) as index:
        index.append_many(np.array([[0, BASE], [7, BASE + 1]]))
    with TimeIndex(str(tmp_path / "x.timeindex"), BASE) as again:
        assert again.entries == 2
        assert again.lookup(3) == (0, BASE)


def test_sanity(tmp_path: Path) -> None:
    path = tmp_path / "x.timeindex"
    good = (10).to_bytes(8, "big") + (1).to_bytes(4, "big")
    for data, message in (
        (good + (9).to_bytes(8, "big") + (2).to_bytes(4, "big"), "byte 12.*timestamp_ms"),
        (good + (11).to_bytes(8, "big") + b"\xff" * 4, "byte 12.*relative_offset"),
        (good + b"\x00", "byte 12.*multiple of 12, found 13"),
        (good, None),
    ):
        path.write_bytes(data)
        with TimeIndex(str(path), BASE) as index:
            check_sanity(index, message)


def test_the_entry_of_time_0(tmp_path: Path) -> None:
    """It is zeros, and counts if the file was trimmed to it."""
    with make(tmp_path) as index:
        assert index.maybe_append(0, BASE)
        path = index.path
    with TimeIndex(path, BASE) as index:
        assert index.entries == 0  # it was not trimmed
    with TimeIndex(path, BASE, writable=True) as index:
        assert index.maybe_append(0, BASE)
        index.trim_to_valid_size()
    with TimeIndex(path, BASE) as index:
        assert (index.entries, index.last_entry, index.lookup(5)) == (1, (0, BASE), (0, BASE))
