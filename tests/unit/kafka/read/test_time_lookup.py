"""One answer to a look-up by time: of the log that is open, and of those who look at its directory
meanwhile."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import logdex
from logdex.errors import UsageError
from logdex.kafka.batch.record import Record
from logdex.kafka.log.log import Log
from logdex.kafka.segment.file_records import TimestampAndOffset
from logdex.kafka.snapshot.partition_snapshot import PartitionSnapshot

LARGEST = -3


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "events-0")


def append(log: Log, timestamps_ms: Sequence[int]) -> None:
    """Two records a batch."""
    for at in range(0, len(timestamps_ms), 2):
        log.append([Record(value=b"v" * 40, timestamp_ms=each) for each in timestamps_ms[at : at + 2]])


def answers(log: Log, path: str, timestamp_ms: int, isolation: str = "read_uncommitted") -> TimestampAndOffset | None:
    """What the log says, and a snapshot beside it."""
    found = log.offset_for_timestamp(timestamp_ms, isolation=isolation)
    with logdex.open(path) as snapshot:
        assert isinstance(snapshot, PartitionSnapshot)
        assert snapshot.offset_for_timestamp(timestamp_ms, isolation=isolation) == found
    return found


def test_the_largest_timestamp_may_have_been_appended_since_the_last_entry(path: str) -> None:
    with Log.open(path) as log:
        append(log, [100, 200, 900, 300, 400, 900])
        assert answers(log, path, LARGEST) == (900, 2, 0)
        log.roll()
        append(log, [950, 910])
        assert answers(log, path, LARGEST) == (950, 6, 0)
        assert answers(log, path, 901) == (950, 6, 0)


@pytest.mark.parametrize("modified_s", [0, 1 << 32])
def test_a_segment_without_time_entries_is_searched(tmp_path: Path, path: str, modified_s: int) -> None:
    """Whenever its .log was last changed: that is no time of its records."""
    import os

    with Log.open(path) as log:
        append(log, [100, 200])
        log.roll()
        append(log, [300, 400])
        segments = log.segments
    os.remove(segments[0].time_index.path)
    os.utime(segments[0].log.path, (modified_s, modified_s))
    with Log.open(path) as log:
        for timestamp, offset in ((50, 0), (150, 1), (250, 2), (350, 3)):
            found = answers(log, path, timestamp)
            assert found is not None
            assert found.offset == offset
        assert answers(log, path, LARGEST) == (400, 3, 0)


def test_nothing_is_found_behind_the_end_that_a_reader_has(path: str) -> None:
    with Log.open(path) as log:
        append(log, [100, 200])
        log.transaction(7).append([Record(value=b"open", timestamp_ms=300)])
        assert answers(log, path, LARGEST) == (300, 2, 0)
        assert answers(log, path, 250) == (300, 2, 0)
        assert answers(log, path, LARGEST, "read_committed") is None
        assert answers(log, path, 250, "read_committed") is None
        assert answers(log, path, 150, "read_committed") == (200, 1, 0)
        log.high_watermark = 2
        assert log.offset_for_timestamp(LARGEST) is None


def test_ends_of_the_log(path: str) -> None:
    with Log.open(path) as log:
        assert [answers(log, path, each) for each in (LARGEST, 0)] == [None, None]
        append(log, [100, 200, 300, 400])
        log.delete_records(1)
        assert [answers(log, path, each) for each in (-2, -1)] == [(-1, 1, -1), (-1, 4, -1)]
        assert answers(log, path, 0) == (200, 1, 0)
        with pytest.raises(UsageError, match="timestamp_ms is -4"):
            answers(log, path, -4)


@settings(max_examples=40)
@given(
    segments=st.lists(st.lists(st.integers(0, 30), min_size=1, max_size=9), min_size=1, max_size=4),
    start=st.integers(0, 5),
)
def test_answers_are_the_first_record_that_reaches_the_time(
    tmp_path_factory: pytest.TempPathFactory, segments: list[list[int]], start: int
) -> None:
    path = str(tmp_path_factory.mktemp("log") / "events-0")
    with Log.open(path, index_interval_bytes=100) as log:
        for timestamps in segments:
            log.roll()
            append(log, timestamps)
        start = min(start, log.log_end_offset)
        log.delete_records(start)
        records = [(timestamp, offset) for offset, timestamp in enumerate(chain.from_iterable(segments))]
        for wanted in range(0, 32, 3):
            reaching = [at for at in records if at[0] >= wanted and at[1] >= start]
            found = answers(log, path, wanted)
            if found is not None:
                assert found[:2] == reaching[0]
            elif reaching:  # the first segment that reaches the time does so below the log's start: a broker ends there
                assert any(at[0] >= wanted for at in records[:start])
