"""Partitions and log directories opened read-only: beside a writer, without their small files, with
damaged ones."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import logdex
from logdex.errors import LogdexError, MissingFileError, NotAStoreError, OffsetOutOfRangeError, UsageError
from logdex.io.env import DEFAULT_ENV
from logdex.kafka.batch.record import Record
from logdex.kafka.directory.clean_mark import is_closed_cleanly
from logdex.kafka.log.log import Log
from logdex.kafka.scan.scanner import EndKind
from logdex.kafka.snapshot.log_dir_snapshot import LogDirSnapshot
from logdex.kafka.snapshot.partition_snapshot import PartitionSnapshot
from tests.directories import tree_hash

START_MS = 1_700_000_000_000


def record(number: int) -> Record:
    return Record(key=b"k%d" % (number % 5), value=b"v%d" % number, timestamp_ms=START_MS + number)


def fill(log: Log, first: int, last: int) -> None:
    """Records with the numbers [first, last), ten a batch."""
    for start in range(first, last, 10):
        log.append([record(number) for number in range(start, min(start + 10, last))])


def offsets(records: Any) -> list[int]:
    return [each.offset for each in records]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A partition with 100 records in several segments."""
    path = tmp_path / "events-3"
    with Log.open(str(path), segment_bytes=600, index_interval_bytes=200) as log:
        fill(log, 0, 100)
    return path


@pytest.fixture
def snapshot(path: Path) -> Iterator[PartitionSnapshot]:
    before = tree_hash(path)
    with opened(path) as found:
        yield found
    assert tree_hash(path) == before


def opened(path: Path, **settings: Any) -> PartitionSnapshot:
    found = logdex.open(path, **settings)
    assert isinstance(found, PartitionSnapshot)
    return found


def test_what_it_is(snapshot: PartitionSnapshot) -> None:
    assert (snapshot.topic, snapshot.partition, snapshot.name) == ("events", 3, "events-3")
    assert (snapshot.log_start_offset, snapshot.log_end_offset, snapshot.last_stable_offset) == (0, 100, 100)
    assert len(snapshot.segments) > 2
    assert [entry.epoch for entry in snapshot.leader_epochs] == [0]
    assert snapshot.problems == []
    assert is_closed_cleanly(snapshot.directory, env=DEFAULT_ENV) is True
    with pytest.raises(MissingFileError, match="no segment at 7"):
        snapshot.segment(7)


def test_filters_of_a_scan(snapshot: PartitionSnapshot) -> None:
    assert offsets(snapshot.scan()) == list(range(100))
    assert offsets(snapshot.scan(offset=37, end_offset=41)) == [37, 38, 39, 40]
    assert offsets(snapshot.scan(begin_ms=START_MS + 95)) == [95, 96, 97, 98, 99]
    assert offsets(snapshot.scan(begin_ms=START_MS + 20, end_ms=START_MS + 21)) == [20, 21]
    assert offsets(snapshot.scan(offset=12, limit=3)) == [12, 13, 14]
    assert offsets(snapshot.scan(limit=0)) == []
    assert offsets(snapshot.scan(offset=100)) == []
    assert next(iter(snapshot.scan(offset=42))) == Record(
        b"k2", b"v42", START_MS + 42, offset=42, leader_epoch=0, timestamp_type=record(0).timestamp_type
    )
    with pytest.raises(UsageError, match="holds one partition, events-3"):
        snapshot.scan(topic="others")
    with pytest.raises(UsageError):
        snapshot.scan(limit=-1)
    with pytest.raises(UsageError, match="no column 'body'"):
        snapshot.scan().to_arrow(["body"])


def test_a_scan_reports_progress(path: Path) -> None:
    seen: list[tuple[int, int]] = []
    with opened(path) as snapshot:
        list(snapshot.scan(progress=lambda rows, size_bytes: seen.append((rows, size_bytes))))
        assert seen[-1] == (100, snapshot.size_bytes)
    assert seen == sorted(seen)


def test_reading_and_looking_up(snapshot: PartitionSnapshot) -> None:
    assert offsets(snapshot.read(55, 1)) == [55, 56, 57, 58, 59]
    assert offsets(snapshot.read(55, max_records=2)) == [55, 56]
    assert snapshot.read(100) == []
    with pytest.raises(OffsetOutOfRangeError):
        snapshot.read(101)
    found = snapshot.offset_for_timestamp(START_MS + 64)
    assert found is not None
    assert (found.offset, found.timestamp_ms) == (64, START_MS + 64)
    assert snapshot.offset_for_timestamp(START_MS + 1000) is None
    assert snapshot.offset_for_timestamp(-2) == (-1, 0, -1)
    assert snapshot.offset_for_timestamp(-1) == (-1, 100, -1)
    assert offsets(snapshot.query("k4", max=3)) == [99, 94, 89]
    assert offsets(snapshot.query(b"k4", START_MS + 80, START_MS + 90)) == [89, 84]
    place = snapshot.locate(73)
    assert place is not None
    assert place[0].base_offset <= 70 == place[1].offset
    assert snapshot.locate(100) is None


def test_beside_a_writer(tmp_path: Path) -> None:
    path = tmp_path / "live-0"
    with Log.open(str(path), segment_bytes=1000) as log:
        fill(log, 0, 30)
        with opened(path) as snapshot:
            assert snapshot.log_end_offset == 30
            fill(log, 30, 100)
            log.delete_records(45)
            assert offsets(snapshot.scan()) == list(range(30))
            assert snapshot.log_end_offset == 30  # as it was, until it is refreshed
            snapshot.refresh()
            assert (snapshot.log_start_offset, snapshot.log_end_offset) == (45, 100)
            assert offsets(snapshot.scan(isolation="read_uncommitted")) == list(range(45, 100))
            assert offsets(snapshot.scan())[-1] == 99  # what still lies in the files, from the first segment on


def test_transactions(tmp_path: Path) -> None:
    path = tmp_path / "tx-0"
    with Log.open(str(path)) as log:
        fill(log, 0, 5)
        log.append([record(5)], producer_id=7, producer_epoch=0, transactional=True)
        log.append(record(6))  # another producer's, in between
        log.append_end_marker(7, 0, commit=False)
        log.append([record(8)], producer_id=9, producer_epoch=0, transactional=True)
        log.append(record(9))
    with opened(path) as snapshot:
        assert snapshot.last_stable_offset == 8
        assert offsets(snapshot.scan()) == [0, 1, 2, 3, 4, 5, 6, 8, 9]
        assert offsets(snapshot.scan(control=True)) == list(range(10))
        assert offsets(snapshot.scan(isolation="read_committed")) == [0, 1, 2, 3, 4, 6]
        assert offsets(snapshot.read(0, isolation="read_committed")) == [0, 1, 2, 3, 4, 6]
        for name in path.iterdir():
            if name.suffix in (".snapshot", ".txnindex"):
                name.unlink()
    with opened(path) as bare:  # the log says it all
        assert bare.last_stable_offset == 8
        assert offsets(bare.scan(isolation="read_committed")) == [0, 1, 2, 3, 4, 6]


def test_an_abort_marker_in_a_segment_behind_the_last_stable_offset(tmp_path: Path) -> None:
    """Transactions that overlap: what is read ends before the segment that says which of them was
    aborted."""
    path = tmp_path / "tx-0"
    with Log.open(str(path)) as log:
        log.append([record(0)], producer_id=7, producer_epoch=0, transactional=True)
        log.append(record(1))
        log.append([record(2)], producer_id=9, producer_epoch=0, transactional=True)
        log.roll()
        log.append_end_marker(7, 0, commit=False)
    with opened(path) as snapshot:
        assert snapshot.last_stable_offset == 2
        assert offsets(snapshot.scan(isolation="read_committed")) == [1]
        assert offsets(snapshot.read(0, isolation="read_committed")) == [1]
        assert offsets(snapshot.scan(isolation="read_committed", offset=0, end_offset=1)) == []


@pytest.mark.parametrize("suffix", [".index", ".timeindex", ".snapshot", "leader-epoch-checkpoint"])
@pytest.mark.parametrize("harm", ["removed", "emptied", "garbage"])
def test_without_what_only_helps(path: Path, suffix: str, harm: str) -> None:
    for each in path.iterdir():
        if each.name.endswith(suffix):
            each.unlink() if harm == "removed" else each.write_bytes(b"" if harm == "emptied" else b"\x7f" * 24)
    with opened(path) as snapshot:
        assert offsets(snapshot.scan(offset=31)) == list(range(31, 100))
        assert snapshot.log_end_offset == 100
        assert snapshot.last_stable_offset == 100
        assert bool(snapshot.leader_epochs) == (suffix != "leader-epoch-checkpoint")
        assert bool(snapshot.problems) == (
            harm == "garbage" and suffix in (".snapshot", "leader-epoch-checkpoint")
        ) or (harm == "emptied" and suffix == ".snapshot")


def last_log(path: Path) -> Path:
    return max(path.glob("*.log"))


def test_a_torn_end(path: Path) -> None:
    log = last_log(path)
    log.write_bytes(log.read_bytes()[:-3])
    with opened(path) as snapshot:
        scan = snapshot.scan()
        assert offsets(scan) == list(range(90))
        assert not scan.is_good
        assert scan.problems == []
        assert [end.end.kind for end in scan.ends][-1] is EndKind.TORN
        assert snapshot.log_end_offset == 90
        assert offsets(snapshot.read(80)) == list(range(80, 90))


def test_zeros_at_the_end_may_be_preallocated(path: Path) -> None:
    log = last_log(path)
    log.write_bytes(log.read_bytes() + bytes(500))
    with opened(path) as snapshot:
        scan = snapshot.scan()
        assert offsets(scan) == list(range(100))
        assert scan.is_good
        assert snapshot.log_end is not None
        assert snapshot.log_end.kind is EndKind.ZEROS
        assert offsets(snapshot.read(90)) == list(range(90, 100))
        assert snapshot.read(100) == []
        assert snapshot.offset_for_timestamp(START_MS + 1000) is None
    first = min(path.glob("*.log"))
    first.write_bytes(first.read_bytes() + bytes(500))  # but not in a segment that was rolled
    with opened(path) as snapshot:
        scan = snapshot.scan()
        assert offsets(scan) == list(range(100))
        assert not scan.is_good


@pytest.mark.parametrize("at", [8, 16, 30, 80])
def test_a_bad_batch_is_passed_over_and_told(path: Path, at: int) -> None:
    """Its length, its magic, its header, its records."""
    log = sorted(path.glob("*.log"))[-2]
    with opened(path) as snapshot:
        batch = snapshot.segment(int(log.stem)).log.batch_at(0)
    data = bytearray(log.read_bytes())
    data[at] ^= 0x55
    log.write_bytes(data)
    with opened(path) as snapshot:
        scan = snapshot.scan()
        lost = range(batch.base_offset, batch.last_offset + 1)
        assert offsets(scan) == [each for each in range(100) if each not in lost]
        assert len(scan.problems) == 1
        assert (scan.gaps, scan.missing_offsets) == (1, 10)
        assert snapshot.log_end_offset == 100
        problems: list[LogdexError] = []
        assert set(offsets(snapshot.query("k4", problems=problems))) == {
            each for each in range(4, 100, 5) if each not in lost
        }
        assert problems


def test_single_files_and_loose_segments(path: Path, tmp_path: Path) -> None:
    with opened(path) as snapshot:
        second = snapshot.segments[1]
        with opened(Path(second.log.path)) as alone:
            assert offsets(alone.scan()) == list(range(second.base_offset, snapshot.segments[2].base_offset))
            assert alone.log_start_offset == second.base_offset
            assert (alone.topic, alone.partition) == ("events", 3)
    loose = tmp_path / "loose"
    loose.mkdir()
    for each in path.glob("*.log"):
        shutil.copy(each, loose)
    with opened(loose) as found:
        assert (found.name, found.partition) == ("loose", -1)
        assert offsets(found.scan(offset=31)) == list(range(31, 100))
    for suffix in (".index", ".timeindex", ".snapshot"):
        with pytest.raises(NotAStoreError, match=f"a {suffix} file"):
            logdex.open(next(path.glob(f"*{suffix}")))


def test_a_segment_that_goes_while_the_directory_is_read(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    listed = sorted(name.name for name in path.iterdir())
    first = min(path.glob("*.log"))
    first.unlink()
    monkeypatch.setattr(DEFAULT_ENV, "list_dir", lambda _: listed, raising=False)
    with opened(path) as snapshot:
        assert snapshot.segments[0].base_offset > 0
        assert offsets(snapshot.scan())[0] == snapshot.log_start_offset


def test_settings(path: Path) -> None:
    with opened(path, index_interval_bytes=200, segment_bytes=1000, kafka_version="3.9.2") as snapshot:
        assert (snapshot.config.index_interval_bytes, snapshot.config.segment_bytes) == (200, 1000)
    with pytest.raises(UsageError, match="a setting of RocketMQ's"):
        logdex.open(path, max_index_num=3)
    with pytest.raises(NotAStoreError, match="not one partition"):
        PartitionSnapshot(str(_log_directory(path)))


def _log_directory(path: Path) -> Path:
    (path.parent / "meta.properties").write_text("version=1\ncluster.id=c\nnode.id=1\n")
    return path.parent


def test_a_log_directory(path: Path) -> None:
    root = _log_directory(path)
    (root / "log-start-offset-checkpoint").write_text("0\n1\nevents 3 17\n")
    (root / "empty-0").mkdir()
    with Log.open(str(root / "events-10"), segment_bytes=1000) as log:
        fill(log, 100, 110)
    found = logdex.open(root)
    assert isinstance(found, LogDirSnapshot)
    with found as snapshot:
        assert list(snapshot.partitions) == ["empty-0", "events-3", "events-10"]
        assert snapshot.topics() == {"empty": [0], "events": [3, 10]}
        assert snapshot.partition("events", 3).log_start_offset == 17
        assert snapshot.partition("empty", 0).log_end_offset == 0
        rows = snapshot.scan(topic="events").to_arrow(["partition", "offset", "topic"]).read_all()
        assert rows.num_rows == 110
        assert rows.column("partition").to_pylist() == [3] * 100 + [10] * 10
        assert len(list(snapshot.scan(limit=105))) == 105
        newest = [(one.partition, each.offset) for one, each in snapshot.query_items("events", "k4", max=3)]
        assert newest == [(10, 9), (10, 4), (3, 99)]
        assert offsets(snapshot.query("events", "k4", max=3)) == [9, 4, 99]
        assert offsets(snapshot.query("events", "k4", partition=3, max=1)) == [99]
        with pytest.raises(MissingFileError, match="no topic 'none'"):
            snapshot.scan(topic="none")
        with pytest.raises(MissingFileError, match=r"no partition|has a partition"):
            snapshot.partition("events", 4)
        shutil.rmtree(root / "events-10")
        snapshot.refresh()
        assert list(snapshot.partitions) == ["empty-0", "events-3"]


def test_few_files_stay_open(tmp_path: Path) -> None:
    for number in range(40):
        with Log.open(str(tmp_path / f"many-{number}"), segment_bytes=200) as log:
            fill(log, 0, 40)
    before = len(list(Path("/proc/self/fd").iterdir())) if Path("/proc").is_dir() else 0
    (tmp_path / "meta.properties").write_text("version=1\ncluster.id=c\nnode.id=1\n")
    found = logdex.open(tmp_path)
    assert isinstance(found, LogDirSnapshot)
    with found as snapshot:
        assert len(list(snapshot.scan())) == 40 * 40
        assert sum(one.log_end_offset for one in snapshot.partitions.values()) == 40 * 40
        assert len(snapshot.query("many", "k4")) == 40 * 8
        if before:
            assert len(list(Path("/proc/self/fd").iterdir())) < before + 40
    if before:
        assert len(list(Path("/proc/self/fd").iterdir())) <= before


def test_a_store_of_the_other_format(tmp_path: Path) -> None:
    (tmp_path / "store" / "commitlog").mkdir(parents=True)
    with pytest.raises(UsageError, match="a setting of Kafka's"):
        logdex.open(tmp_path / "store", index_interval_bytes=7)


def test_a_directory_of_key_indexes_that_is_none_is_told(path: Path, tmp_path: Path) -> None:
    nowhere = str(tmp_path / "nowhere")
    with opened(path) as partition, pytest.raises(MissingFileError, match="no such directory of key indexes"):
        partition.query("k", key_index_dir=nowhere)
    with LogDirSnapshot(str(path.parent)) as logs, pytest.raises(MissingFileError, match="no such directory"):
        logs.query("events", "k", key_index_dir=nowhere)


def test_two_directories_of_one_partition_are_refused(tmp_path: Path) -> None:
    for name in ("orders-0", "orders-00"):
        with Log.open(tmp_path / name) as log:
            log.append(Record(value=name.encode()))
    with pytest.raises(UsageError, match="orders-0 and orders-00 are both partition 0 of orders") as raised:
        LogDirSnapshot(str(tmp_path))
    frame = raised.traceback[1].frame
    assert repr(frame.f_locals["self"]).startswith("LogDirSnapshot(")  # as a debugger shows the half-made one
    with PartitionSnapshot(str(tmp_path / "orders-00")) as snapshot:
        assert [record.value for record in snapshot.read(0)] == [b"orders-00"]
