"""`Log.compact`: what it may touch, what it notes, and what goes on beside it."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from logdex.errors import CorruptError, OffsetOutOfRangeError, UsageError
from logdex.kafka.batch.record import Record
from logdex.kafka.files.checkpoints import TopicPartition, read_offset_checkpoint, write_offset_checkpoint
from logdex.kafka.log.cleaner.offset_map import ENTRY_SIZE_BYTES
from logdex.kafka.log.log import Log

NOW_MS = 1_700_000_000_000
NAME = TopicPartition("events", 0)


def opened(path: Path, **settings: Any) -> Log:
    settings = {"cleanup_policy": ("compact",), "segment_bytes": 1000, "index_interval_bytes": 100, **settings}
    return Log.open(str(path / "events-0"), clock_ms=lambda: NOW_MS, **settings)


def fill(log: Log, turns: int, keys: int = 3) -> None:
    for turn in range(turns):
        log.append(Record(b"key-%d" % (turn % keys), b"value-%d" % turn, NOW_MS + turn))


def checkpoint(path: Path) -> int | None:
    return read_offset_checkpoint(str(path / "events-0" / "cleaner-offset-checkpoint")).get(NAME)


def test_only_a_compacted_log_is_compacted(tmp_path: Path) -> None:
    with opened(tmp_path, cleanup_policy=("delete",)) as log, pytest.raises(UsageError, match="add 'compact'"):
        log.compact()


def test_a_buffer_without_room_for_a_key(tmp_path: Path) -> None:
    with opened(tmp_path) as log, pytest.raises(UsageError, match="dedupe buffer"):
        log.compact(dedupe_buffer_bytes=ENTRY_SIZE_BYTES - 1)


def test_the_active_segment_stays_and_the_checkpoint_says_how_far(tmp_path: Path) -> None:
    with opened(tmp_path) as log:
        fill(log, 100)
        active = log.segments[-1].base_offset
        report = log.compact()
        assert (report.first_dirty_offset, report.end_offset) == (0, active)
        assert checkpoint(tmp_path) == active
        offsets = [record.offset for record in log.records()]
        assert offsets == [active - 3, active - 2, active - 1, *range(active, 100)]
        assert log.compact().first_dirty_offset == active


def test_a_full_map_takes_more_rounds(tmp_path: Path) -> None:
    with opened(tmp_path) as log:
        fill(log, 100, keys=10)
        log.roll()
        report = log.compact(dedupe_buffer_bytes=4 * ENTRY_SIZE_BYTES)
        assert report.rounds > 5
        assert [record.offset for record in log.records()] == list(range(90, 100))


def test_a_cut_takes_the_checkpoint_along(tmp_path: Path) -> None:
    with opened(tmp_path) as log:
        fill(log, 100)
        log.roll()
        log.compact()
        log.truncate_to(98)
        assert checkpoint(tmp_path) == 98
        fill(log, 60)
        log.roll()
        assert log.compact().first_dirty_offset == 98
        assert len(list(log.records())) == 3


@pytest.mark.parametrize("wrong", [500, 3])
def test_a_checkpoint_of_another_log_counts_for_nothing(tmp_path: Path, wrong: int) -> None:
    with opened(tmp_path) as log:
        fill(log, 100)
        log.roll()
        log.delete_records(30)
        write_offset_checkpoint(str(tmp_path / "events-0" / "cleaner-offset-checkpoint"), {NAME: wrong})
        assert log.compact().first_dirty_offset == 30


def test_young_segments_and_open_transactions_wait(tmp_path: Path) -> None:
    with opened(tmp_path, min_compaction_lag_ms=50) as log:
        fill(log, 100)
        log.roll()
        young = next(each.base_offset for each in log.segments if each.largest_timestamp_ms > NOW_MS + 30)
        assert log.compact(NOW_MS + 80).end_offset == young
    with opened(tmp_path) as log:
        log.append(Record(b"open", b"", NOW_MS), producer_id=1, producer_epoch=0, transactional=True)
        base = log.segments[-1].base_offset
        fill(log, 100)
        assert log.compact().end_offset == base


def test_retention_follows(tmp_path: Path) -> None:
    with opened(tmp_path, cleanup_policy=("compact", "delete"), retention_ms=1000) as log:
        fill(log, 100, keys=1000)
        report = log.compact(NOW_MS + 5000)
        assert report.retained_away
        assert log.log_start_offset == 100


def test_a_flipped_bit_is_located_and_nothing_changes(tmp_path: Path) -> None:
    with opened(tmp_path) as log:
        fill(log, 100)
        log.roll()
        victim = log.segments[2]
        position = list(victim.log.headers())[3].position
        data = bytearray(Path(victim.log.path).read_bytes())
        data[position + 70] ^= 1
        Path(victim.log.path).write_bytes(data)
        before = [each.base_offset for each in log.segments]
        with pytest.raises(CorruptError) as caught:
            log.compact()
        assert (caught.value.path, caught.value.position) == (victim.log.path, position)
        assert [each.base_offset for each in log.segments] == before
        assert checkpoint(tmp_path) is None
        fill(log, 1)
        assert not list((tmp_path / "events-0").glob("*.cleaned"))


def test_appends_reads_and_cuts_go_on(tmp_path: Path) -> None:
    with opened(tmp_path) as log:
        fill(log, 300)
        errors: list[BaseException] = []
        stop = threading.Event()

        def work(action: object) -> None:
            try:
                while not stop.is_set():
                    action()  # type: ignore[operator]
            except BaseException as error:
                errors.append(error)

        def read() -> None:
            try:
                offsets = [record.offset for record in log.records()]
            except OffsetOutOfRangeError:
                return  # cut while it was read
            assert offsets == sorted(offsets)

        actions = [lambda: fill(log, 5), read, lambda: log.compact() and None, lambda: log.compact() and None]
        threads = [threading.Thread(target=work, args=(action,)) for action in actions]
        for thread in threads:
            thread.start()
        for _ in range(20):
            log.truncate_to(log.log_end_offset - 7)
        stop.set()
        for thread in threads:
            thread.join()
        assert errors == []
        log.roll()
        assert log.compact().interrupted is None
        assert len({record.key for record in log.records()}) == len(list(log.records())) == 3


def test_close_ends_it(tmp_path: Path) -> None:
    log = opened(tmp_path)
    fill(log, 400, keys=40)
    log.roll()
    reports = []
    thread = threading.Thread(target=lambda: reports.append(log.compact(dedupe_buffer_bytes=ENTRY_SIZE_BYTES)))
    thread.start()
    while log._core.cleaner_lock.locked() is False and thread.is_alive():
        pass
    log.close()
    thread.join()
    assert [report.interrupted for report in reports] == ["the log is being closed"]
    with opened(tmp_path) as again:
        assert again.load_report.was_clean
        assert len({record.key for record in again.records()}) == 40


def test_a_start_within_a_segment_that_cannot_be_cleaned_yet(tmp_path: Path) -> None:
    """The segment is written anew up to its end: what was aborted behind the log's start stays
    aborted."""
    record = Record(b"key", b"value", NOW_MS)
    with opened(tmp_path, segment_bytes=10_000) as log:
        log.append([record, record])
        log.append([record], producer_id=2, producer_epoch=0, transactional=True)
        log.append([record, record], producer_id=1, producer_epoch=0, transactional=True)
        log.append_end_marker(1, 0, commit=False, timestamp_ms=NOW_MS)
        log.roll()
        log.append([record])
        log.delete_records(1)
        assert (log.last_stable_offset, log.log_start_offset) == (2, 1)
        log.compact()
        log.append_end_marker(2, 0, commit=True, timestamp_ms=NOW_MS)
        assert [each.offset for each in log.records(isolation="read_committed")] == [1, 2, 6]
