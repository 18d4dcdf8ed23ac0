"""Recovering keeps what is not in the log: where it starts, and how far named readers are."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from logdex.kafka.batch.record import Record
from logdex.kafka.files.reader_positions import read_position, reader_names
from logdex.kafka.log.log import Log
from logdex.kafka.recover import recover
from logdex.kafka.snapshot.log_dir_snapshot import open_kafka
from logdex.kafka.snapshot.partition_snapshot import PartitionSnapshot
from logdex.kafka.verify import verify

START, COUNT = 34, 60
KEPT = list(range(START, COUNT))


def make(path: Path) -> Path:
    """A log from 30 on, whose records below `START` are deleted, and two readers."""
    with Log.open(str(path)) as log:
        for first in range(0, COUNT, 5):
            if first == 30:
                log.roll()
            log.append([Record(b"k", b"%d" % at, 1000 + at) for at in range(first, first + 5)])
        log.delete_records(START)
        for name, offset in (("audit", 41), ("mail", COUNT)):
            with log.reader(name) as reader:
                reader.seek(offset)
                reader.commit()
    return path


@pytest.fixture
def partition(tmp_path: Path) -> Path:
    return make(tmp_path / "events-0")


def positions(path: Path) -> dict[str, int | None]:
    return {name: read_position(str(path), name) for name in reader_names(str(path))}


def offsets(path: Path) -> list[int]:
    with PartitionSnapshot(str(path)) as snapshot:
        return [record.offset for record in snapshot.scan(isolation="read_uncommitted")]


def cut(path: Path) -> int:
    """Cuts the last batch in half; returns the log's new end."""
    (log,) = path.glob("*.log")
    raw = log.read_bytes()
    log.write_bytes(raw[: len(raw) - 20])
    return COUNT - 5


@pytest.mark.parametrize("name", ["events-0", "other-3", "events-rec", "no partition"])
def test_a_partition_by_itself(partition: Path, tmp_path: Path, name: str) -> None:
    output = tmp_path / "out" / name
    report = recover(str(partition), str(output))
    assert not report.lossy
    assert offsets(output) == offsets(partition) == KEPT
    assert positions(output) == positions(partition) == {"audit": 41, "mail": COUNT}
    assert verify(str(output)).findings == []
    if name[-1].isdigit():
        with Log.open(str(output)) as log:
            assert log.log_start_offset == START
            assert log.append(Record(b"k", b"more")).first_offset == COUNT
        assert offsets(output) == [*KEPT, COUNT]


def test_in_place(partition: Path) -> None:
    recover(str(partition), str(partition), in_place=True)
    assert offsets(partition) == KEPT
    assert positions(partition) == {"audit": 41, "mail": COUNT}
    with Log.open(str(partition)) as log:
        assert log.log_start_offset == START


@pytest.mark.parametrize("in_place", [False, True])
def test_nothing_lies_behind_the_recovered_end(partition: Path, tmp_path: Path, in_place: bool) -> None:
    end = cut(partition)
    output = partition if in_place else tmp_path / "out"
    report = recover(str(partition), str(output), in_place=in_place)
    assert report.lossy
    assert positions(output) == {"audit": 41, "mail": end}
    assert any("the reader mail" in note and f"{COUNT}" in note for note in report.notes), report.notes
    assert offsets(output) == list(range(START, end))


@pytest.mark.parametrize("in_place", [False, True])
def test_a_start_behind_the_recovered_end_is_bounded(partition: Path, tmp_path: Path, in_place: bool) -> None:
    with Log.open(str(partition)) as log:
        log.delete_records(COUNT - 2)
    end = cut(partition)
    output = partition if in_place else tmp_path / "out"
    report = recover(str(partition), str(output), in_place=in_place)
    with PartitionSnapshot(str(output)) as snapshot:
        assert (snapshot.log_start_offset, snapshot.log_end_offset) == (end, end)
    assert any(f"said {COUNT - 2}" in note for note in report.notes), report.notes


@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize("home", ["a broker's", "none"])
def test_a_directory_of_partitions(tmp_path: Path, home: str, in_place: bool) -> None:
    root = tmp_path / "logs"
    root.mkdir()
    if home != "none":
        (root / "meta.properties").write_text("version=1\n")
    partitions = [make(root / "events-0"), make(root / "events-1")]
    output = root if in_place else tmp_path / "out"
    recover(str(root), str(output), in_place=in_place)
    for each in partitions:
        assert offsets(output / each.name) == KEPT
        assert positions(output / each.name) == {"audit": 41, "mail": COUNT}
    with open_kafka(str(output)) as snapshot:
        assert [record.offset for record in snapshot.scan(isolation="read_uncommitted")] == KEPT * 2


def test_a_partition_of_a_log_directory(tmp_path: Path) -> None:
    """Its start is in the checkpoint of the directory above; the output has one of its own."""
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "meta.properties").write_text("version=1\n")
    partition = make(tmp_path / "logs" / "events-0")
    recover(str(partition), str(tmp_path / "out" / "events-0"))
    assert offsets(tmp_path / "out" / "events-0") == KEPT


def test_a_partition_that_moves_into_a_log_directory(partition: Path, tmp_path: Path) -> None:
    """A broker's checkpoint is not written by others."""
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "meta.properties").write_text("version=1\n")
    report = recover(str(partition), str(tmp_path / "logs" / "events-0"))
    assert any("enter its line in" in note for note in report.notes), report.notes


def test_damaged_small_files_are_told_and_left_out(partition: Path, tmp_path: Path) -> None:
    (partition / ".logdex-readers" / "audit.json").write_text("{")
    (partition / "log-start-offset-checkpoint").write_text("0\n1\nwhat")
    report = recover(str(partition), str(tmp_path / "out"))
    assert positions(tmp_path / "out") == {"mail": COUNT}
    assert any("audit.json" in note for note in report.notes), report.notes
    assert any("log-start-offset-checkpoint" in note for note in report.notes), report.notes


def test_a_renamed_partition_keeps_its_start(partition: Path, tmp_path: Path) -> None:
    """Its checkpoint states the old name."""
    renamed = tmp_path / "orders-7"
    shutil.copytree(partition, renamed)
    assert offsets(renamed) == KEPT
    assert verify(str(renamed)).findings == []
    with Log.open(str(renamed)) as log:
        assert log.log_start_offset == START
        log.delete_records(START + 1)
    assert (renamed / "log-start-offset-checkpoint").read_text() == f"0\n1\norders 7 {START + 1}\n"
