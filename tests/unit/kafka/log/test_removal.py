"""`Log`: what goes, one writer, several threads."""

from __future__ import annotations

import itertools
import threading
from pathlib import Path
from typing import Literal

import pytest

from logdex.errors import LogClosedError, LogInUseError, MissingFileError, OffsetOutOfRangeError, UsageError
from logdex.io.env import Env
from logdex.kafka.batch.record import Record
from logdex.kafka.log.log import Log
from logdex.kafka.verify import verify
from tests.examples import cases
from tests.unit.kafka.log.logs import put, values


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "events-0")


# -- what goes -----------------------------------------------------------------------------------
def test_delete_records_removes_whole_segments(path: str) -> None:
    with Log.open(path) as log:
        for number in range(6):
            put(log, str(number))
            if number % 2:
                log.roll()
        assert log.delete_records(3) == 3
        assert [segment.base_offset for segment in log.segments] == [2, 4, 6]
        assert values(log.read(3)) == ["3", "4", "5"]
        with pytest.raises(OffsetOutOfRangeError):
            log.read(2)
        assert log.leader_epochs == [(0, 3)]
        assert log.delete_records(1) == 3  # never back
        assert log.delete_records(-1) == 6
        assert log.read(6) == []
        put(log, "6")
    with Log.open(path) as log:
        assert (log.log_start_offset, log.log_end_offset) == (6, 7)


def test_the_log_start_outlives_a_clean_close(path: str) -> None:
    with Log.open(path) as log:
        put(log, "a", "b", "c")
        log.delete_records(2)
    with Log.open(path) as log:
        assert log.load_report.was_clean
        assert (log.log_start_offset, log.segments[0].base_offset) == (2, 0)
        assert values(log.read(2)) == ["c"]


def test_retention_by_size_and_age(path: str) -> None:
    with Log.open(path, retention_bytes=200, retention_ms=-1) as log:
        for number in range(5):
            put(log, str(number), timestamp_ms=1000 * number)
            log.roll()
        size = log.size_bytes // 5
        gone = log.apply_retention(0)
        assert log.size_bytes >= 200 > log.size_bytes - size
        assert gone == list(range(log.log_start_offset))
        assert log.apply_retention(0) == []
    with Log.open(path, retention_ms=1000) as log:
        assert log.apply_retention(3000) == []
        assert log.apply_retention(5001) == [2, 3, 4]
        assert log.log_start_offset == log.log_end_offset == 5
        put(log, "5", timestamp_ms=10_000)
        assert log.apply_retention(10_500) == []
        assert log.apply_retention(11_001) == [5]  # the active segment too, a new one is rolled
        assert [segment.base_offset for segment in log.segments] == [6]
    names = sorted(file.name for file in Path(path).iterdir())
    assert [name for name in names if name.endswith((".log", ".deleted"))] == ["00000000000000000006.log"]
    assert [name for name in names if name.endswith(".snapshot")] == ["00000000000000000006.snapshot"]
    with Log.open(path, cleanup_policy=("compact",), retention_ms=0) as log:
        put(log, "kept", timestamp_ms=1)
        assert log.apply_retention(1 << 40) == []


def test_truncation(path: str) -> None:
    with Log.open(path, index_interval_bytes=0, flush="sync") as log:
        for number in range(10):
            log.append(Record(value=str(number).encode()), producer_id=1, producer_epoch=0, leader_epoch=number // 4)
            if number in (3, 6):
                log.roll()
        assert not log.truncate_to(10)
        assert not log.truncate_to(99)
        assert log.truncate_to(5)
        assert log.log_end_offset == log.high_watermark == 5
        assert [segment.base_offset for segment in log.segments] == [0, 4]
        assert log.leader_epochs == [(0, 0), (1, 4)]
        state = log.producer(1)
        assert state is not None
        assert state.last_sequence == 4
        assert log.recovery_point <= 5
        log.append(Record(value=b"new"), producer_id=1, producer_epoch=0, sequence=5)
        assert values(log.read(3)) == ["3", "4", "new"]
        log.truncate_to(0)
        assert log.log_end_offset == 0
        assert log.read(0) == []
        assert log.producer(1) is None
        log.append(Record(value=b"again"))
        with pytest.raises(UsageError):
            log.truncate_to(-1)
    with Log.open(path) as log:
        assert values(log.read(0)) == ["again"]


@pytest.mark.parametrize(("start", "offset"), cases(itertools.product([0, 7, 14], range(31)), 4))
def test_a_truncation_within_a_batch(path: str, start: int, offset: int) -> None:
    """The batch goes as a whole, and the end is the same when the log is opened again."""
    with Log.open(path, index_interval_bytes=0) as log:
        for _ in range(3):
            log.append([Record(value=b"v") for _ in range(10)], producer_id=1, producer_epoch=0)
        log.delete_records(start)
        log.truncate_to(offset)
        end = log.log_end_offset
        whole = offset // 10 * 10
        assert end == (whole if whole >= min(start, offset) else min(start, offset))
    assert verify(path).findings == []
    with Log.open(path) as log:
        assert (log.log_end_offset, log.log_start_offset) == (end, min(start, end))
        assert log.load_report.was_clean
        log.append(Record(value=b"more"))
        assert log.read(end)[-1].offset == end
    assert verify(path).findings == []


def test_beginning_anew(path: str) -> None:
    with Log.open(path) as log:
        put(log, "a", "b")
        log.roll()
        put(log, "c")
        log.truncate_fully_and_start_at(100)
        assert (log.log_start_offset, log.log_end_offset, log.leader_epochs) == (100, 100, [])
        put(log, "d")
        assert values(log.read(100)) == ["d"]
        log.truncate_to(50)  # before everything: the same
        assert (log.log_start_offset, log.log_end_offset) == (50, 50)
    with Log.open(path) as log:
        assert (log.log_start_offset, log.log_end_offset) == (50, 50)


# -- one writer, many threads --------------------------------------------------------------------
def test_one_writer(path: str) -> None:
    with Log.open(path) as log:
        with pytest.raises(LogInUseError):
            Log.open(path)
        put(log, "a")
    with Log.open(path) as log:
        assert values(log.read(0)) == ["a"]


def test_another_process_holds_the_lock(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Env, "lock_file", lambda *_, **__: None)
    with pytest.raises(LogInUseError, match="another process"):
        Log.open(path)


def test_a_closed_log(path: str) -> None:
    log = Log.open(path)
    log.close()
    log.close()
    for call in (lambda: put(log, "x"), lambda: log.read(0), log.flush, log.roll, lambda: log.truncate_to(0)):
        with pytest.raises(LogClosedError):
            call()


def test_where_and_how_it_is_opened(tmp_path: Path) -> None:
    with pytest.raises(MissingFileError):
        Log.open(str(tmp_path / "none-0"), create=False)
    assert not (tmp_path / "none-0").exists()
    with pytest.raises(UsageError, match="TOPIC-PARTITION"):
        Log.open(str(tmp_path / "not a partition"))
    with pytest.raises(UsageError, match="did you mean segment_bytes"):
        Log.open(str(tmp_path / "events-0"), segment_byte=1)  # type: ignore[call-arg]


@pytest.mark.parametrize("flush", ["sync", "async"])
def test_threads_append_and_read_at_once(path: str, flush: Literal["sync", "async"]) -> None:
    threads_count, each = 6, 40
    errors: list[BaseException] = []

    def work(number: int) -> None:
        try:
            for at in range(each):
                info = log.append(Record(value=f"{number}:{at}".encode()), producer_id=number, producer_epoch=0)
                if flush == "sync":
                    assert log.high_watermark > info.last_offset
                found = log.read(info.last_offset, max_records=1)
                assert flush == "async" or values(found) == [f"{number}:{at}"]
                if at % 13 == 0:
                    log.roll()
        except BaseException as error:  # told below, in the test's own thread
            errors.append(error)

    with Log.open(path, flush=flush, segment_bytes=3000) as log:
        threads = [threading.Thread(target=work, args=(number,)) for number in range(threads_count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert errors == []
        found = values(list(log.records()))
        assert len(found) == threads_count * each
        for number in range(threads_count):
            assert [v for v in found if v.startswith(f"{number}:")] == [f"{number}:{at}" for at in range(each)]


def test_waiting_threads_share_an_fsync(path: str) -> None:
    class Slow(Env):
        """Counts fsyncs, and holds each back until `gate` opens."""

        def __init__(self) -> None:
            super().__init__()
            self.gate = threading.Event()
            self.syncs = 0

        def operation(self, kind: str, path: str):  # type: ignore[no-untyped-def]
            if kind == "sync" and path.endswith(".log"):
                self.syncs += 1
                self.gate.wait(20)
            return super().operation(kind, path)

    env = Slow()
    env.gate.set()
    with Log.open(path, flush="sync", env=env) as log:
        env.gate.clear()
        before = env.syncs
        threads = [threading.Thread(target=put, args=(log, str(number))) for number in range(10)]
        for thread in threads:
            thread.start()
        while log.log_end_offset < 10:
            threading.Event().wait(0.002)
        assert log.high_watermark == 0  # written, not on disk: not shown
        assert log.read(0) == []
        env.gate.set()
        for thread in threads:
            thread.join(20)
        assert log.high_watermark == 10
        assert env.syncs - before <= 3


@pytest.mark.parametrize("offset", [8, 15, 20])
def test_a_truncation_into_an_offset_gap_ends_the_log_at_its_last_batch(path: str, offset: int) -> None:
    with Log.open(path) as log:
        put(log, "a", "b", "c")
        put(log, "d", "e", "f", "g")
        raw = bytearray(log.read_batches(0)[0].raw)
        raw[:8] = (20).to_bytes(8, "big")
        log.append_batches(bytes(raw), assign_offsets=False)
        assert log.truncate_to(offset)
        assert log.log_end_offset == 7
    assert verify(path).findings == []
    with Log.open(path) as log:
        assert log.log_end_offset == 7


def test_a_truncation_leaves_room_for_the_last_entry_of_an_index_that_has_become_smaller(path: str) -> None:
    with Log.open(path, index_interval_bytes=0) as log:
        for number in range(6):
            put(log, f"{number}", timestamp_ms=1000 + number)
    with Log.open(path, index_interval_bytes=0, segment_index_bytes=24) as log:
        log.truncate_to(5)
        for number in range(3):
            put(log, f"new {number}", timestamp_ms=2000 + number)
        assert log.log_end_offset == 8
    assert verify(path).findings == []
