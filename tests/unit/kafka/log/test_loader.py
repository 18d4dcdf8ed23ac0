"""Opening what a crash, a cleaning or a careless hand left: after the cases of Kafka's own
LogLoaderTest."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

from logdex.errors import CorruptError
from logdex.kafka.batch.batch_writer import encode_batch
from logdex.kafka.batch.record import Record
from logdex.kafka.batch.record_batch import decode_batch
from logdex.kafka.files.file_names import (
    CLEAN_SHUTDOWN,
    LOG_START_CHECKPOINT,
    LONE_CLEAN_MARK,
    META_PROPERTIES,
    RECOVERY_POINT_CHECKPOINT,
    offset_file_name,
)
from logdex.kafka.log.cleaner.filter import emptied
from logdex.kafka.log.load_report import LoadStep
from logdex.kafka.log.log import Log
from tests.unit.kafka.log.crashed_logs import bases, contents, crash, expected, fill, index_bytes, reopen, steps


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "events-0"


# -- clean and unclean ---------------------------------------------------------------------------
def test_a_clean_log_is_not_read_again(path: Path) -> None:
    fill(path)
    with reopen(path) as log:
        assert log.load_report.was_clean
        assert log.load_report.recovered == []
        assert log.load_report.actions == []
        assert contents(log) == expected(20)
        assert not (path / LONE_CLEAN_MARK).exists()  # a crash from here on is one
    assert (path / LONE_CLEAN_MARK).exists()


def test_an_unclean_log_is_recovered_from_its_recovery_point_on(path: Path) -> None:
    fill(path)
    before = index_bytes(path)
    crash(path, recovery_point=True)
    with reopen(path) as log:
        assert log.load_report.recovered == [log.segments[-1].base_offset]
        assert contents(log) == expected(20)
        assert log.recovery_point == 20
    crash(path)
    with reopen(path) as log:
        assert log.load_report.recovered == bases(path)
        assert log.load_report.actions == []
        assert contents(log) == expected(20)
    assert index_bytes(path) == before


def test_a_clean_mark_of_another_time_says_nothing(path: Path) -> None:
    fill(path)
    mark = (path / LONE_CLEAN_MARK).read_bytes()
    with (path / offset_file_name(bases(path)[-1], ".log")).open("ab") as file:
        file.write(b"somebody else")
    with reopen(path) as log:
        assert not log.load_report.was_clean
        assert contents(log) == expected(20)
        log.roll()
    (path / LONE_CLEAN_MARK).write_bytes(mark)  # names a segment that is not the last
    with reopen(path) as log:
        assert not log.load_report.was_clean


def test_within_a_log_directory_the_brokers_marks_count(tmp_path: Path) -> None:
    (tmp_path / META_PROPERTIES).write_text("version=1\ncluster.id=x\nnode.id=1\n")
    marker, first, second = tmp_path / CLEAN_SHUTDOWN, tmp_path / "events-0", tmp_path / "events-1"
    fill(first)
    fill(second)
    assert not marker.exists()  # the log directory was not clean before
    assert (tmp_path / RECOVERY_POINT_CHECKPOINT).read_text() == "0\n2\nevents 0 20\nevents 1 20\n"
    assert (tmp_path / ".lock").exists()
    assert not (first / ".lock").exists()
    marker.write_text('{"version":0,"brokerEpoch":7}')
    with reopen(first) as log:
        assert log.load_report.was_clean
        assert not marker.exists()
        with reopen(second) as other:
            assert other.load_report.was_clean
        assert not marker.exists()
    assert marker.read_text() == '{"version":0,"brokerEpoch":7}'
    log = reopen(first)
    log._core.group_commit.failed = OSError("a write that failed")
    log.close()
    assert not marker.exists()


# -- indexes -------------------------------------------------------------------------------------
def test_missing_indexes_are_derived_again(path: Path) -> None:
    fill(path)
    before = index_bytes(path)
    for file in [*path.glob("*.index"), *path.glob("*.timeindex")]:
        file.unlink()
    with reopen(path) as log:
        assert log.load_report.recovered == bases(path)
        assert {step for step, _ in steps(log)} == {LoadStep.REBUILT}
        assert contents(log) == expected(20)
        for number in range(20):
            found = log.offset_for_timestamp(1000 + 10 * number)
            assert found is not None
            assert found.offset == number
    assert index_bytes(path) == before


def test_a_missing_time_index_is_empty_under_a_clean_mark(path: Path) -> None:
    fill(path)
    name = offset_file_name(0, ".timeindex")
    (path / name).unlink()
    with reopen(path) as log:
        assert steps(log) == [(LoadStep.REBUILT, name)]
        assert log.segments[0].time_index.entries == 0


def test_indexes_with_nonsense_are_derived_again_after_a_crash(path: Path) -> None:
    fill(path)
    before = index_bytes(path)
    for file in [*path.glob("*.index"), *path.glob("*.timeindex")]:
        file.write_bytes(b"  ")
    crash(path)
    with reopen(path) as log:
        assert contents(log) == expected(20)
    assert index_bytes(path) == before


def test_a_torn_transaction_index_has_its_segment_recovered(path: Path) -> None:
    with reopen(path) as log:
        with log.transaction(1) as transaction:
            transaction.append(Record(value=b"bad"))
            transaction.abort()
        log.roll()
    file = path / offset_file_name(0, ".txnindex")
    whole = file.read_bytes()
    file.write_bytes(whole[:-3])
    with reopen(path) as log:
        assert log.load_report.recovered == [0]
    assert file.read_bytes() == whole


def test_indexes_without_a_log_are_removed(path: Path) -> None:
    path.mkdir()
    for name in ("00000000000000000005.index", "00000000000000000005.timeindex", "00000000000000000000.index"):
        (path / name).write_bytes(b"")
    with reopen(path) as log:
        assert {name for _, name in steps(log)} >= {"00000000000000000005.index", "00000000000000000005.timeindex"}
        log.append(Record(value=b"x"))
    assert bases(path) == [0]
    assert not (path / "00000000000000000005.index").exists()


# -- the end of the log --------------------------------------------------------------------------
@pytest.mark.parametrize("seed", range(6))
def test_nonsense_behind_the_log_is_cut_and_reported(path: Path, seed: int) -> None:
    fill(path)
    chance = random.Random(seed)
    active = path / offset_file_name(bases(path)[-1], ".log")
    whole = active.read_bytes()
    active.write_bytes(whole + chance.randbytes(chance.randint(1, 1000)))
    crash(path, recovery_point=seed % 2 == 0)
    lost = active.stat().st_size - len(whole)
    with reopen(path) as log:
        assert contents(log) == expected(20)
        (cut,) = log.load_report.actions
        assert (cut.step, cut.path, cut.position, cut.size_bytes) == (LoadStep.CUT, str(active), len(whole), lost)
        assert log.load_report.cut_bytes == lost
    assert active.read_bytes() == whole


def test_a_torn_end_is_cut_under_a_clean_mark_too(path: Path, tmp_path: Path) -> None:
    fill(path)
    active = path / offset_file_name(bases(path)[-1], ".log")
    data = active.read_bytes()
    moved = tmp_path / "log" / "events-0"
    shutil.copytree(path, moved)
    (moved / active.name).write_bytes(data[:-5])
    (tmp_path / "log" / CLEAN_SHUTDOWN).write_text("")
    with reopen(moved) as log:
        assert log.load_report.was_clean
        assert contents(log) == expected(19)
        assert [action.step for action in log.load_report.actions] == [LoadStep.CUT]
        log.append(Record(value=b"value 19"))
        assert contents(log) == expected(20)


def test_zeros_under_a_clean_mark_are_an_error_as_for_the_broker(path: Path, tmp_path: Path) -> None:
    fill(path)
    moved = tmp_path / "log" / "events-0"
    shutil.copytree(path, moved)
    (tmp_path / "log" / CLEAN_SHUTDOWN).write_text("")
    with (moved / offset_file_name(bases(path)[-1], ".log")).open("ab") as file:
        file.write(bytes(500))
    with pytest.raises(CorruptError):
        reopen(moved)
    assert not (tmp_path / "log" / CLEAN_SHUTDOWN).exists()
    with reopen(moved) as log:  # now it counts as crashed, and the zeros go
        assert contents(log) == expected(20)


def test_what_is_behind_a_harmed_batch_goes_and_is_set_aside(path: Path) -> None:
    fill(path)
    second = bases(path)[1]
    file = path / offset_file_name(second, ".log")
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)
    later = bases(path)[2:]
    crash(path)
    with reopen(path) as log:
        kept = contents(log)
        assert kept == expected(len(kept))
        assert bases(path) == [0, second]
        assert log.log_end_offset == len(kept)
        removed = [action for action in log.load_report.actions if action.step is LoadStep.REMOVED]
        assert sorted(Path(action.path).name for action in removed) == [offset_file_name(b, ".log") for b in later]
        assert log.load_report.cut_bytes > sum(action.size_bytes for action in removed)
        for base in later:  # until the log is opened again
            assert (path / (offset_file_name(base, ".log") + ".deleted")).exists()
        log.append(Record(value=b"value %d" % len(kept)))
    with reopen(path) as log:
        assert contents(log) == expected(len(kept) + 1)
        assert list(path.glob("*.deleted")) == []
        assert {step for step, _ in steps(log)} == {LoadStep.REMOVED}


def test_a_log_start_behind_the_end_begins_anew(path: Path) -> None:
    fill(path, 9)
    for base in bases(path)[1:]:
        (path / offset_file_name(base, ".log")).unlink()
    crash(path)
    (path / LOG_START_CHECKPOINT).write_text("0\n1\nevents 0 8\n")
    with reopen(path) as log:
        assert (log.log_start_offset, log.log_end_offset) == (8, 8)
        assert [segment.base_offset for segment in log.segments] == [8]
        log.append(Record(value=b"x"))
    with reopen(path) as log:
        assert [record.offset for record in log.records()] == [8]


def test_a_batch_whose_offset_was_torn_is_not_taken_in(path: Path) -> None:
    path.mkdir()
    batches = [encode_batch([Record(value=b"x" * 50)], base_offset=offset) for offset in (0, 1, 2, 3, 1)]
    (path / offset_file_name(0, ".log")).write_bytes(b"".join(batches))
    with reopen(path) as log:
        assert log.log_end_offset == 4
        cut = log.load_report.actions[-1]
        assert (cut.step, cut.size_bytes) == (LoadStep.CUT, len(batches[-1]))
        assert cut.position == sum(map(len, batches[:-1]))


# -- state ---------------------------------------------------------------------------------------
def test_producers_epochs_and_aborted_transactions_are_recovered(path: Path) -> None:
    with reopen(path, segment_bytes=700) as log:
        for number in range(12):
            epoch = number // 4
            log.append(Record(value=b"p"), producer_id=1, producer_epoch=0, leader_epoch=epoch)
            log.append(Record(value=b"t"), producer_id=2, producer_epoch=0, transactional=True, leader_epoch=epoch)
            if number % 3 == 2:
                log.append_end_marker(2, 0, commit=number == 5)
        aborted = log.aborted_transactions(0, log.log_end_offset)
        committed = [record.offset for record in log.records(isolation="read_committed")]
        epochs = log.leader_epochs
    assert len(aborted) == 3
    for pattern in ("*.index", "*.txnindex", "*.snapshot", "leader-epoch-checkpoint"):
        for file in path.glob(pattern):
            file.unlink()
    crash(path)
    with reopen(path, segment_bytes=700) as log:
        assert log.aborted_transactions(0, log.log_end_offset) == aborted
        assert [record.offset for record in log.records(isolation="read_committed")] == committed
        assert log.leader_epochs == epochs
        state = log.producer(1)
        assert state is not None
        assert state.last_sequence == 11


def test_a_snapshot_that_is_harmed_is_left_for_an_older_one(path: Path) -> None:
    with reopen(path) as log:
        for _ in range(10):
            log.append(Record(value=b"p"), producer_id=1, producer_epoch=0)
    newest = max(path.glob("*.snapshot"))
    newest.write_bytes(newest.read_bytes()[:-1])
    with reopen(path) as log:
        assert (LoadStep.REMOVED, newest.name) in steps(log)
        state = log.producer(1)
        assert state is not None
        assert state.last_sequence == 9


def test_a_harmed_epoch_file_is_derived_again(path: Path) -> None:
    with reopen(path) as log:
        for epoch in (0, 0, 3, 5):
            log.append(Record(value=b"x"), leader_epoch=epoch)
    (path / "leader-epoch-checkpoint").write_text("0\nnonsense\n")
    with reopen(path) as log:
        assert steps(log) == [(LoadStep.REBUILT, "leader-epoch-checkpoint")]
        assert log.leader_epochs == [(0, 0), (3, 2), (5, 3)]


def test_checkpoints_that_are_harmed_count_as_none(path: Path) -> None:
    fill(path)
    (path / RECOVERY_POINT_CHECKPOINT).write_text("0\nx\n")
    with reopen(path) as log:
        assert contents(log) == expected(20)
        assert steps(log)[0] == (LoadStep.REBUILT, RECOVERY_POINT_CHECKPOINT)


@pytest.mark.parametrize("interval_bytes", [1, 4096])
@pytest.mark.parametrize("place", [0, 2, 4])
def test_an_empty_batch_that_is_there_twice_costs_nothing(tmp_path: Path, interval_bytes: int, place: int) -> None:
    """Compaction once wrote a group's last batch twice, and the broker keeps what lies behind
    it."""
    path = tmp_path / "events-0"
    settings = {"segment_bytes": 1 << 20, "index_interval_bytes": interval_bytes}
    fill(path, count=5, **settings)
    (log_path,) = path.glob("*.log")
    data, batches, position = log_path.read_bytes(), [], 0
    while position < len(data):
        batch, size = decode_batch(data, position, path=str(log_path))
        batches.append((batch, data[position : position + size]))
        position += size
    again = emptied(batches[place][0])
    written = [raw for _, raw in batches]
    log_path.write_bytes(b"".join([*written[: place + 1], again, *written[place + 1 :]]))
    for index in (*path.glob("*.index"), *path.glob("*.timeindex")):
        index.unlink()
    crash(path)
    with reopen(path, **settings) as log:
        assert contents(log) == expected(5)
        assert (log.log_end_offset, log.load_report.cut_bytes) == (5, 0)
        log.append(Record(value=b"value 5", timestamp_ms=2000))
    with reopen(path, **settings) as log:
        assert contents(log) == expected(6)


def test_a_new_log_was_closed_cleanly(tmp_path: Path) -> None:
    with Log.open(tmp_path / "a-0") as log:
        assert log.load_report.was_clean
        log.append(Record(value=b"x"))
    shutil.copytree(tmp_path / "a-0", tmp_path / "lost" / "a-0")
    for file in (tmp_path / "lost" / "a-0").glob("0*"):
        file.unlink()  # what had records is not new
    (tmp_path / "lost" / "a-0" / LONE_CLEAN_MARK).unlink()
    with Log.open(tmp_path / "lost" / "a-0") as log:
        assert not log.load_report.was_clean
    (tmp_path / "left-0").mkdir()
    (tmp_path / "left-0" / f"{0:020}.index").touch()
    with Log.open(tmp_path / "left-0") as log:
        assert not log.load_report.was_clean
