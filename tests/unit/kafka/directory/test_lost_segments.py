"""Which indexes without a .log tell of a loss, and that all who read a partition say so."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from logdex.errors import CorruptError, LogdexError, LostSegmentError
from logdex.io.env import DEFAULT_ENV, Env
from logdex.kafka.directory.lost_segments import lost_segments
from logdex.kafka.directory.recognise import require_kafka
from logdex.kafka.read.read_filter import ReadFilter
from logdex.kafka.rebuild import rebuild
from logdex.kafka.rebuild.source import SourceSegment
from logdex.kafka.recover import recover
from logdex.kafka.settings.log_config import LogConfig
from logdex.kafka.snapshot.log_dir_snapshot import LogDirSnapshot
from logdex.kafka.snapshot.overview import overview
from logdex.kafka.snapshot.partition_snapshot import PartitionSnapshot
from logdex.spark.sources.kafka.table import LogDirTable
from tests.unit.kafka.verify.log_harm import CONFIG, FIRST, PARTITION, SECOND, THIRD, make_log_dir
from tests.unit.spark.sources.tables import rows_of


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return make_log_dir(tmp_path)


def lost(root: Path, *, start: int = 0, empty: tuple[int, ...] = (), env: Env = DEFAULT_ENV) -> list[tuple[int, int]]:
    segments = [SourceSegment("", "", base, 0) for base in empty]
    found = lost_segments(str(root / PARTITION), segments, lambda: start, env)
    return [(each.base_offset, each.next_offset) for each in found]


def remove(root: Path, stem: str) -> None:
    (root / f"{stem}.log").unlink()


def empty(root: Path, stem: str) -> None:
    os.truncate(root / f"{stem}.log", 0)


def test_what_is_lost(root: Path) -> None:
    assert lost(root) == []
    remove(root, SECOND)
    assert lost(root) == [(10, 20)]
    assert lost(root, start=19) == [(10, 20)]
    assert lost(root, start=20) == []
    remove(root, THIRD)
    assert lost(root) == [(10, 20), (20, -1)]
    remove(root, FIRST)
    assert lost(root) == [(0, 10), (10, 20), (20, -1)]


def test_what_is_no_loss(root: Path) -> None:
    remove(root, FIRST)
    assert lost(root) == []  # a deletion of the oldest segments was broken off
    (root / f"{THIRD}.log").rename(root / f"{THIRD}.log.deleted")
    assert lost(root) == []  # so was one of the newest
    for suffix in ("index", "timeindex", "txnindex"):
        os.truncate(root / f"{THIRD}.{suffix}", 0)
    (root / f"{THIRD}.log.deleted").unlink()
    assert lost(root) == []


def test_an_empty_log_is_lost_unless_it_is_the_last(root: Path) -> None:
    empty(root, SECOND)
    empty(root, THIRD)
    assert lost(root, empty=(10, 20)) == [(10, 20)]


class _Back(Env):
    """The second look at the directory finds the .log that the first did not."""

    def __init__(self, path: Path, data: bytes) -> None:
        super().__init__()
        self._path, self._data, self._looks = path, data, 0

    def list_dir(self, path: str) -> list[str]:
        self._looks += 1
        if self._looks == 2:
            self._path.write_bytes(self._data)
        return super().list_dir(path)


def test_a_segment_that_is_there_a_moment_later_is_not_lost(root: Path) -> None:
    path = root / f"{SECOND}.log"
    data = path.read_bytes()
    path.unlink()
    assert lost(root, env=_Back(path, data)) == []
    assert path.exists()


@pytest.mark.parametrize("harm", [remove, empty])
def test_scans_of_the_wanted_range_tell(harm: Callable[[Path, str], None], root: Path) -> None:
    harm(root, SECOND)
    with LogDirSnapshot(root) as snapshot:
        scan = snapshot.scan()
        assert len(list(scan)) == 18
        assert not scan.is_good
        assert "offsets 10 to 19 are lost" in scan.losses[0]
        assert len(scan.losses) == 1
        for wanted, is_told in (
            ((0, 10), False),
            ((0, 11), True),
            ((12, 15), True),
            ((19, 30), True),
            ((20, 30), False),
        ):
            part = snapshot.scan(offset=wanted[0], end_offset=wanted[1])
            list(part)
            assert bool(part.losses) is is_told, wanted
    with PartitionSnapshot(root / PARTITION) as one:
        assert [type(each) for each in one.problems] == [LostSegmentError]
        with pytest.raises(LostSegmentError, match=r"10\.log: there is no such file|10\.log: the file is empty"):
            one.query(b"key")
        problems: list[LogdexError] = []
        assert len(one.query(b"key", problems=problems)) == 18
        assert len(problems) == 1


def test_whoever_reads_to_the_end_of_the_log_is_told_of_its_last_segment(root: Path) -> None:
    remove(root, THIRD)
    with PartitionSnapshot(root / PARTITION) as one:
        assert one.log_end_offset == 20
        for end, is_told in ((None, True), (20, True), (19, False)):
            plan = one.plan_read(ReadFilter(end_offset=end))
            assert [split.lost is not None for split in plan.splits] == [False, False, *([True] if is_told else [])]
            assert plan.pruned_files == 0
        with pytest.raises(CorruptError, match="offsets from 20 on are lost"):
            list(one.plan_read(ReadFilter()).splits[-1].to_batches())


@pytest.mark.parametrize("stems", [[SECOND], [THIRD], [FIRST, SECOND, THIRD]])
def test_the_source_of_spark_treats_it_as_damage(stems: list[str], root: Path) -> None:
    for stem in stems:
        remove(root, stem)
    with pytest.raises(LostSegmentError, match=r"are lost.*mode=PERMISSIVE"):
        rows_of(LogDirTable({"path": str(root)}))
    told = [
        row["_corrupt"]
        for row in rows_of(LogDirTable({"path": str(root), "mode": "PERMISSIVE", "maxRecordsPerPartition": "3"}))
        if row.get("_corrupt")
    ]
    assert [(row["file"], row["begin"], row["end"]) for row in told] == [
        (f"{root}/{stem}.log", 0, None) for stem in stems
    ]
    assert all(row["reason"].startswith("there is no such file, but") for row in told)


@pytest.mark.parametrize("harm", [remove, empty])
def test_a_rebuild_tells_each_time_and_leaves_the_indexes(harm: Callable[[Path, str], None], root: Path) -> None:
    harm(root, SECOND)
    indexes = {path.name: path.read_bytes() for path in (root / PARTITION).glob("*10.*index")}
    assert len(indexes) == 3
    for _ in range(2):
        report = rebuild(str(root), str(root), in_place=True, sync=False)
        assert report.lossy
        assert "offsets 10 to 19 are lost" in report.losses[0]
        assert {name: (root / PARTITION / name).read_bytes() for name in indexes} == indexes
    assert rebuild(str(root / PARTITION), str(root.parent / "out"), sync=False).lossy


@pytest.mark.parametrize("harm", [remove, empty])
def test_a_recovery_tells_once(harm: Callable[[Path, str], None], root: Path, tmp_path: Path) -> None:
    harm(root, SECOND)
    report = recover(root, tmp_path / "out", CONFIG)
    assert [(each.first_offset, each.next_offset) for each in report.skipped] == [(10, 20)]
    assert report.lossy
    assert not recover(tmp_path / "out", tmp_path / "again", CONFIG).lossy


def test_committed_offsets_tell_of_a_lost_segment(root: Path) -> None:
    (root / PARTITION).rename(root / "__consumer_offsets-0")
    (root / "__consumer_offsets-0" / f"{10:020d}.log").unlink()
    with LogDirSnapshot(root) as snapshot:
        problems = snapshot.log_dir.consumer_offsets().problems
    assert len([each for each in problems if isinstance(each, LostSegmentError)]) == 1
    found = overview(require_kafka(root), LogConfig())
    assert len([each for each in found.problems if "offsets 10 to 19 are lost" in each]) == 1
