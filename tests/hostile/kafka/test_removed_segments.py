"""A broker removes, replaces and extends segments while they are read: readers look again and go
on."""

from __future__ import annotations

import pickle
import shutil
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from logdex.convert.export import export
from logdex.convert.filter.logs import filter_logs
from logdex.convert.sources.kafka import LogDirSource
from logdex.convert.stats import stats
from logdex.convert.translate.job import convert
from logdex.errors import VanishedError
from logdex.io.env import Env, ReadFile
from logdex.kafka.batch.record import Record
from logdex.kafka.files.checkpoints import TopicPartition, write_offset_checkpoint
from logdex.kafka.log.log import Log
from logdex.kafka.read.follow.follower import LogFollower
from logdex.kafka.read.read_filter import ReadFilter
from logdex.kafka.read.splits.split import ReadSplit
from logdex.kafka.rebuild import rebuild
from logdex.kafka.snapshot.log_dir_snapshot import LogDirSnapshot
from logdex.kafka.snapshot.partition_snapshot import PartitionSnapshot
from logdex.kafka.verify import verify
from tests.beside import At
from tests.examples import cases, some
from tests.hostile.kafka.cut_readers import START_MS, logs, make

Change = Callable[[Path], None]


class ChangingEnv(Env):
    """Changes a directory once, just before the file at `path` is opened for the time number
    `opens`."""

    def __init__(self, path: Path, change: Callable[[], object], opens: int = 1) -> None:
        super().__init__()
        self._path, self._change, self._left = str(path), change, opens

    def open_read(self, path: str) -> ReadFile:
        if path == self._path:
            self._left -= 1
            if self._left == 0:
                self._change()
        return super().open_read(path)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = make(tmp_path_factory.mktemp("removed") / "logs")
    for path in (home / "events-0").glob("*.keyindex"):
        path.unlink()
    (home / "meta.properties").write_text("version=1\nnode.id=1\ncluster.id=c\n")
    return home


@pytest.fixture
def home(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "logs"))


def offsets_of(home: Path, env: Env | None = None) -> list[int]:
    with PartitionSnapshot(home / "events-0", env=env) as snapshot:
        offsets: list[int] = snapshot.scan().arrow_reader(["offset"]).read_all().column("offset").to_pylist()
    return offsets


def expire(home: Path) -> None:
    """As retention does."""
    for path in (home / "events-0").glob(f"{logs(home)[0].stem}.*"):
        path.rename(f"{path}.deleted")


def join(home: Path) -> None:
    """The first two segments become one, as by a compaction."""
    first, second, *_ = logs(home)
    joined = first.read_bytes() + second.read_bytes()
    for path in [*(home / "events-0").glob(f"{second.stem}.*"), *(home / "events-0").glob(f"{first.stem}.*")]:
        path.rename(f"{path}.deleted")
    first.write_bytes(joined)
    rebuild(home / "events-0", home.parent / "derived", index_interval_bytes=400, sync=False)
    for name in (f"{first.stem}.index", f"{first.stem}.timeindex", f"{first.stem}.txnindex"):
        if (home.parent / "derived" / name).exists():
            shutil.copy(home.parent / "derived" / name, first.parent / name)


def shorten(home: Path) -> None:
    """Another file takes the place of the first segment, as by a compaction that drops batches."""
    first = logs(home)[0]
    path = first.with_suffix(".swap")
    path.write_bytes(first.read_bytes()[: batch_ends(first)[2]])
    path.replace(first)


def batch_ends(path: Path) -> list[int]:
    """Where the batches of a log end."""
    data, ends = path.read_bytes(), [0]
    while ends[-1] < len(data):
        ends.append(ends[-1] + 12 + int.from_bytes(data[ends[-1] + 8 : ends[-1] + 12], "big"))
    return ends[1:]


@pytest.mark.parametrize("number", [0, 1])
def test_a_scan_goes_on_behind_a_segment_that_was_trimmed(home: Path, number: int) -> None:
    before, path = offsets_of(home), logs(home)[number]
    found = offsets_of(home, ChangingEnv(path, lambda: expire(home), opens=2))
    assert found == (before if number else [offset for offset in before if offset >= int(logs(home)[0].stem)])


def test_a_scan_reads_each_record_once_though_segments_are_joined(home: Path) -> None:
    before, second = offsets_of(home), logs(home)[1]
    assert offsets_of(home, ChangingEnv(second, lambda: join(home), opens=2)) == before
    assert len(logs(home)) == 3


def test_a_scan_goes_on_as_often_as_segments_are_replaced(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("logdex.kafka.read.record_scan.LOOKS_MAX", 1)
    before, replaced = offsets_of(home), set[str]()
    read = ReadSplit.read

    def replacing(split: ReadSplit, *given: Any, **options: Any) -> Any:
        """Each segment is replaced when the scan comes to it."""
        if split.path not in replaced:
            replaced.add(split.path)
            shutil.copy(split.path, f"{split.path}.copy")
            Path(f"{split.path}.copy").replace(split.path)
        return read(split, *given, **options)

    monkeypatch.setattr(ReadSplit, "read", replacing)
    assert offsets_of(home) == before
    assert len(replaced) == len(logs(home)) - 1 > 2  # the active segment is empty


def test_a_scan_of_all_partitions_goes_on_behind_one_that_is_deleted(home: Path) -> None:
    shutil.copytree(home / "events-0", home / "later-0")
    with LogDirSnapshot(home) as snapshot:
        scan = snapshot.scan()
        shutil.move(home / "events-0", home / "events-0.0123-delete")
        assert {partition.topic for partition, _ in scan.items()} == {"later"}
        assert [each.name for each in scan.deleted] == ["events-0"]
    with LogDirSnapshot(home) as snapshot:
        shutil.move(home / "later-0", home / "later-0.4567-delete")
        assert snapshot.partitions == {}
        assert [*snapshot.scan()] == []


def test_a_follower_goes_on_where_the_first_segment_is_trimmed(made: Path, tmp_path: Path) -> None:
    whole = offsets_of(made)
    for number in some(range(1, 120), 6):
        home = Path(shutil.copytree(made, tmp_path / str(number)))
        found: list[int] = []
        with LogFollower(home / "events-0", env=At(number, partial(expire, home))) as tail:
            for _ in range(12):
                found += [record.offset for record in tail.poll(40)]
        first = int(logs(home)[0].stem)
        read = [offset for offset in found if offset < first]
        assert read == whole[: len(read)]
        assert found[len(read) :] == [offset for offset in whole if offset >= first][: len(found) - len(read)]
        assert len(found) > 200


def test_a_log_by_itself_that_is_removed_is_an_error(home: Path) -> None:
    path = logs(home)[0]
    with PartitionSnapshot(path) as snapshot:
        scan = snapshot.scan()
        snapshot._files.forget(str(path))
        path.unlink()
        assert [*scan] == []
        assert scan.deleted == [snapshot]


@pytest.mark.parametrize("split_bytes", cases([700, None], 2))
@pytest.mark.parametrize("wanted", [ReadFilter(), ReadFilter(offset=25, end_offset=333, isolation="read_committed")])
@pytest.mark.parametrize("change", [expire, join, shorten])
def test_splits_find_their_records_again(
    change: Change, wanted: ReadFilter, split_bytes: int | None, home: Path
) -> None:
    """A plan is read later, by other processes. Each record that is left is read once, in order."""

    def rows(splits: Iterable[ReadSplit]) -> list[int]:
        batches = [batch for split in splits for batch in split.to_batches()]
        return [offset for batch in batches for offset in batch.column("offset").to_pylist()]

    def plan() -> tuple[ReadSplit, ...]:
        with PartitionSnapshot(home / "events-0") as snapshot:
            return snapshot.plan_read(wanted, columns=["offset"], split_bytes=split_bytes).splits

    planned = plan()
    assert (len(planned) > 3) == (split_bytes is not None)
    before = rows(planned)
    change(home)
    sent = [pickle.loads(pickle.dumps(split)) for split in planned]
    found = rows(sent)
    assert found == rows(plan())
    assert set(found) <= set(before)
    shutil.move(home / "events-0", home / "events-0.01-delete")
    with pytest.raises(VanishedError):
        rows(sent)


@pytest.mark.parametrize("wanted", [ReadFilter(end_offset=600), ReadFilter(offset=25, isolation="read_committed")])
def test_a_plan_is_whole_though_the_log_is_cut(wanted: ReadFilter, made: Path, tmp_path: Path) -> None:
    """A follower cuts its log to the second segment, and grows on in other segments."""

    def grow_again(home: Path) -> None:
        with Log.open(str(home / "events-0"), clock_ms=lambda: START_MS, retention_ms=-1) as log:
            log.truncate_to(250)
            for turn in range(80):
                log.append([Record(b"k", b"other %d" % turn * 20) for _ in range(9)])
                if turn % 20 == 19:
                    log.roll()

    def planned(home: Path, env: Env) -> list[tuple[int, bytes]]:
        with PartitionSnapshot(home / "events-0", env=env) as snapshot:
            splits = snapshot.plan_read(wanted).splits
        rows = [row for split in splits for batch in split.to_batches() for row in batch.to_pylist()]
        return [(row["offset"], row["value"]) for row in rows]

    still = At(0, lambda: None)
    end = planned(made, still)[-1][0] + 1
    for number in some(range(1, -still.left + 1), 4):
        home = Path(shutil.copytree(made, tmp_path / str(number)))
        found = planned(home, At(number, partial(grow_again, home)))
        assert [row for row in found if row[0] < end] == [row for row in planned(home, Env()) if row[0] < end]
        shutil.rmtree(home)


def test_a_log_that_begins_anew_while_it_is_opened_is_not_empty(made: Path, tmp_path: Path) -> None:
    def begin_anew(home: Path) -> None:
        with Log.open(str(home / "events-0"), clock_ms=lambda: START_MS, retention_ms=-1) as log:
            log.truncate_fully_and_start_at(1000)

    still = At(0, lambda: None)
    PartitionSnapshot(made / "events-0", env=still).close()
    for number in some(range(1, -still.left + 1), 4):
        home = Path(shutil.copytree(made, tmp_path / str(number)))
        with PartitionSnapshot(home / "events-0", env=At(number, partial(begin_anew, home))) as snapshot:
            assert snapshot.segments
        shutil.rmtree(home)


@pytest.mark.parametrize("change", [expire, join, shorten])
def test_a_rebuild_looks_again(home: Path, change: Change, tmp_path: Path) -> None:
    env = ChangingEnv(logs(home)[1 if change is join else 0], lambda: change(home), opens=2)
    report = rebuild(home, tmp_path / "out", index_interval_bytes=400, sync=False, env=env)
    assert report.losses == []
    rebuild(home, tmp_path / "again", index_interval_bytes=400, sync=False)
    for path in (tmp_path / "again" / "events-0").iterdir():
        assert (tmp_path / "out" / "events-0" / path.name).read_bytes() == path.read_bytes(), path.name


def test_a_rebuild_of_a_growing_log_loses_nothing(home: Path, tmp_path: Path) -> None:
    def grow() -> None:
        with Log.open(str(home / "events-0"), clock_ms=lambda: START_MS, retention_ms=-1) as log:
            log.append([Record(b"k", b"more")])

    env = ChangingEnv(logs(home)[-1], grow, opens=2)
    assert rebuild(home / "events-0", tmp_path / "out", sync=False, env=env).losses == []


def test_a_rebuild_leaves_out_a_partition_that_is_deleted(home: Path, tmp_path: Path) -> None:
    shutil.copytree(home / "events-0", home / "later-0")
    env = ChangingEnv(logs(home)[0], lambda: shutil.move(home / "events-0", home / "events-0.01-delete"), opens=2)
    report = rebuild(home, tmp_path / "out", sync=False, env=env)
    assert (report.partitions, report.losses) == (1, [])
    assert any("deleted by the broker meanwhile" in note for note in report.notes)


@pytest.mark.parametrize("change", [expire, join])
@pytest.mark.parametrize("number", [0, 1, 2])
def test_verify_finds_nothing_wrong(home: Path, change: Change, number: int) -> None:
    report = verify(home, env=ChangingEnv(logs(home)[number], lambda: change(home)))
    assert [str(finding) for finding in report.findings] == []


def test_verify_leaves_out_a_partition_that_is_deleted(home: Path) -> None:
    env = ChangingEnv(logs(home)[0], lambda: shutil.move(home / "events-0", home / "events-0.01-delete"))
    report = verify(home, env=env)
    assert report.findings == []
    assert "partition-deleted" in {info.kind for info in report.infos}
    assert report.messages == 0


def test_verify_finds_nothing_wrong_in_what_is_written_meanwhile(home: Path) -> None:
    """An aborted transaction and checkpoints behind the end that the log had when it was read."""
    active = logs(home)[-1]

    def grow() -> None:
        with Log.open(str(home / "events-0"), clock_ms=lambda: START_MS, retention_ms=-1) as log:
            log.append([Record(b"k", b"aborted")], producer_id=9, producer_epoch=0, transactional=True)
            log.append_end_marker(9, 0, commit=False, timestamp_ms=START_MS)
            end = log.log_end_offset
        (home / ".kafka_cleanshutdown").unlink(missing_ok=True)
        write_offset_checkpoint(str(home / "replication-offset-checkpoint"), {TopicPartition("events", 0): end})

    txn = active.with_suffix(".txnindex")
    txn.touch()
    env = ChangingEnv(txn, grow)
    (home / ".kafka_cleanshutdown").unlink(missing_ok=True)
    report = verify(home, env=env)
    assert [str(finding) for finding in report.findings] == []
    assert txn.stat().st_size


def test_verify_looks_again_if_a_broker_starts(home: Path) -> None:
    """The active .timeindex of a running broker lacks the last entry, and has zeros behind the
    others."""
    mark, index = home / ".kafka_cleanshutdown", logs(home)[-1].with_suffix(".timeindex")
    mark.touch()

    def start() -> None:
        mark.unlink()
        index.write_bytes(index.read_bytes()[:-12] + bytes(120))

    report = verify(home, env=ChangingEnv(logs(home)[0], start, opens=2))
    assert [str(finding) for finding in report.findings] == []
    assert "unclean-end" in {info.kind for info in report.infos}


@pytest.mark.parametrize("is_damaged", [False, True])
def test_verify_of_a_partition_that_never_settles(
    is_damaged: bool, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = logs(home)[:2]
    if is_damaged:
        data = bytearray(second.read_bytes())
        data[70] ^= 1
        second.write_bytes(data)

    class Restless(Env):
        def open_read(self, path: str) -> ReadFile:
            if path == str(first):
                shutil.copy(first, first.with_suffix(".new"))
                first.with_suffix(".new").replace(first)
            return super().open_read(path)

    report = verify(home, env=Restless())
    assert ("batch-crc" in {finding.check for finding in report.findings}) == is_damaged
    assert bool(report.findings) == is_damaged
    assert report.messages > 0


def test_an_error_of_a_missing_path_is_typed(tmp_path: Path) -> None:
    with pytest.raises(VanishedError, match="no such file"):
        Env().open_read(str(tmp_path / "none"))


def stats_of(home: Path, _output: Path, env: Env) -> set[str]:
    return {queue.topic for queue in stats(LogDirSource(str(home)), env=env).queues}


def exported(home: Path, output: Path, env: Env) -> set[str]:
    export(LogDirSource(str(home)), str(output), sync=False, env=env)
    return set()


def filtered(home: Path, output: Path, env: Env) -> set[str]:
    with LogDirSnapshot(home, env=env) as snapshot:
        filter_logs(snapshot.scan(), str(output), source=str(home), sync=False, env=env)
    return {path.name[:-2] for path in output.iterdir() if path.is_dir()}


def converted(home: Path, output: Path, env: Env) -> set[str]:
    convert(LogDirSource(str(home)), str(output), sync=False, env=env)
    return {path.name for path in (output / "consumequeue").iterdir()}


@pytest.mark.parametrize("job", [stats_of, exported, filtered, converted])
def test_a_topic_that_is_deleted_ends_no_job_on_the_others(
    job: Callable[[Path, Path, Env], set[str]], made: Path, tmp_path: Path
) -> None:
    def stored(name: str) -> Path:
        home = Path(shutil.copytree(made, tmp_path / name))
        shutil.copytree(home / "events-0", home / "after-0")
        return home

    def delete(home: Path) -> None:
        (home / "events-0").rename(home / f"events-0.{7:032x}-delete")

    still = At(0, lambda: None)
    kept = job(stored("still"), tmp_path / "still-out", still) - {"events"}
    for number in some(range(1, -still.left + 1, 9), 9):
        home = stored(str(number))
        found = job(home, tmp_path / f"out-{number}", At(number, partial(delete, home)))
        assert found - {"events"} == kept
        shutil.rmtree(home)
