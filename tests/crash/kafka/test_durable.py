"""What a Kafka `Log` needs on disk beside the bytes: names of directories, marks that are gone,
indexes made anew; and an fsync whose failure the system tells only one of those who ask."""

from __future__ import annotations

import errno
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from logdex.errors import LogdexError, LogFailedError, StorageError
from logdex.io.env import Env
from logdex.kafka.batch.record import Record
from logdex.kafka.log.log import Log
from logdex.kafka.settings.log_config import LogConfig
from logdex.testing import CHANGES, Fault, FaultEnv, Killed
from tests.crash.kafka.runs import NAME, NOW_MS, check_indexes, clock
from tests.examples import cases

CONFIG = LogConfig(segment_bytes=700, segment_index_bytes=120, index_interval_bytes=0, flush="sync", segment_ms=1 << 40)
SEEDS = range(8)


def record(text: str) -> Record:
    return Record(value=text.encode() * 10, timestamp_ms=NOW_MS)


def fill(log: Log, count: int) -> None:
    for turn in range(count):
        log.append(record(f"{turn}"))


def after_power_cuts(env: FaultEnv, folder: Path, seeds: range = SEEDS, name: str = NAME) -> Iterator[Log]:
    """The log, opened, as each of the power cuts leaves it."""
    for seed in seeds:
        left = folder / f"left-{seed}"
        env.survivor(str(left), seed)
        with Log.open(str(left / name), CONFIG, create=False, clock_ms=clock) as log:
            yield log


def killed_at_each(
    folder: Path, prepare: Callable[[Log], None], work: Callable[[Log], object], kinds: frozenset[str]
) -> Iterator[tuple[int, bool, FaultEnv]]:
    """Has `work` on a log that `prepare` made killed at each of its operations in turn, until it
    ends by itself."""
    ended, at = False, 0
    while not ended:
        at += 1
        root = folder / str(at) / "root"
        root.mkdir(parents=True)
        with Log.open(str(root / NAME), CONFIG, clock_ms=clock) as log:
            prepare(log)
        env = FaultEnv(str(root))
        log = Log.open(str(root / NAME), CONFIG, env=env, clock_ms=clock)
        env.fault = Fault(at, kinds=kinds)
        try:
            work(log)
            ended = True
        except Killed:
            pass
        env.release()
        yield at, ended, env


def require_kept(env: FaultEnv, folder: Path, name: str, count: int) -> None:
    """After a power cut the partition has `count` records, whatever the cut takes; none of them
    trusted unseen."""
    for log in after_power_cuts(env, folder, name=name):
        assert log.log_end_offset == count
        assert not log.load_report.was_clean


def test_every_directory_that_is_made_has_its_name_on_disk(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    env = FaultEnv(str(tmp_path / "root"))
    name = f"a/b/{NAME}"
    Log.open(str(tmp_path / "root" / name), CONFIG, env=env, clock_ms=clock).append(record("kept"))
    env.release()
    require_kept(env, tmp_path, name, 1)


@pytest.mark.parametrize("home", cases(["lone", "broker's", "broker's, clean"], 3, first=1))
def test_a_process_killed_while_it_opened_leaves_nothing_half_done(tmp_path: Path, home: str) -> None:
    """The next one finds names and marks as they were to be, and must not take them for durable."""
    ended = False
    at = 0
    while not ended:
        at += 1
        root = tmp_path / str(at) / "root"
        root.mkdir(parents=True)
        if home != "lone":
            (root / "meta.properties").write_bytes(b"version=1\ncluster.id=abc\nnode.id=1\n")
        if home == "broker's, clean":
            (root / ".kafka_cleanshutdown").write_bytes(b'{"version":0,"brokerEpoch":-1}')
        env = FaultEnv(str(root), Fault(at, kinds=CHANGES))
        name = f"a/{NAME}" if home == "lone" else NAME
        try:
            Log.open(str(root / name), CONFIG, env=env, clock_ms=clock)
            ended = True
        except Killed:
            pass
        env.restart()
        log = Log.open(str(root / name), CONFIG, env=env, clock_ms=clock)
        fill(log, 3)
        env.release()
        require_kept(env, tmp_path / str(at), name, 3)
    assert at > 10


def test_an_index_that_a_clean_load_made_anew_is_on_disk(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    with Log.open(str(root / NAME), CONFIG, clock_ms=clock) as log:
        fill(log, 30)
        assert len(log.segments) > 3
    (root / NAME / f"{0:020d}.index").unlink()
    env = FaultEnv(str(root))
    log = Log.open(str(root / NAME), CONFIG, env=env, clock_ms=clock)
    assert log.load_report.was_clean
    assert log.load_report.recovered == [0]
    env.release()
    for left in after_power_cuts(env, tmp_path):
        check_indexes(left.segments[0], CONFIG, exact=True)


def test_a_snapshot_of_what_was_truncated_does_not_come_back(tmp_path: Path) -> None:
    """Where the log is cut to the base of its last segment, whose own snapshot is there already."""
    root = tmp_path / "root"
    root.mkdir()
    with Log.open(str(root / NAME), CONFIG, clock_ms=clock) as log:
        for turn in range(30):
            log.append(record(f"{turn}"), producer_id=turn, producer_epoch=0)
        base, end = log.segments[-1].base_offset, log.log_end_offset
        assert base < end
    assert (root / NAME / f"{end:020d}.snapshot").exists()
    env = FaultEnv(str(root))
    log = Log.open(str(root / NAME), CONFIG, env=env, clock_ms=clock)
    assert log.truncate_to(base)
    log.append([Record(timestamp_ms=NOW_MS)] * (end - base + 1))
    assert log.segments[-1].base_offset == base
    env.release()
    for left in after_power_cuts(env, tmp_path, range(20)):
        assert left.log_end_offset == end + 1
        assert [turn for turn in range(31) if left.producer(turn) is not None] == list(range(base))


@pytest.mark.parametrize("target", cases([3, 20, 40], 3, first=1))
def test_a_log_that_starts_anew_elsewhere_never_begins_at_nought(tmp_path: Path, target: int) -> None:
    """Its offsets would come a second time; nor does what was deleted come back. What is left is
    empty, or a beginning of what there was."""

    def prepare(log: Log) -> None:
        log.truncate_fully_and_start_at(10)
        fill(log, 20)
        log.delete_records(25)

    at = 0
    for at, ended, env in killed_at_each(
        tmp_path, prepare, lambda log: log.truncate_fully_and_start_at(target), CHANGES
    ):
        for left in after_power_cuts(env, tmp_path / str(at), range(3)):
            start, end = left.log_start_offset, left.log_end_offset
            assert start == end == target or (start in (25, max(25, target)) and not ended)
            assert all(each.offset >= 25 for each in left.records())
    assert at > 10


def test_a_removal_that_is_broken_off_leaves_no_segment_without_its_indexes(tmp_path: Path) -> None:
    def prepare(log: Log) -> None:
        fill(log, 20)
        log.roll()

    at = 0
    for at, ended, env in killed_at_each(
        tmp_path, prepare, lambda log: log.delete_records(20), frozenset({"sync_dir"})
    ):
        for left in after_power_cuts(env, tmp_path / str(at), range(at * 40, at * 40 + 40)):
            assert left.log_start_offset == left.segments[0].base_offset or not ended
            for segment in left.segments:
                check_indexes(segment, CONFIG, exact=True)
    assert at > 3


def test_the_recovery_point_on_disk_is_the_logs_end_after_a_close(tmp_path: Path) -> None:
    """Also where a recovery found the log to end elsewhere and nothing was appended since."""
    with Log.open(str(tmp_path / NAME), CONFIG, clock_ms=clock) as log:
        fill(log, 3)
    (tmp_path / NAME / ".logdex-clean").unlink()
    file = tmp_path / NAME / f"{0:020d}.log"
    file.write_bytes(file.read_bytes()[:-1])
    Log.open(str(tmp_path / NAME), CONFIG, clock_ms=clock).close()
    assert (tmp_path / NAME / "recovery-point-offset-checkpoint").read_text() == "0\n1\nevents 0 2\n"


class FailsOnce(Env):
    """The first fsync of a .log after `armed` was set waits for `go` and fails; all others are
    well. So it is with Linux: a file's error is told once."""

    def __init__(self) -> None:
        super().__init__()
        self.armed = False
        self.under_way, self.go = threading.Event(), threading.Event()

    @contextmanager
    def operation(self, kind: str, path: str) -> Iterator[None]:
        if kind == "sync" and path.endswith(".log") and self.armed:
            self.armed = False
            self.under_way.set()
            assert self.go.wait(20)
            raise StorageError("input/output error", path=path, errno=errno.EIO)
        with super().operation(kind, path):
            yield


def outcome_of(work: Callable[[], object], outcomes: list[str]) -> threading.Thread:
    def run() -> None:
        try:
            work()
            outcomes.append("done")
        except LogdexError as error:
            outcomes.append(type(error).__name__)

    thread = threading.Thread(target=run)
    thread.start()
    return thread


def test_an_fsync_that_failed_is_believed_whoever_else_asks(tmp_path: Path) -> None:
    """One thread's fsync fails while another one rolls: that fsync of the same file says that all
    is well."""
    env, outcomes = FailsOnce(), list[str]()
    log = Log.open(str(tmp_path / NAME), CONFIG, env=env)
    env.armed = True
    threads = [outcome_of(lambda: log.append(record("lost")), outcomes)]
    assert env.under_way.wait(20)
    threads.append(outcome_of(lambda: log.append(record("waits")), outcomes))
    while log.log_end_offset < 2:
        time.sleep(0.001)
    threads.append(outcome_of(log.roll, outcomes))
    time.sleep(0.05)
    env.go.set()
    for thread in threads:
        thread.join(20)
    assert len(outcomes) == 3
    assert set(outcomes) <= {"StorageError", "LogFailedError"}
    assert log.high_watermark == 0
    log.close()


def test_a_rolls_failed_fsync_is_believed_by_those_who_wait(tmp_path: Path) -> None:
    env, outcomes = FailsOnce(), list[str]()
    log = Log.open(str(tmp_path / NAME), LogConfig(segment_ms=1 << 40, flush="async"), env=env)
    log.append(record("lost"))
    env.armed = True
    threads = [outcome_of(log.roll, outcomes)]
    assert env.under_way.wait(20)
    threads.append(outcome_of(lambda: log._core.group_commit.wait(1), outcomes))
    env.go.set()
    for thread in threads:
        thread.join(20)
    assert sorted(outcomes) == ["LogFailedError", "StorageError"]
    with pytest.raises(LogFailedError):
        log.flush()
    log.close()


@pytest.mark.parametrize("interruption", [KeyboardInterrupt, MemoryError])
def test_an_append_that_is_interrupted_leaves_a_log_to_be_opened_again(
    tmp_path: Path, interruption: type[BaseException]
) -> None:
    class Interrupted(Env):
        at = -1

        @contextmanager
        def operation(self, kind: str, path: str) -> Iterator[None]:
            with super().operation(kind, path):
                yield
            if kind in CHANGES:
                self.at -= 1
                if self.at == 0:
                    raise interruption

    for at in range(1, 40):
        env = Interrupted()
        path = str(tmp_path / str(at) / NAME)
        log = Log.open(path, CONFIG, env=env, clock_ms=clock)
        env.at = at
        known = 0
        try:
            for turn in range(12):
                log.append(record(f"{turn}"))
                known += 1
        except interruption:
            with pytest.raises(LogFailedError):
                log.append(record("more"))
        log.close()
        with Log.open(path, CONFIG, clock_ms=clock) as log:
            assert known <= log.log_end_offset <= known + 1
            assert [each.value for each in log.records()] == [
                record(f"{turn}").value for turn in range(log.log_end_offset)
            ]


def test_a_write_that_the_full_disk_breaks_off_leaves_nothing_of_its_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The system writes as much as fits, and says so with the next call only."""
    log = Log.open(str(tmp_path / NAME), CONFIG, clock_ms=clock)
    log.append(record("kept"))
    write, calls = os.pwrite, []

    def full(fd: int, data: memoryview, position: int) -> int:
        calls.append(position)
        if len(calls) > 1:
            raise OSError(errno.ENOSPC, "full")
        return write(fd, data[:40], position)

    with monkeypatch.context() as patched:
        patched.setattr(os, "pwrite", full)
        with pytest.raises(StorageError):
            log.append(record("lost"))
    with pytest.raises(LogFailedError):
        log.append(record("more"))
    assert [each.value for each in log.records()] == [record("kept").value]
    log.close()
    with Log.open(str(tmp_path / NAME), CONFIG, clock_ms=clock) as log:
        assert [each.value for each in log.records()] == [record("kept").value]
        assert log.load_report.cut_bytes == 40
