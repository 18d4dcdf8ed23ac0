"""Batches of a leader with offsets far apart, up to the last one that there is."""

from __future__ import annotations

from pathlib import Path

import pytest

from logdex.errors import InvalidRecordError, UsageError
from logdex.kafka.batch.batch_writer import encode_batch
from logdex.kafka.batch.record import Record
from logdex.kafka.log.log import Log

LAST = (1 << 63) - 2  # the log then ends at the largest number that an offset can be


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "events-0")


def raw_batch(offset: int, count: int = 1) -> bytes:
    return encode_batch([Record(b"k", b"v", 5)] * count, base_offset=offset)


def test_batches_too_far_apart_for_one_segment_get_one_each(path: str) -> None:
    offsets = [5, 6, 5 + (1 << 31) - 1, 5 + (1 << 31), 1 << 33, LAST]
    with Log.open(path) as log:
        log.append_batches(b"".join(map(raw_batch, offsets)), assign_offsets=False)
        assert [segment.base_offset for segment in log.segments] == [0, 5 + (1 << 31) - 1, 1 << 33, LAST]
    with Log.open(path) as log:
        assert [record.offset for record in log.records()] == offsets


@pytest.mark.parametrize(
    ("offset", "count"), [(LAST + 1, 1), (LAST, 2), (LAST, 3), (LAST + 1, 2)], ids=["last", "end", "wraps", "behind"]
)
@pytest.mark.parametrize("is_alone", [True, False])
def test_offsets_past_the_largest_are_refused_before_anything_is_written(
    path: str, offset: int, count: int, is_alone: bool
) -> None:
    before = b"" if is_alone else raw_batch(3)
    with Log.open(path) as log:
        with pytest.raises(InvalidRecordError):
            log.append_batches(before + raw_batch(offset, count), assign_offsets=False)
        assert (log.log_end_offset, log.size_bytes, len(log.segments)) == (0, 0, 1)
        assert log.append(Record(b"k")).first_offset == 0


def test_a_log_that_ends_at_the_largest_offset_takes_no_more(path: str) -> None:
    with Log.open(path) as log:
        log.append_batches(raw_batch(LAST), assign_offsets=False)
        with pytest.raises(InvalidRecordError, match="no offsets are left"):
            log.append(Record(b"k"))
    with Log.open(path) as log:
        assert log.log_end_offset == LAST + 1


def test_a_log_that_ends_at_the_largest_offset_is_rolled_and_opened_again(path: str) -> None:
    with Log.open(path) as log:
        log.truncate_fully_and_start_at(LAST)
        log.append(Record(b"k"))
        for _ in range(2):
            log.roll()
        assert [segment.base_offset for segment in log.segments] == [LAST, LAST + 1]
    with Log.open(path) as log:
        assert (log.log_end_offset, [record.offset for record in log.records()]) == (LAST + 1, [LAST])


def test_no_log_begins_beyond_the_largest_offset(path: str) -> None:
    with Log.open(path) as log:
        with pytest.raises(UsageError, match="cannot start at 9223372036854775808"):
            log.truncate_fully_and_start_at(LAST + 2)
        assert log.append(Record(b"k")).first_offset == 0
