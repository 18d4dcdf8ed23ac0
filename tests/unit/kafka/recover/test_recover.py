"""Recovering: what cannot be placed is put aside, repeated batches are dropped, swap files are
taken, outputs refused, in-place runs keep what they replace."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from logdex.errors import EnvironmentProblem, LogInUseError, NotAStoreError, StorageError, UsageError
from logdex.io.env import Env
from logdex.kafka.directory.log_lock import DirectoryLock
from logdex.kafka.files.checkpoints import read_offset_checkpoint
from logdex.kafka.files.file_names import LOCK_FILE
from logdex.kafka.recover import recover
from logdex.kafka.recover.report import RecoverReport
from logdex.kafka.verify import verify
from tests.directories import tree_hash
from tests.unit.kafka.batch.batch_bytes import batch, record
from tests.unit.kafka.verify.log_harm import CONFIG, FIRST, PARTITION, SECOND, SEGMENTS, THIRD, batches, make_log_dir
from tests.unit.kafka.verify.older_broker import OlderBroker, batch_at


def one(offset: int, value: bytes = b"v", count: int = 1) -> bytes:
    """A batch of `count` records."""
    payload = b"".join(record(n, 0, b"k", value) for n in range(count))
    return batch(payload, count, base_offset=offset, base_ms=1000 + offset, max_ms=1000 + offset)


@pytest.fixture
def partition(tmp_path: Path) -> Callable[..., Path]:
    """`partition({base: bytes})`: a partition's directory with these logs."""

    def make(logs: dict[int, bytes]) -> Path:
        directory = tmp_path / "in" / "t-0"
        directory.mkdir(parents=True)
        for base, raw in logs.items():
            (directory / f"{base:020d}.log").write_bytes(raw)
        return directory

    return make


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    return make_log_dir(tmp_path / "clean")


def recover_to(path: Path, tmp_path: Path, **options: Any) -> tuple[Path, RecoverReport]:
    output = tmp_path / "out"
    return output, recover(str(path), str(output), CONFIG, **options)


def logs(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(directory.glob("*.log"))}


def test_a_healthy_directory_is_the_same_again(log_dir: Path, tmp_path: Path) -> None:
    before = tree_hash(log_dir)
    output, report = recover_to(log_dir, tmp_path)
    assert not report.lossy
    assert tree_hash(log_dir) == before
    for path in log_dir.rglob("*"):
        if path.is_file():
            assert (output / path.relative_to(log_dir)).read_bytes() == path.read_bytes(), path
    assert (report.messages, report.batches, report.partitions) == (30, 18, 1)
    assert report.bytes == sum(path.stat().st_size for path in log_dir.rglob("*.log"))


def test_what_lies_behind_damage_is_kept(log_dir: Path, tmp_path: Path) -> None:
    raw = bytearray((log_dir / f"{SECOND}.log").read_bytes())
    start, end = (sum(map(len, batches(10)[:number])) for number in (1, 2))
    raw[start + 70] ^= 1
    (log_dir / f"{SECOND}.log").write_bytes(raw)
    output, report = recover_to(log_dir, tmp_path)
    (skipped,) = report.skipped
    assert (skipped.start, skipped.end, skipped.first_offset, skipped.next_offset) == (start, end, 12, 14)
    assert report.lossy
    assert report.skipped_bytes == end - start
    assert "offsets 12 to 13 are lost" in str(skipped)
    assert (output / f"{SECOND}.log").read_bytes() == bytes(raw[:start] + raw[end:])
    assert (output / f"{THIRD}.log").read_bytes() == (log_dir / f"{THIRD}.log").read_bytes()
    assert verify(str(output), CONFIG).findings == []


@pytest.mark.parametrize("per_append", [1, 3])
def test_batches_that_an_index_names_are_kept_between_destroyed_headers(per_append: int, tmp_path: Path) -> None:
    """In an index of an older broker the entries are of appends."""
    broker, written = OlderBroker(tmp_path / PARTITION, 150), [batch_at(2 * n, n, n) for n in range(24)]
    for first in range(0, 24, per_append):
        broker.append(b"".join(written[first : first + per_append]))
    broker.close()
    raw, size = bytearray(b"".join(written)), len(written[0])
    for number in (2, 13):
        raw[number * size : number * size + 61] = b"\xaa" * 61
    (tmp_path / f"{FIRST}.log").write_bytes(raw)
    output, report = recover_to(tmp_path / PARTITION, tmp_path)
    assert logs(output) == {f"{0:020d}.log": b"".join(written[:2] + written[3:13] + written[14:])}
    assert [(each.first_offset, each.next_offset) for each in report.skipped] == [(4, 6), (26, 28)]


def test_torn_bytes_before_the_next_append_are_no_loss(partition: Callable[..., Path], tmp_path: Path) -> None:
    whole = one(0) + one(1)
    output, report = recover_to(partition({0: one(0) + one(1)[:40] + one(1)}), tmp_path)
    assert logs(output) == {f"{0:020d}.log": whole}
    assert [(each.start, each.end, each.is_loss) for each in report.skipped] == [(len(one(0)), len(one(0)) + 40, False)]
    assert not report.lossy


def test_zeros_behind_the_last_batch_are_no_loss_and_before_another_are(
    partition: Callable[..., Path], tmp_path: Path
) -> None:
    output, report = recover_to(partition({0: one(0) + bytes(50) + one(4) + bytes(70)}), tmp_path)
    assert logs(output) == {f"{0:020d}.log": one(0) + one(4)}
    assert [(each.why, each.is_loss, each.first_offset, each.next_offset) for each in report.skipped] == [
        ("zeros", True, 1, 4),
        ("zeros", False, 5, -1),
    ]


def test_a_batch_that_is_there_twice_is_dropped_once(partition: Callable[..., Path], tmp_path: Path) -> None:
    output, report = recover_to(partition({0: one(0) + one(1) + one(2) + one(1) + one(2) + one(3)}), tmp_path)
    assert logs(output) == {f"{0:020d}.log": one(0) + one(1) + one(2) + one(3)}
    assert [each.why for each in report.skipped] == ["a batch that is in the log already"] * 2
    assert not report.lossy


def test_a_batch_whose_offsets_are_taken_is_put_aside(partition: Callable[..., Path], tmp_path: Path) -> None:
    other = one(1, b"another")
    output, report = recover_to(partition({0: one(0) + one(1) + one(2) + other + one(3)}), tmp_path)
    assert logs(output) == {f"{0:020d}.log": one(0) + one(1) + one(2) + one(3)}
    assert logs(output / "lost+found") == {f"{0:020d}.log": other}
    (skipped,) = report.skipped
    assert skipped.saved == f"lost+found/{0:020d}.log"
    assert report.lossy
    assert [(info.kind) for info in verify(str(output)).infos if info.kind == "lost-and-found"]


@pytest.mark.parametrize(
    ("logs_bytes", "lost"),
    [
        ({0: one(64, count=4) + one(4) + one(5) + one(64)}, (0, 4)),
        ({0: one(0) + one(64, count=4) + one(5) + one(64)}, (1, 5)),
        ({0: one(0) + one(1), 2: one(0, b"w") + one(3)}, (2, 3)),
        ({0: one(0) + one(1) + one(1 << 40, count=3)}, (2, 5)),
        ({0: one(0) + one(0, b"w") + one(1)}, (1, 1)),
    ],
    ids=["the first", "in the middle", "of the next file", "the last", "none is missing"],
)
def test_what_is_lost_is_what_the_neighbours_leave_open(
    logs_bytes: dict[int, bytes], lost: tuple[int, int], partition: Callable[..., Path], tmp_path: Path
) -> None:
    """Not what the batch with the damaged offset says."""
    output, report = recover_to(partition(logs_bytes), tmp_path)
    (skipped,) = report.skipped
    assert (skipped.first_offset, skipped.next_offset) == lost
    told = f"offsets {lost[0]} to {lost[1] - 1} are lost" if lost[0] < lost[1] else "no offset is missing for it"
    assert told in str(skipped)
    assert list((output / "lost+found").iterdir())


def test_offsets_between_two_segments_that_are_not_there_are_told(log_dir: Path, tmp_path: Path) -> None:
    """By recover and by verify, which do not tell of those before the first segment."""
    for path in (log_dir / PARTITION).glob(f"{10:020d}.*"):
        path.unlink()
    told = "offsets 10 to 19 are not there: a segment may be missing"
    _, report = recover_to(log_dir, tmp_path)
    assert [told in note for note in report.notes] == [True]
    assert not report.lossy
    gaps = [info for info in verify(str(log_dir), CONFIG).infos if info.kind == "offset-gap"]
    assert [(Path(info.path).name, told in info.message) for info in gaps] == [(f"{20:020d}.log", True)]
    for path in (log_dir / PARTITION).glob(f"{0:020d}.*"):
        path.unlink()
    assert [info for info in verify(str(log_dir), CONFIG).infos if info.kind == "offset-gap"] == []


def test_an_index_without_its_log_is_no_loss_if_another_log_has_its_offsets(
    partition: Callable[..., Path], tmp_path: Path
) -> None:
    directory = partition({0: one(0) + one(1), 3: one(3) + one(2)})
    (directory / f"{2:020d}.index").write_bytes(b"\0\0\0\1\0\0\0\1")
    _, report = recover_to(directory, tmp_path)
    assert (report.messages, report.lossy) == (4, False)


def test_a_run_out_of_order_goes_where_it_belongs(partition: Callable[..., Path], tmp_path: Path) -> None:
    output, report = recover_to(partition({0: one(0) + one(5) + one(6) + one(2) + one(3) + one(7)}), tmp_path)
    assert logs(output) == {f"{0:020d}.log": one(0) + one(2) + one(3) + one(5) + one(6) + one(7)}
    assert not report.lossy
    assert any("not in the order" in note for note in report.notes)


@pytest.mark.parametrize("far", [1 << 40, (1 << 62) + 7])
def test_an_offset_that_nothing_bears_out_is_not_believed(
    far: int, partition: Callable[..., Path], tmp_path: Path
) -> None:
    output, report = recover_to(partition({0: one(0) + one(1) + one(far), 3: one(3) + one(4)}), tmp_path)
    assert logs(output) == {f"{0:020d}.log": one(0) + one(1), f"{3:020d}.log": one(3) + one(4)}
    assert logs(output / "lost+found") == {f"{0:020d}.log": one(far)}
    assert report.lossy


def test_offsets_that_no_index_holds_begin_another_segment(partition: Callable[..., Path], tmp_path: Path) -> None:
    far = (1 << 31) + 10
    output, report = recover_to(partition({0: one(0) + one(5) + one(far) + one(far + 1)}), tmp_path)
    assert logs(output) == {f"{0:020d}.log": one(0) + one(5), f"{far:020d}.log": one(far) + one(far + 1)}
    assert not report.lossy
    assert verify(str(output)).findings == []


def test_a_segment_with_a_wrong_name_gets_a_right_one(partition: Callable[..., Path], tmp_path: Path) -> None:
    output, _ = recover_to(partition({0: one(0) + one(1), 9: one(2) + one(3)}), tmp_path)
    assert b"".join(logs(output).values()) == one(0) + one(1) + one(2) + one(3)
    assert verify(str(output)).findings == []


def test_an_empty_active_segment_keeps_the_end(partition: Callable[..., Path], tmp_path: Path) -> None:
    output, _ = recover_to(partition({0: one(0), 7: b""}), tmp_path)
    assert logs(output) == {f"{0:020d}.log": one(0), f"{7:020d}.log": b""}


def test_swap_files_take_the_place_of_what_they_cover(partition: Callable[..., Path], tmp_path: Path) -> None:
    directory = partition({0: one(0) + one(1), 2: one(2), 3: one(3)})
    (directory / f"{0:020d}.log.swap").write_bytes(one(1) + one(2))
    output, report = recover_to(directory, tmp_path)
    assert logs(output) == {f"{0:020d}.log": one(1) + one(2), f"{3:020d}.log": one(3)}
    assert sum("replaced by the .swap" in note for note in report.notes) == 2


@pytest.mark.parametrize(
    ("gone", "expected"),
    [(SECOND, [(10, 20)]), (THIRD, [(20, -1)]), (FIRST, [])],
    ids=["in the middle", "the last one", "the first one, whose deletion may have been broken off"],
)
def test_a_log_that_is_not_there_is_a_loss_if_its_index_is(
    gone: str, expected: list[tuple[int, int]], log_dir: Path, tmp_path: Path
) -> None:
    (log_dir / f"{gone}.log").unlink()
    for path in (log_dir, log_dir / PARTITION):
        (tmp_path / path.name).mkdir()
        _, report = recover_to(path, tmp_path / path.name)
        assert [(each.first_offset, each.next_offset) for each in report.skipped if each.is_loss] == expected
        assert report.lossy is bool(expected)
        assert bool(expected) or [note for note in report.notes if "an index without its log" in note]


def test_one_log_by_itself(log_dir: Path, tmp_path: Path) -> None:
    output, report = recover_to(log_dir / f"{SECOND}.log", tmp_path)
    assert sorted(path.name for path in output.iterdir()) == [
        Path(f"{SECOND}.{suffix}").name for suffix in ("index", "log", "timeindex")
    ]
    for path in output.iterdir():
        assert path.read_bytes() == (log_dir / PARTITION / path.name).read_bytes()
    assert report.messages == 10


def test_checkpoints_are_bounded_by_the_new_end(log_dir: Path, tmp_path: Path) -> None:
    (log_dir / f"{THIRD}.log").write_bytes(b"".join(batches(20)[:3]) + b"torn")
    output, report = recover_to(log_dir, tmp_path)
    for name, end in (("recovery-point", 26), ("replication", 26), ("cleaner", 10)):
        path = output / f"{name}-offset-checkpoint"
        assert list(read_offset_checkpoint(str(path)).values()) == [end]
    assert any("said 30, the log now ends at 26" in note for note in report.notes)
    assert any("transaction from offset 24" in note for note in report.notes)
    assert verify(str(output), CONFIG).findings == []


def test_names_that_are_not_taken_over_are_told(log_dir: Path, tmp_path: Path) -> None:
    for name in ("copy.log", f"{5:020d}.log.deleted", "notes.txt"):
        (log_dir / PARTITION / name).write_bytes(b"12345")
    (log_dir / "readme").write_text("x")
    output, report = recover_to(log_dir, tmp_path)
    assert sum("not taken over" in note for note in report.notes) == 4
    assert not (output / PARTITION / "copy.log").exists()


def test_small_files_that_cannot_be_read_are_left_out(log_dir: Path, tmp_path: Path) -> None:
    for name in ("meta.properties", "replication-offset-checkpoint", f"{PARTITION}/partition.metadata"):
        (log_dir / name).write_text("version: nonsense\n")
    (log_dir / PARTITION / "leader-epoch-checkpoint").write_text("0\n9\n")
    output, report = recover_to(log_dir, tmp_path)
    assert len(report.notes) == 4
    assert (output / PARTITION / "leader-epoch-checkpoint").read_text() == "0\n3\n0 0\n1 10\n2 20\n"
    assert verify(str(output), CONFIG).findings == []


# -- in place ------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", ["", PARTITION])
def test_in_place_keeps_what_it_replaces(name: str, log_dir: Path, tmp_path: Path) -> None:
    (log_dir / ".lock").touch()
    harmed = (log_dir / f"{SECOND}.log").read_bytes()[:-7]
    (log_dir / f"{SECOND}.log").write_bytes(harmed)
    path = log_dir / name
    report = recover(str(path), str(path), CONFIG, in_place=True)
    assert report.lossy
    (kept,) = [Path(where) for key, where in report.kept.items() if key.endswith(Path(f"{SECOND}.log").name)]
    assert kept.read_bytes() == harmed
    assert verify(str(path), CONFIG).findings == []
    assert sorted(each.name for each in log_dir.iterdir() if each.is_dir()) == [PARTITION]


@pytest.mark.parametrize("name", ["", PARTITION])
def test_in_place_the_own_lock_is_not_taken_for_another_process(name: str, log_dir: Path, tmp_path: Path) -> None:
    (log_dir / LOCK_FILE).touch()
    path = str(log_dir / name)
    assert not [note for note in recover(path, path, CONFIG, in_place=True).notes if "open in another process" in note]


def test_in_place_is_refused_while_a_broker_runs(log_dir: Path) -> None:
    lock = DirectoryLock(str(log_dir), env=Env())
    before = tree_hash(log_dir)
    try:
        with pytest.raises(LogInUseError):
            recover(str(log_dir), str(log_dir), in_place=True)
        assert tree_hash(log_dir) == before
    finally:
        lock.release()


# -- refusals ------------------------------------------------------------------------------------
def test_outputs_that_are_refused(log_dir: Path, tmp_path: Path) -> None:
    full = tmp_path / "full"
    full.mkdir()
    (full / "x").touch()
    for output in (log_dir, log_dir / "out", log_dir / PARTITION / "out", log_dir.parent, full):
        with pytest.raises(UsageError):
            recover(str(log_dir), str(output))
    with pytest.raises(UsageError):
        recover(str(log_dir / PARTITION), str(log_dir / "elsewhere"))
    with pytest.raises(UsageError, match="give the"):
        recover(str(log_dir / f"{FIRST}.index"), str(tmp_path / "o"))
    with pytest.raises(NotAStoreError):
        recover(str(tmp_path / "nothing"), str(tmp_path / "o"))
    assert len(SEGMENTS) == len(list((log_dir / PARTITION).glob("*.log")))


class _Full(Env):
    """A disk without room, or one that fails at a write."""

    def __init__(self, free: int, failing: str = "") -> None:
        super().__init__()
        self._free, self._failing = free, failing

    def free_bytes(self, path: str) -> int:
        return self._free

    def rename(self, source: str, target: str) -> None:
        if self._failing and target.endswith(self._failing):
            raise StorageError("no space left on device", path=target, errno=28)
        super().rename(source, target)


def test_space_is_asked_for_before_anything_is_written(log_dir: Path, tmp_path: Path) -> None:
    with pytest.raises(EnvironmentProblem, match="are needed"):
        recover(str(log_dir), str(tmp_path / "out"), env=_Full(100))
    assert not (tmp_path / "out").exists()


def test_a_failure_publishes_nothing_and_can_be_run_again(log_dir: Path, tmp_path: Path) -> None:
    with pytest.raises(StorageError):
        recover(str(log_dir), str(tmp_path / "out"), env=_Full(1 << 40, "meta.properties"))
    assert list((tmp_path / "out").iterdir()) == []
    output, report = recover_to(log_dir, tmp_path)
    assert not report.lossy
    shutil.rmtree(output)


def test_an_epoch_that_the_batches_contradict_is_not_taken_over(log_dir: Path, tmp_path: Path) -> None:
    (log_dir / PARTITION / "leader-epoch-checkpoint").write_text("0\n4\n0 0\n1 10\n2 20\n7 22\n")
    output, _ = recover_to(log_dir, tmp_path)
    assert (output / PARTITION / "leader-epoch-checkpoint").read_text() == "0\n3\n0 0\n1 10\n2 20\n"
    assert verify(str(output), CONFIG).findings == []
