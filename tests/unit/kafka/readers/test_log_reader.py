from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from logdex.errors import CorruptError, LogClosedError, LogInUseError, NotAStoreError, OffsetOutOfRangeError, UsageError
from logdex.io.env import DEFAULT_ENV
from logdex.kafka.batch.record import Record
from logdex.kafka.files.reader_positions import read_position, reader_names
from logdex.kafka.log.log import Log
from logdex.kafka.read.follow.follower import LogFollower
from logdex.kafka.readers.log_reader import LogReader
from logdex.kafka.readers.log_start import LogStart
from logdex.kafka.verify import verify
from logdex.testing import Fault, FaultEnv, Killed
from tests.examples import some


def a_log(path: Path, count: int) -> Log:
    log = Log.open(path / "events-0")
    append(log, range(count))
    return log


def append(log: Log, numbers: range) -> None:
    for number in numbers:
        log.append(Record(value=b"%d" % number))


def numbers(records: list[Record]) -> list[int]:
    return [int(record.value or b"") for record in records]


def test_a_reader_goes_on_where_it_committed(tmp_path: Path) -> None:
    with a_log(tmp_path, 20) as log:
        with log.reader("billing") as reader:
            assert numbers(reader.poll(5)) == [0, 1, 2, 3, 4]
            reader.commit()
            assert (reader.position, reader.committed) == (5, 5)
            assert numbers(reader.poll(5)) == [5, 6, 7, 8, 9]
        with log.reader("billing") as reader, log.reader("audit") as other:
            assert numbers(reader.poll()) == list(range(5, 20))
            assert reader.poll() == []
            append(log, range(20, 22))
            assert numbers(reader.poll(timeout=10)) == [20, 21]
            reader.commit()
            assert numbers(other.poll()) == list(range(22))
            reader.seek(3)
            assert numbers(reader.poll(1)) == [3]
        assert reader_names(log.path) == ["billing"]
        assert read_position(log.path, "billing") == 22
    report = verify(tmp_path / "events-0")
    assert report.findings == []
    assert not [info for info in report.infos if "readers" in str(info)]


def test_another_process_may_write(tmp_path: Path) -> None:
    with a_log(tmp_path, 3) as log, LogReader(log.path, "r") as reader:
        assert numbers(reader.poll()) == [0, 1, 2]

        def write() -> None:
            time.sleep(0.02)
            append(log, range(3, 5))

        thread = threading.Thread(target=write)
        thread.start()
        found = numbers(reader.poll(timeout=30))
        thread.join()
        found += numbers(reader.poll())
        assert found == [3, 4]


def test_a_name_is_open_once(tmp_path: Path) -> None:
    with a_log(tmp_path, 1) as log:
        with log.reader("r") as reader:
            with pytest.raises(LogInUseError, match="this process"):
                log.reader("r")
            with pytest.raises(UsageError, match="max_records"):
                reader.poll(0)
        with pytest.raises(LogClosedError):
            reader.poll()
        with pytest.raises(UsageError, match="name"):
            log.reader("../r")
        log.reader("r").close()
    with pytest.raises(UsageError, match="directory"):
        LogReader(tmp_path / "no", "r")


def test_a_reader_is_closed_with_its_log(tmp_path: Path) -> None:
    log = a_log(tmp_path, 3)
    reader = log.reader("r")
    assert numbers(reader.poll(1)) == [0]
    log.close()
    for ask in (reader.poll, reader.commit, lambda: reader.seek(0), lambda: log.reader("r")):
        with pytest.raises(LogClosedError):
            ask()
    with LogReader(log.path, "r") as other:
        assert (numbers(other.poll()), other.committed) == ([0, 1, 2], None)


def test_a_poll_that_waits_ends_with_its_log(tmp_path: Path) -> None:
    log = a_log(tmp_path, 1)
    reader = log.reader("r")
    assert numbers(reader.poll()) == [0]
    closing = threading.Timer(0.02, log.close)
    closing.start()
    with pytest.raises(LogClosedError, match="the reader was closed"):
        reader.poll(timeout=60)
    closing.join()


def test_what_was_aborted_is_left_out(tmp_path: Path) -> None:
    with a_log(tmp_path, 1) as log:
        for value, end in ((b"7", "abort"), (b"8", "commit")):
            transaction = log.transaction(5)
            transaction.append([Record(value=value)])
            getattr(transaction, end)()
        with log.reader("r", isolation="read_committed") as reader:
            assert numbers(reader.poll()) == [0, 8]
            transaction = log.transaction(5)
            transaction.append([Record(value=b"9")])
            append(log, range(10, 12))
            assert reader.poll() == []
            reader.commit()
        with log.reader("r", isolation="read_committed") as reader:
            transaction.commit()
            assert numbers(reader.poll()) == [9, 10, 11]


def test_a_damaged_position_is_named(tmp_path: Path) -> None:
    with a_log(tmp_path, 1) as log:
        with log.reader("r") as reader:
            reader.poll()
            reader.commit()
        for text in ("", "[", '{"offset": -1}', '{"offset": true}', "[]", "{}"):
            (tmp_path / "events-0" / ".logdex-readers" / "r.json").write_text(text)
            with pytest.raises(CorruptError, match="position"):
                log.reader("r")


def test_a_kill_at_each_call_of_a_commit(tmp_path: Path) -> None:
    for at in some(range(1, 200), 12):
        path = tmp_path / str(at)
        with a_log(path, 10) as log:
            with log.reader("r") as reader:
                reader.poll(4)
                reader.commit()
            env = FaultEnv(str(path), Fault(at))
            try:
                with LogReader(log.path, "r", env=env) as reader:
                    reader.poll(2)
                    reader.commit()
            except Killed:
                env.release()
            env.survivor(str(tmp_path / f"cut-{at}"), at)
            for left in (path, tmp_path / f"cut-{at}"):
                assert read_position(str(left / "events-0"), "r") in (4, 6)
            if not env.killed:
                assert read_position(str(tmp_path / f"cut-{at}" / "events-0"), "r") == 6
                return
    assert DEFAULT_ENV.is_dir(str(tmp_path))
    raise AssertionError("a commit makes more calls than expected")


def test_a_position_behind_a_truncated_log_is_told_and_skips_nothing(tmp_path: Path) -> None:
    with Log.open(tmp_path / "events-0") as log:
        for number in range(10):
            log.append(Record(value=b"old %d" % number))
        with log.reader("b") as reader:
            assert len(reader.poll(100)) == 10
            reader.commit()
            with pytest.raises(OffsetOutOfRangeError):
                reader.seek(11)
            assert reader.poll() == []
        log.truncate_to(4)
        with log.reader("b") as reader:
            for number in range(4, 15):
                log.append(Record(value=b"new %d" % number))
            for _ in range(2):
                with pytest.raises(OffsetOutOfRangeError, match="offset 10 is not in 0 to 4"):
                    reader.poll()
            reader.seek(4)
            assert [record.value for record in reader.poll(100)] == [b"new %d" % number for number in range(4, 15)]


def test_numbers_and_names_that_cannot_be(tmp_path: Path) -> None:
    wrong: list[tuple[Callable[[Any], Any], str]] = [
        (lambda reader: reader.poll("3"), "max_records is '3'"),
        (lambda reader: reader.poll(0), "max_records must be 1 or more"),
        (lambda reader: reader.poll(3, None), "timeout is None"),
        (lambda reader: reader.seek("5"), "offset is '5'"),
    ]
    with Log.open(tmp_path / "events-0") as log, log.reader("b") as opened:
        for call, told in wrong:
            with pytest.raises(UsageError, match=told):
                call(opened)
        name: Any = None
        with pytest.raises(UsageError, match="None cannot name a reader"):
            log.reader(name)


def test_what_is_no_partition_is_refused(tmp_path: Path) -> None:
    for name in ("store", "logs"):
        (tmp_path / name / "commitlog").mkdir(parents=True)
        for make in (lambda path: LogReader(path, "b"), LogFollower):
            with pytest.raises(NotAStoreError, match="is no partition"):
                make(tmp_path / name)
        assert sorted(each.name for each in (tmp_path / name).iterdir()) == ["commitlog"]


def test_deleted_records_are_passed_over(tmp_path: Path) -> None:
    with a_log(tmp_path, 10) as log:
        with log.reader("slow") as reader:
            reader.poll(3)
            reader.commit()
        log.delete_records(5)
        for reader in log.reader("slow"), log.reader("new"), LogReader(log.path, "other"):
            with reader:
                assert reader.position == 5
                assert numbers(reader.poll()) == [5, 6, 7, 8, 9]
                reader.seek(2)
                assert numbers(reader.poll()) == [5, 6, 7, 8, 9]


def records(count: int, text: str) -> list[Record]:
    return [Record(value=f"{text} {number}".encode()) for number in range(count)]


@pytest.mark.parametrize("grown_to", [20, 120, 400])
def test_a_log_that_is_cut_before_an_open_reader(tmp_path: Path, grown_to: int) -> None:
    with Log.open(tmp_path / "events-0") as log, log.reader("r") as reader:
        for record in records(300, "old"):
            log.append(record)
        assert len(reader.poll(200)) == 200
        reader.commit()
        assert len(reader.poll(50)) == 50
        log.truncate_to(10)
        for record in records(grown_to - 10, "new"):
            log.append(record)
        for call in (reader.commit, reader.poll, reader.poll, reader.commit):
            with pytest.raises(OffsetOutOfRangeError, match="offset 250 is not in 0 to 10") as told:
                call()
            assert "seek(10)" in str(told.value)
        assert (reader.position, reader.committed) == (250, 200)
        assert read_position(log.path, "r") == 200
        reader.seek(10)
        assert [record.value for record in reader.poll()] == [f"new {n}".encode() for n in range(grown_to - 10)]
        reader.commit()
        assert read_position(log.path, "r") == grown_to


def test_what_was_read_ahead_and_cut_off_is_not_returned(tmp_path: Path) -> None:
    with Log.open(tmp_path / "events-0") as log, log.reader("r") as reader:
        log.append(records(4, "first"))
        for record in records(300, "old"):
            log.append(record)
        assert len(reader.poll(2)) == 2
        log.truncate_to(100)
        for record in records(20, "new"):
            log.append(record)
        found = [record.value for record in reader.poll()]
        assert (found[:2], len(found)) == ([b"first 2", b"first 3"], 118)
        assert found[97:] == [b"old 95", *(f"new {number}".encode() for number in range(20))]
        reader.commit()


@pytest.mark.parametrize("has_polled", [True, False])
def test_a_log_that_is_cut_and_grows_past_a_committed_offset(tmp_path: Path, has_polled: bool) -> None:
    with Log.open(tmp_path / "events-0") as log:
        append(log, range(50))
        with log.reader("r") as reader:
            reader.poll()
            reader.commit()
        opened = None if has_polled else log.reader("r")
        log.truncate_to(20)
        append(log, range(120, 200))
        with opened or log.reader("r") as reader:
            for _ in range(2):
                with pytest.raises(OffsetOutOfRangeError, match="offset 50 is not in 0 to 0"):
                    reader.poll()
            reader.seek(50)
            assert numbers(reader.poll(1)) == [150]
            reader.seek(50)
            reader.commit()  # at the same offset, but behind other records
        with log.reader("r") as reader:
            assert numbers(reader.poll(1)) == [150]


def test_records_that_are_deleted_under_an_open_reader_are_passed_over(tmp_path: Path) -> None:
    with a_log(tmp_path, 300) as log, log.reader("r") as reader, LogReader(log.path, "other") as other:
        for each in (reader, other):
            assert numbers(each.poll(10)) == list(range(10))
            each.commit()
        log.delete_records(200)
        for each in (reader, other):
            assert numbers(each.poll(3)) == [200, 201, 202]
            each.commit()
        log.roll()
        log.delete_records(300)
        assert reader.poll() == other.poll() == []
        append(log, range(300, 302))
        assert numbers(reader.poll()) == numbers(other.poll()) == [300, 301]


def test_an_open_reader_of_a_log_that_begins_anew(tmp_path: Path) -> None:
    with a_log(tmp_path, 30) as log, log.reader("r") as reader, log.reader("late") as late:
        assert len(reader.poll(20)) == 20
        late.poll(5)
        log.truncate_fully_and_start_at(8)
        append(log, range(1000, 1004))
        with pytest.raises(OffsetOutOfRangeError, match="offset 20 is not in 8 to 12"):
            reader.poll()
        assert numbers(late.poll()) == [1000, 1001, 1002, 1003]


def test_positions_of_earlier_versions_are_read(tmp_path: Path) -> None:
    with a_log(tmp_path, 10) as log:
        file = tmp_path / "events-0" / ".logdex-readers" / "r.json"
        file.parent.mkdir()
        for text in ('{"offset": 4}', '{"offset": 4, "batch": [1, "2", 3]}', '{"offset": 4, "more": 1}'):
            file.write_text(text)
            with log.reader("r") as reader:
                assert numbers(reader.poll(1)) == [4]


def test_a_partition_that_was_renamed_keeps_its_start(tmp_path: Path) -> None:
    with Log.open(tmp_path / "events-0") as log:
        log.append([Record(value=b"%d" % number) for number in range(20)])
        with log.reader("billing") as reader:
            assert len(reader.poll(5)) == 5
            reader.commit()
        log.delete_records(12)
    (tmp_path / "events-0").rename(tmp_path / "copied-3")
    assert LogStart(str(tmp_path / "copied-3"), DEFAULT_ENV).now() == 12
    with LogReader(tmp_path / "copied-3", "billing") as reader:
        assert [record.offset for record in reader.poll()] == list(range(12, 20))
