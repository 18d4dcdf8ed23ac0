"""Following a directory that another writes."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from logdex.errors import CorruptError, CrcMismatchError, StorageError
from logdex.kafka.batch.record import Record
from logdex.kafka.log.log import Log
from logdex.kafka.read.follow import LogFollower
from tests.unit.kafka.batch import batch_bytes as kb


def values(records: list[Record]) -> list[bytes | None]:
    return [record.value for record in records]


def put(log: Log, *texts: str, **options: object) -> None:
    log.append([Record(value=text.encode(), timestamp_ms=1) for text in texts], **options)  # type: ignore[arg-type]


def drain(follower: LogFollower) -> list[bytes | None]:
    """All that is there."""
    found: list[bytes | None] = []
    while more := follower.poll():
        found += values(more)
    return found


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "events-0")


def test_it_gives_what_comes_across_rolls(path: str) -> None:
    with Log.open(path) as log, LogFollower(path) as follower:
        assert follower.poll() == []
        put(log, "a", "b")
        assert values(follower.poll()) == [b"a", b"b"]
        assert follower.poll() == []
        put(log, "c")
        log.roll()
        put(log, "d")
        log.roll()
        put(log, "e")
        assert drain(follower) == [b"c", b"d", b"e"]
        assert follower.offset == 5


def test_it_begins_within_a_batch_and_behind_the_end(path: str) -> None:
    with Log.open(path) as log:
        put(log, "a", "b", "c")
        put(log, "d")
        with LogFollower(path, 1) as follower, LogFollower(path, 5) as later:
            assert drain(follower) == [b"b", b"c", b"d"]
            assert drain(later) == []
            put(log, "e", "f")
            assert drain(later) == [b"f"]
            assert drain(follower) == [b"e", b"f"]


def test_a_torn_batch_is_waited_for(path: str, tmp_path: Path) -> None:
    with Log.open(path) as log:
        put(log, "whole")
        put(log, "in two pieces")
    copy = tmp_path / "copy-0"
    copy.mkdir()
    data = (Path(path) / "00000000000000000000.log").read_bytes()
    first = 12 + int.from_bytes(data[8:12], "big")
    file = copy / "00000000000000000000.log"
    with LogFollower(str(copy)) as follower:
        found = []
        for size in range(len(data) + 1):
            file.write_bytes(data[:size])
            found.append(
                drain(follower) if size in (first - 1, first, len(data) - 1, len(data)) else values(follower.poll())
            )
        assert found[first] == [b"whole"]
        assert found[len(data)] == [b"in two pieces"]
        assert sum(map(len, found)) == 2


def test_zeros_that_are_not_written_yet_are_waited_for(path: str, tmp_path: Path) -> None:
    with Log.open(path) as log:
        put(log, "a")
    data = (Path(path) / "00000000000000000000.log").read_bytes()
    file = tmp_path / "copy-0" / "00000000000000000000.log"
    file.parent.mkdir()
    file.write_bytes(bytes(4096))
    with LogFollower(str(file.parent)) as follower:
        assert drain(follower) == []
        file.write_bytes(data.ljust(4096, b"\0"))
        assert drain(follower) == [b"a"]


def test_a_wrong_checksum_is_an_error_once_it_stays(path: str) -> None:
    with Log.open(path) as log:
        put(log, "a")
        put(log, "b")
    file = Path(path) / "00000000000000000000.log"
    data = bytearray(file.read_bytes())
    data[-2] ^= 1
    file.write_bytes(data)
    with LogFollower(path) as follower:
        assert values(follower.poll()) == [b"a"]
        with pytest.raises(CrcMismatchError) as raised:
            [follower.poll() for _ in range(100)]
        assert raised.value.position == len(data) // 2


def test_it_follows_truncation_retention_and_a_new_beginning(path: str) -> None:
    with Log.open(path) as log, LogFollower(path) as follower:
        put(log, "a")
        put(log, "b")
        assert drain(follower) == [b"a", b"b"]
        log.truncate_to(1)
        assert follower.poll() == []
        put(log, "c", "d")
        assert drain(follower) == [b"c", b"d"]
        log.roll()
        put(log, "e")
        log.delete_records(3)
        assert drain(follower) == [b"e"]
        log.truncate_fully_and_start_at(50)
        put(log, "f")
        assert drain(follower) == [b"f"]
        assert follower.offset == 51


def test_offsets_that_retention_took_are_jumped_over(path: str) -> None:
    with Log.open(path) as log:
        put(log, "a")
        log.roll()
        put(log, "b")
        log.delete_records(1)
        with LogFollower(path, 0) as follower:
            assert drain(follower) == [b"b"]


def test_committed_records_come_when_they_are_committed(path: str) -> None:
    with (
        Log.open(path) as log,
        LogFollower(path, isolation="read_committed") as follower,
        LogFollower(path) as all_of_it,
    ):
        put(log, "plain 1")
        good, bad = log.transaction(1), log.transaction(2)
        good.append(Record(value=b"good 1", timestamp_ms=1))
        bad.append(Record(value=b"bad", timestamp_ms=1))
        put(log, "plain 2")
        assert drain(follower) == [b"plain 1"]
        assert drain(all_of_it) == [b"plain 1", b"good 1", b"bad", b"plain 2"]
        bad.abort()
        good.append(Record(value=b"good 2", timestamp_ms=1))
        assert drain(follower) == []
        good.commit()
        assert drain(follower) == [b"good 1", b"plain 2", b"good 2"]
        assert values(log.read(0, isolation="read_committed")) == [b"plain 1", b"good 1", b"plain 2", b"good 2"]


def test_a_poll_is_not_empty_while_committed_records_are_left(path: str) -> None:
    with Log.open(path, segment_bytes=900) as log:
        with log.transaction(1) as transaction:
            for number in range(40):
                transaction.append([Record(value=b"%d" % number, timestamp_ms=1)])
            transaction.abort()
        put(log, "a")
        with LogFollower(path, isolation="read_committed") as follower:
            assert values(follower.poll()) == [b"a"]
            assert follower.poll() == []


def test_records_of_a_log_that_begins_anew_before_what_was_read(path: str) -> None:
    with Log.open(path) as log, LogFollower(path) as follower:
        log.truncate_fully_and_start_at(10)
        put(log, "a", "b")
        assert drain(follower) == [b"a", b"b"]
        log.truncate_to(7)
        put(log, "c")
        assert drain(follower) == [b"c"]
        assert follower.offset == 8


def test_the_iterator_waits_until_it_is_stopped(path: str) -> None:
    with Log.open(path) as log, LogFollower(path, poll_interval_s=0.001) as follower:
        found: list[bytes | None] = []

        def follow() -> None:
            found.extend(record.value for record in follower)

        thread = threading.Thread(target=follow)
        thread.start()
        for number in range(30):
            put(log, str(number))
            if number % 7 == 0:
                log.roll()
        while thread.is_alive() and follower.offset < 30:
            time.sleep(0.002)
        follower.stop()
        thread.join(10)
        assert found == [str(number).encode() for number in range(30)]


def test_a_directory_that_is_not_there(tmp_path: Path) -> None:
    with LogFollower(str(tmp_path / "none-0")) as follower, pytest.raises(StorageError):
        follower.poll()


@pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed"])
def test_the_first_batch_may_begin_before_the_first_offset(path: str, isolation: str) -> None:
    with Log.open(path) as log, LogFollower(path, 1, isolation=isolation) as follower:
        put(log, "a", "b")
        assert drain(follower) == [b"b"]


def test_offsets_that_a_compaction_moved_into_another_segment_come(path: str) -> None:
    with Log.open(path, cleanup_policy="compact") as log, LogFollower(path) as follower:
        for keys in ("ab", "cd", "e"):
            log.append([Record(key=key.encode(), value=key.encode()) for key in keys])
            log.roll()
        assert values(follower.poll()) == [b"a", b"b"]
        log.compact()
        assert [segment.base_offset for segment in log.segments] == [0, 5]
        assert drain(follower) == [b"c", b"d", b"e"]


def test_a_transaction_whose_end_was_removed_holds_nothing_back(path: str) -> None:
    """Its records are gone too: retention takes whole segments, from the log's start on."""
    with Log.open(path) as log, LogFollower(path, isolation="read_committed") as follower:
        transaction = log.transaction(1)
        transaction.append(Record(value=b"removed", timestamp_ms=1))
        assert drain(follower) == []
        log.roll()
        transaction.commit()
        log.roll()
        log.delete_records(2)
        put(log, "a")
        assert drain(follower) == [b"a"]


def test_a_transaction_whose_end_was_cut_off_is_open_again(path: str) -> None:
    with Log.open(path) as log, LogFollower(path, isolation="read_committed") as follower:
        with log.transaction(1) as transaction:
            transaction.append(Record(value=b"a", timestamp_ms=1))
        assert drain(follower) == [b"a"]
        log.truncate_to(1)
        assert drain(follower) == []
        put(log, "b")
        assert drain(follower) == []
        log.append_end_marker(1, 0, commit=True)
        assert drain(follower) == [b"b"]


@pytest.mark.parametrize("rolls", [1, 3])
def test_records_come_after_the_followed_segment_was_cut_away(path: str, rolls: int) -> None:
    with Log.open(path) as log, LogFollower(path) as follower:
        for number in range(rolls + 1):
            put(log, f"first {number}", f"second {number}")
            log.roll()
        assert len(drain(follower)) == 2 * rolls + 2
        log.truncate_to(2)
        assert drain(follower) == []
        assert follower.offset == 2
        for number in range(20):
            put(log, str(number))
        assert drain(follower) == [b"%d" % number for number in range(20)]


@pytest.mark.parametrize("grown", [1, 2, 5])
@pytest.mark.parametrize("rolled", [False, True])
def test_records_come_that_were_written_after_a_cut_between_two_polls(path: str, grown: int, rolled: bool) -> None:
    with Log.open(path) as log, LogFollower(path) as follower:
        for text in "abcd":
            put(log, text)
        assert drain(follower) == [b"a", b"b", b"c", b"d"]
        log.truncate_to(2)
        for number in range(grown):
            put(log, str(number))
            if rolled:
                log.roll()
        assert drain(follower) == [b"%d" % number for number in range(grown)]
        assert follower.offset == 2 + grown


def test_a_cut_before_its_first_offset(path: str) -> None:
    """What was read goes; what is before the first offset was not asked for."""
    with Log.open(path) as log, LogFollower(path, 3) as follower:
        put(log, "a", "b")
        put(log, "c", "d", "e")
        assert drain(follower) == [b"d", b"e"]
        log.truncate_to(2)
        put(log, "f", "g", "h", "i")
        assert drain(follower) == [b"g", b"h", b"i"]
        log.truncate_to(1)
        assert drain(follower) == []
        put(log, "j")
        assert drain(follower) == [b"j"]


@pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed"])
def test_a_cut_before_an_offset_that_is_waited_for(path: str, isolation: str) -> None:
    """Nothing was read yet, so that there is nothing to compare."""
    with Log.open(path) as log, LogFollower(path, 5, isolation=isolation) as follower:
        put(log, "a")
        put(log, "b", "c")
        assert drain(follower) == []
        log.truncate_to(1)
        put(log, "0123456789" * 9, "1", "2", "3", "4", "5")
        assert drain(follower) == [b"4", b"5"]


def test_a_compaction_is_no_cut(path: str) -> None:
    with Log.open(path, cleanup_policy="compact") as log, LogFollower(path) as follower:
        for number in range(30):
            log.append([Record(b"key-%d" % (number % 4), b"%d-%d" % (number, each)) for each in range(3)])
            if number % 5 == 4:
                log.roll()
        assert len(drain(follower)) == 90
        log.compact()
        log.append([Record(b"key", b"a")])
        assert drain(follower) == [b"a"]
        log.roll()
        log.compact()
        log.append([Record(b"key", b"b")])
        assert drain(follower) == [b"b"]
        assert follower.offset == 92


@pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed"])
def test_a_batch_of_many_records_comes_in_parts(path: str, isolation: str) -> None:
    with Log.open(path) as log, LogFollower(path, 7, isolation=isolation) as follower:
        log.append([Record(timestamp_ms=1)] * 25_000, compression="zstd")
        put(log, "last")
        parts = [follower.poll() for _ in range(4)]
        assert [len(part) for part in parts] == [10_000, 10_000, 4_994, 0]
        assert [record.offset for part in parts for record in part] == list(range(7, 25_001))
        with LogFollower(path, isolation=isolation) as other:
            assert other.poll()[-1].offset == 9_999
            assert other.offset == 10_000


def test_a_malformed_record_does_not_take_those_before_it(path: str) -> None:
    with Log.open(path) as log:
        put(log, "a")
    good = kb.record(0, 0, None, b"good")
    file = Path(path) / f"{0:020d}.log"
    file.write_bytes(
        file.read_bytes() + kb.batch(good + b"\x00" * 9, 2, base_offset=1) + kb.batch(good, 1, base_offset=3)
    )
    with LogFollower(path) as follower:
        assert values(follower.poll()) == [b"a", b"good"]
        with pytest.raises(CorruptError, match="malformed"):
            follower.poll()
        assert drain(follower) == [b"good"]
