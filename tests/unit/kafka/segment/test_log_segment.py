"""`LogSegment`: the cases of Kafka's LogSegmentTest, written anew from the behaviour, and what
Kafka leaves out."""

from __future__ import annotations

import errno
import struct
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from logdex.errors import IndexFullError, OffsetOrderError, OffsetOverflowError, StorageError, UsageError
from logdex.kafka.batch.record import Compression
from logdex.kafka.segment.log_segment import LogSegment
from logdex.testing.fault_env import Fault, FaultEnv
from tests.unit.kafka.segment.segments import CONFIG, append, batch, columns_of
from tests.unit.kafka.segment.segments import make_segment as make

INT_MAX = (1 << 31) - 1


# -- reading


def test_an_empty_segment_has_nothing_to_read(tmp_path: Path) -> None:
    with make(tmp_path) as segment:
        assert segment.read(40, 300) is None
        assert segment.read_next_offset() == 40
        assert segment.translate_offset(40) is None
        assert segment.find_offset_by_timestamp(0) is None


def test_reading_before_at_and_behind(tmp_path: Path) -> None:
    first, second = batch(50, 1, 2), batch(60, 3, 4)
    with make(tmp_path) as segment:
        assert append(segment, first) == 0
        assert append(segment, second) == len(first)
        for start, data in ((41, first + second), (51, first + second), (52, second), (61, second)):
            read = segment.read(start, 300)  # a gap is read across: from the next batch that there is
            assert read is not None
            assert read.data == data, start
        assert segment.read(62, 300) is None
        assert segment.read_next_offset() == 62


def test_reads_are_bounded(tmp_path: Path) -> None:
    first, second = batch(40, 1, 2), batch(42, 3)
    with make(tmp_path) as segment:
        append(segment, first + second)
        for size, position, at_least_one, expected, incomplete in (
            (10, None, False, first[:10], True),
            (10, None, True, first, False),
            (len(first) + 3, None, False, first + second[:3], False),
            (1000, len(first), False, first, False),
            (1000, 0, False, b"", False),
            (0, None, False, b"", True),
        ):
            read = segment.read(40, size, position, min_one_message=at_least_one)
            assert read is not None
            assert (read.position, read.data, read.first_batch_incomplete) == (0, expected, incomplete)
        with pytest.raises(UsageError, match="-1"):
            segment.read(40, -1)


def test_translate_offset(tmp_path: Path) -> None:
    batches = [batch(base, base, base + 1) for base in range(40, 80, 2)]
    size = len(batches[0])
    with make(tmp_path) as segment:
        for data in batches:
            append(segment, data)
        for offset in range(40, 80):
            base = offset // 2 * 2
            assert segment.translate_offset(offset) == (base, (base - 40) // 2 * size, size)
        assert segment.translate_offset(80) is None
        assert segment.translate_offset(45, start_position=size * 10) == (60, size * 10, size)
        offsets = np.arange(38, 82)
        single = [segment.translate_offset(int(offset)) or (-1, -1, -1) for offset in offsets]
        np.testing.assert_array_equal(segment.translate_offsets(offsets), single)
        assert segment.translate_offsets([]).shape == (0, 3)


@pytest.mark.parametrize("delta", [-1, 0, 7, 1 << 20])
def test_translate_offsets_by_a_harmed_header_as_one_by_one(tmp_path: Path, delta: int) -> None:
    with make(tmp_path) as segment:
        for base in range(40, 80, 2):
            append(segment, batch(base, base, base + 1))
        size = segment.size_bytes // 20
    log = next(tmp_path.glob("*.log"))
    data = bytearray(log.read_bytes())
    struct.pack_into(">i", data, 9 * size + 23, delta)  # lastOffsetDelta
    log.write_bytes(data)
    with make(tmp_path) as segment:
        offsets = np.arange(38, 82)
        single = [segment.translate_offset(int(offset)) or (-1, -1, -1) for offset in offsets]
        np.testing.assert_array_equal(segment.translate_offsets(offsets), single)


@pytest.mark.parametrize("compression", [Compression.NONE, Compression.LZ4])
@pytest.mark.parametrize("magic", [1, 2])
def test_find_offset_by_timestamp(tmp_path: Path, compression: Compression, magic: int) -> None:
    with make(tmp_path) as segment:
        for offset in range(40, 50, 2):
            append(segment, batch(offset, offset * 10, offset * 10 + 10, compression=compression, magic=magic))
        epoch = 0 if magic == 2 else -1
        for timestamp, expected in (
            (490, (490, 49, epoch)),
            (480, (480, 48, epoch)),
            (481, (490, 49, epoch)),
            (420, (420, 42, epoch)),
            (0, (400, 40, epoch)),
            (491, None),
        ):
            assert segment.find_offset_by_timestamp(timestamp) == expected, timestamp
        assert segment.find_offset_by_timestamp(0, 45) == (450, 45, epoch)
        assert segment.find_offset_by_timestamp(0, 50) is None
        times = np.arange(390, 495)
        single = [segment.find_offset_by_timestamp(int(time)) or (-1, -1, -1) for time in times]
        np.testing.assert_array_equal(segment.find_offsets_by_timestamps(times), single)


def test_a_header_that_promises_a_later_timestamp_than_its_records_have(tmp_path: Path) -> None:
    """The next batch that keeps its promise answers, alone and in bulk."""
    data = bytearray(batch(40, 5, 6))
    data[35:43] = (100).to_bytes(8, "big")  # its largest timestamp; look-ups check no checksum
    with make(tmp_path) as segment:
        segment.log.append(bytes(data) + batch(42, 50))
        assert segment.find_offset_by_timestamp(20) == (50, 42, 0)
        assert segment.find_offsets_by_timestamps([20, 6, 60]).tolist() == [[50, 42, 0], [6, 41, 0], [-1, -1, -1]]


def test_timestamps_that_fall(tmp_path: Path) -> None:
    with make(tmp_path) as segment:
        for offset, timestamp in ((40, 50), (41, 30), (42, 70), (43, 10)):
            append(segment, batch(offset, timestamp))
        assert [segment.find_offset_by_timestamp(t, 40) for t in (20, 60)] == [(50, 40, 0), (70, 42, 0)]
        assert segment.find_offset_by_timestamp(5, 43) == (10, 43, 0)


# -- appending


def test_entries_are_those_of_the_fold(tmp_path: Path) -> None:
    with make(tmp_path) as segment:
        append(segment, batch(40, 100) + batch(41, 300) + batch(42, 200))
        size = len(batch(40, 100))
        index, times = segment.offset_index, segment.time_index
        assert [index.entry(k) for k in range(index.entries)] == [(41, size), (42, 2 * size)]
        assert [times.entry(k) for k in range(times.entries)] == [(300, 41)]
        assert segment.max_timestamp == (300, 41)
        assert segment.largest_timestamp_ms == 300


@pytest.mark.parametrize(
    ("base", "offset"), [(0, INT_MAX + 1), (INT_MAX, 0), (INT_MAX + 1, 0), (10, 1 << 40), (10, 9), (0, -1)]
)
def test_offsets_that_the_segment_cannot_hold(tmp_path: Path, base: int, offset: int) -> None:
    with make(tmp_path, base) as segment:
        columns = columns_of(batch(40, 1))
        with pytest.raises(OffsetOverflowError):
            segment.append(batch(40, 1), columns._replace(last_offset=np.array([offset])))
        assert segment.size_bytes == 0


@pytest.mark.parametrize(("base", "offset"), [(0, 0), (0, INT_MAX), (5, INT_MAX + 5), (INT_MAX + 1, INT_MAX + 2)])
def test_offsets_that_it_can(tmp_path: Path, base: int, offset: int) -> None:
    with make(tmp_path, base) as segment:
        append(segment, batch(offset, 1))
        assert segment.read_next_offset() == offset + 1


def test_a_segment_that_already_holds_too_much(tmp_path: Path) -> None:
    (tmp_path / f"{0:020}.log").write_bytes(batch(0, 1) + batch(INT_MAX + 1, 2))
    with make(tmp_path, 0) as segment, pytest.raises(OffsetOverflowError):
        segment.recover()


def test_a_full_index_refuses_before_anything_is_written(tmp_path: Path) -> None:
    with make(tmp_path, config=replace(CONFIG, segment_index_bytes=24)) as segment:
        for offset in (40, 41):
            append(segment, batch(offset, offset))
        assert segment.time_index.is_full  # two slots, one of them for the roll
        before = segment.size_bytes
        with pytest.raises(IndexFullError):
            append(segment, batch(42, 42))
        assert (segment.size_bytes, segment.offset_index.entries, segment.max_timestamp) == (before, 1, (41, 41))
        segment.on_become_inactive()
        assert segment.time_index.entries == 1


def test_offsets_that_fall_are_refused(tmp_path: Path) -> None:
    with make(tmp_path) as segment:
        append(segment, batch(40, 1))
        append(segment, batch(45, 2))
        with pytest.raises(OffsetOrderError):
            append(segment, batch(44, 3))
        assert segment.read_next_offset() == 46


def test_a_full_disk_is_a_typed_error_and_the_segment_recovers(tmp_path: Path) -> None:
    env = FaultEnv(str(tmp_path), Fault(at=3, errno=errno.ENOSPC, kinds=frozenset({"write_at"})))
    with LogSegment(str(tmp_path), 40, CONFIG, writable=True, env=env) as segment:
        append(segment, batch(40, 1))
        with pytest.raises(StorageError):
            append(segment, batch(41, 2))  # its index entry is what the disk refuses
    with make(tmp_path) as segment:
        assert segment.recover().next_offset == 42  # the batch itself had been written
        segment.offset_index.resize(CONFIG.segment_index_bytes)
        segment.time_index.resize(CONFIG.segment_index_bytes)
        append(segment, batch(42, 3))


# -- rolling


def test_rolling(tmp_path: Path) -> None:
    with make(tmp_path, clock=1000) as segment:

        def rolls(size: int = 100, timestamp: int = 0, offset: int = 41, now: int = 1000) -> bool:
            return segment.should_roll(
                incoming_size_bytes=size, max_timestamp_ms=timestamp, max_offset=offset, now_ms=now
            )

        assert not rolls(now=1_000_000)  # there is nothing in it
        append(segment, batch(40, 500))
        assert not rolls(timestamp=500)
        assert rolls(size=2001 - segment.size_bytes)
        assert not rolls(size=2000 - segment.size_bytes, timestamp=500)
        assert not rolls(timestamp=10_500, now=1 << 40)
        assert rolls(timestamp=10_501)  # by the first batch's timestamp, whatever the clock
        assert rolls(timestamp=500, offset=40 + INT_MAX + 1)
        assert not rolls(timestamp=500, offset=40 + INT_MAX)
    with make(tmp_path, clock=1000) as segment:
        assert rolls(timestamp=10_501)  # the first batch's timestamp is read from the log


def test_rolling_by_the_clock_without_timestamps(tmp_path: Path) -> None:
    with make(tmp_path, clock=1000) as segment:
        append(segment, batch(40, -1, magic=0))
        for now, expected in ((11_000, False), (11_001, True)):
            assert expected == segment.should_roll(
                incoming_size_bytes=1, max_timestamp_ms=-1, max_offset=41, now_ms=now
            )


def test_a_rolled_segment_is_trimmed_and_ends_with_the_largest_timestamp(tmp_path: Path) -> None:
    with make(tmp_path, config=replace(CONFIG, index_interval_bytes=1000)) as segment:
        append(segment, batch(40, 100) + batch(41, 50))
        segment.on_become_inactive()
        segment.on_become_inactive()
        segment.flush()
        assert (segment.offset_index.size_bytes, segment.time_index.size_bytes) == (0, 12)
        assert segment.time_index.last_entry == (100, 40)
        segment.release()
        segment.offset_index.resize(1000)
        segment.time_index.resize(1000)
        assert (segment.offset_index.size_bytes, segment.time_index.size_bytes) == (1000, 996)


# -- truncating


def test_truncation(tmp_path: Path) -> None:
    first, second, third = batch(40, 10, 11), batch(42, 20), batch(43, 30, 31)
    with make(tmp_path) as segment:
        append(segment, first + second + third)
        assert segment.truncate_to(45) == 0
        assert segment.truncate_to(44) == len(third)  # from the batch that holds it on
        assert segment.read_next_offset() == 43
        assert (segment.offset_index.last_offset, segment.time_index.last_entry) == (42, (20, 42))
        assert segment.max_timestamp == (20, 42)
        append(segment, batch(43, 15))
        assert segment.max_timestamp == (20, 42)
        assert segment.truncate_to(40) > 0
        assert (segment.size_bytes, segment.offset_index.entries, segment.time_index.entries) == (0, 0, 0)
        append(segment, first)
        assert segment.read_next_offset() == 42


def test_truncation_finds_the_largest_timestamp_that_no_entry_has(tmp_path: Path) -> None:
    with make(tmp_path, config=replace(CONFIG, index_interval_bytes=1000)) as segment:
        append(segment, batch(40, 10) + batch(41, 90) + batch(42, 95))
        segment.truncate_to(42)
        assert segment.max_timestamp == (90, 41)


def test_an_empty_segment_is_as_old_as_its_truncation(tmp_path: Path) -> None:
    now = [1000]
    with LogSegment(str(tmp_path), 40, CONFIG, writable=True, clock_ms=lambda: now[0]) as segment:
        append(segment, batch(40, 500))
        now[0] = 7000
        segment.truncate_to(40)
        assert segment.time_waited_for_roll_ms(8000, 0) == 1000
