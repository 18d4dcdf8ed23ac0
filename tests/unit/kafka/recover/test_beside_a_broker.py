"""A broker removes, replaces and cuts files while they are recovered: nothing dies, and what it
took away is no loss."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from logdex.errors import VanishedError
from logdex.io.env import Env, ReadFile
from logdex.jobs import look_again
from logdex.kafka.batch.record import Record
from logdex.kafka.files.checkpoints import TopicPartition, read_offset_checkpoint
from logdex.kafka.log.log import Log
from logdex.kafka.recover import recover
from logdex.kafka.recover.report import RecoverReport
from logdex.kafka.verify import verify
from tests.beside import Beside
from tests.unit.kafka.batch.batch_bytes import batch, record
from tests.unit.kafka.verify.log_harm import CONFIG, FIRST, PARTITION, SECOND, THIRD, make_log_dir

OTHER = "other-0"


class _Vanishing(Env):
    """No .log is ever there when it is opened."""

    def open_read(self, path: str) -> ReadFile:
        if path.endswith(".log"):
            raise VanishedError("no such file", path=path)
        return super().open_read(path)


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    directory = make_log_dir(tmp_path / "clean")
    (directory / OTHER).mkdir()
    value = batch(record(0, 0, b"k", b"v"), 1, base_offset=0)
    (directory / OTHER / f"{0:020d}.log").write_bytes(value)
    return directory


def renamed(log_dir: Path, stem: str) -> None:
    """Removes a segment as a broker's retention does."""
    for path in (log_dir / stem).parent.glob(f"{Path(stem).name}.*"):
        path.rename(path.with_name(f"{path.name}.deleted"))


def run(path: Path, tmp_path: Path, env: Env) -> tuple[Path, RecoverReport]:
    output = tmp_path / "out"
    report = recover(path, output, CONFIG, env=env)
    if isinstance(env, Beside):
        assert env.has_acted
    assert verify(output, config=CONFIG).findings == []
    return output, report


def names(directory: Path) -> list[str]:
    return sorted(path.stem for path in directory.glob("*.log"))


@pytest.mark.parametrize("is_alone", [False, True], ids=["log directory", "partition"])
@pytest.mark.parametrize("number", [1, 2], ids=["before it is scanned", "before it is copied"])
def test_a_first_segment_that_retention_removes_is_no_loss(
    number: int, is_alone: bool, log_dir: Path, tmp_path: Path
) -> None:
    env = Beside(f"{FIRST}.log", lambda: renamed(log_dir, FIRST), number)
    output, report = run(log_dir / PARTITION if is_alone else log_dir, tmp_path, env)
    assert report.skipped == []
    assert names(output if is_alone else output / PARTITION) == [Path(each).name for each in (SECOND, THIRD)]
    assert report.messages == (20 if is_alone else 21)


def test_an_index_that_is_removed_while_it_is_read_is_no_loss(log_dir: Path, tmp_path: Path) -> None:
    (log_dir / f"{SECOND}.log").unlink()
    env = Beside(f"{SECOND}.index", lambda: renamed(log_dir, SECOND))
    _, report = run(log_dir, tmp_path, env)
    assert not report.lossy


def test_segments_that_compaction_replaces_are_read_as_they_are_then(log_dir: Path, tmp_path: Path) -> None:
    whole = (log_dir / f"{FIRST}.log").read_bytes() + (log_dir / f"{SECOND}.log").read_bytes()

    def compact() -> None:
        swap = log_dir / f"{FIRST}.log.swap"
        swap.write_bytes(whole)
        renamed(log_dir, SECOND)
        os.replace(swap, log_dir / f"{FIRST}.log")

    output, report = run(log_dir, tmp_path, Beside(f"{SECOND}.log", compact))
    assert not report.lossy
    assert (output / f"{FIRST}.log").read_bytes() == whole
    assert names(output / PARTITION) == [Path(each).name for each in (FIRST, THIRD)]


def test_a_swap_that_gets_its_name_behind_the_listing_is_read(tmp_path: Path) -> None:
    directory = tmp_path / "t-0"
    with Log.open(directory) as log:
        for number in range(10):
            log.append(Record(b"k", b"%d" % number))
        log.roll()
        log.append(Record(b"k", b"last"))
    first = directory / f"{0:020d}.log"
    swap = first.rename(f"{first}.swap")

    class Renaming(Env):
        def is_file(self, path: str) -> bool:
            if path == str(swap) and swap.exists():
                swap.rename(first)
            return super().is_file(path)

    _, report = run(directory, tmp_path, Renaming())
    assert (report.messages, report.lossy) == (11, False)


def test_a_partition_that_is_deleted_behind_its_listing_is_left_out(log_dir: Path, tmp_path: Path) -> None:
    class Deleting(Env):
        def list_dir(self, path: str) -> list[str]:
            names = super().list_dir(path)
            if path == str(log_dir / PARTITION):
                (log_dir / PARTITION).rename(log_dir / f"{PARTITION}.{'0' * 32}-delete")
            return names

    output, report = run(log_dir, tmp_path, Deleting())
    assert (report.partitions, report.messages) == (1, 1)
    assert not (output / PARTITION).exists()


@pytest.mark.parametrize("replaced", [True, False], ids=["compacted", "cut and written again"])
def test_a_segment_that_is_another_one_when_it_is_copied_is_read_again(replaced: bool, tmp_path: Path) -> None:
    with Log.open(tmp_path / "t-0", cleanup_policy=("compact",)) as log:
        log.append(Record(b"a", b"x" * 100))
        log.append(Record(b"b", b"y" * 100))

        def act() -> None:
            if replaced:
                log.append(Record(b"a", b"z" * 300))
                log.roll()
                log.append(Record(b"c", b""))
                log.compact()
            else:
                log.truncate_to(1)
                log.append(Record(b"d", b"z" * 5000))

        copied = 3  # a log is opened for its name, for the scan, and to be copied
        _, report = run(tmp_path / "t-0", tmp_path, Beside(f"{0:020d}.log", act, copied))
    assert (report.messages, report.lossy) == (3 if replaced else 2, False)


def test_a_batch_that_is_half_written_at_the_first_look_is_no_loss(tmp_path: Path) -> None:
    path = tmp_path / "t-0" / f"{0:020d}.log"
    with Log.open(tmp_path / "t-0") as log:
        log.append(Record(b"a", b"x" * 100))
        end = path.stat().st_size
        log.append(Record(b"b", b"y" * 8000))
        whole = path.read_bytes()
        os.truncate(path, end + 4096)
        _, report = run(tmp_path / "t-0", tmp_path, Beside(path.name, lambda: path.write_bytes(whole), 2))
    assert (report.messages, report.lossy) == (2, False)


def test_a_torn_end_that_stays_is_a_loss_beside_a_writer(tmp_path: Path) -> None:
    path = tmp_path / "t-0" / f"{0:020d}.log"
    with Log.open(tmp_path / "t-0") as log:
        log.append(Record(b"a", b"x" * 100))
        log.append(Record(b"b", b"y" * 8000))
        whole = path.read_bytes()
        os.truncate(path, len(whole) - 1)
        report = recover(tmp_path / "t-0", tmp_path / "out", CONFIG)
        path.write_bytes(whole)
    assert (report.messages, report.lossy) == (1, True)


def test_one_segment_stays_one_beside_a_writer(tmp_path: Path) -> None:
    with Log.open(tmp_path / "t-0") as log:
        for number in range(3):
            log.append(Record(b"a", b"%d" % number))
            log.roll()
        first = tmp_path / "t-0" / f"{0:020d}.log"
        whole = first.read_bytes()
        first.write_bytes(whole[:-1])
        report = recover(first, tmp_path / "out", CONFIG)
        first.write_bytes(whole)
    assert (report.messages, report.lossy) == (0, True)
    assert names(tmp_path / "out") == [first.stem]


def test_a_log_that_is_cut_before_it_is_copied_is_read_again(log_dir: Path, tmp_path: Path) -> None:
    path = log_dir / f"{THIRD}.log"
    size = path.stat().st_size
    output, report = run(log_dir, tmp_path, Beside(f"{THIRD}.log", lambda: os.truncate(path, size - 1), 2))
    assert report.messages == 30
    assert (output / f"{THIRD}.log").stat().st_size < size


@pytest.mark.parametrize("suffix", [f"{FIRST}.log", f"{PARTITION}/partition.metadata"])
def test_a_partition_that_is_deleted_is_left_out(suffix: str, log_dir: Path, tmp_path: Path) -> None:
    (log_dir / PARTITION / "partition.metadata").write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ\n")

    def delete() -> None:
        (log_dir / PARTITION).rename(log_dir / f"{PARTITION}.0123456789abcdef0123456789abcdef-delete")

    output, report = run(log_dir, tmp_path, Beside(suffix, delete))
    assert not report.lossy
    assert (report.partitions, report.messages) == (1, 1)
    assert [note for note in report.notes if "deleted by the broker meanwhile" in note]
    assert not (output / PARTITION).exists()
    assert list(read_offset_checkpoint(f"{output}/recovery-point-offset-checkpoint")) == [TopicPartition("other", 0)]


def test_a_lone_partition_that_is_deleted_is_an_error(log_dir: Path, tmp_path: Path) -> None:
    directory = log_dir / PARTITION
    env = Beside(f"{FIRST}.log", lambda: directory.rename(log_dir / "gone"))
    with pytest.raises(VanishedError, match="removed meanwhile"):
        recover(directory, tmp_path / "out", CONFIG, env=env)
    assert not list((tmp_path / "out").iterdir())


def test_a_log_that_keeps_going_away_is_an_error(
    log_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(look_again, "PAUSE_S", 0)
    with pytest.raises(VanishedError, match="no such file"):
        recover(log_dir, tmp_path / "out", CONFIG, env=_Vanishing())
    assert not list((tmp_path / "out").iterdir())
