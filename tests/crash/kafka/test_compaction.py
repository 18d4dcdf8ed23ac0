"""Compaction of a Kafka `Log` and power cuts, full and failing disks, at each of its operations."""

from __future__ import annotations

import errno
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from logdex.errors import LogFailedError, StorageError
from logdex.kafka.batch.record import Record
from logdex.kafka.batch.record_batch import decode_batch
from logdex.kafka.log.log import Log
from logdex.kafka.settings.log_config import LogConfig
from logdex.kafka.verify import verify
from logdex.testing import CHANGES, Fault, FaultEnv, Killed
from tests.crash.kafka.compaction_runs import check_left, go_on, run_until_cut
from tests.crash.kafka.runs import NAME, NOW_MS, clock
from tests.examples import cases

SEEDS = 12
SEEDS_SLOW = 2020
PARTS = 4
CONFIG = LogConfig(
    segment_bytes=4000,
    index_interval_bytes=100,
    cleanup_policy=("compact",),
    delete_retention_ms=1000,
    segment_ms=1 << 40,
)
Content = list[tuple[int, int, bytes]]
"""Batches: base offset, last offset, bytes."""


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log with something for each rule: segments that lose all, some and nothing, transactions,
    idempotence."""
    root = tmp_path_factory.mktemp("store")
    small = replace(CONFIG, segment_bytes=1200)  # so that a compaction can join some
    with Log.open(str(root / NAME), small, clock_ms=clock) as log:
        for turn in range(40):
            codec = ("none", "lz4", "zstd")[turn % 3]
            key = b"key-%d" % (turn % 7)
            record = Record(key, None if turn % 11 == 0 else b"value-%d " % turn * 8, NOW_MS + turn)
            if turn % 10 == 3:
                with log.transaction(1 + turn % 2) as transaction:
                    transaction.append([record], compression=codec)
                    if turn % 20 == 3:
                        transaction.abort()
            else:
                log.append([record], compression=codec, producer_id=50 + turn % 3, producer_epoch=0)
        log.append([Record(b"alone", b"x" * 900, NOW_MS)])
        for turn in range(8):
            log.append([Record(b"same", b"%d" % turn * 300, NOW_MS)])
        log.roll()
    return root


def content(log: Log) -> Content:
    found: Content = []
    position = log.log_start_offset
    while batches := log.read_batches(position):
        found += [(batch.base_offset, batch.last_offset, batch.raw) for batch in batches]
        position = batches[-1].last_offset + 1
    return found


@pytest.fixture(scope="module")
def ends(store: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Content, Content, list[int]]:
    """The log before, after, and where the segments begin that are replaced as one."""
    copy = tmp_path_factory.mktemp("ends") / "store"
    shutil.copytree(store, copy)
    with Log.open(str(copy / NAME), CONFIG, clock_ms=clock) as log:
        before = content(log)
        report = log.compact(NOW_MS)
        assert report.segments_before > report.segments_after
        bases = [segment.base_offset for segment in log.segments]
        assert len(bases) > 2
        return before, content(log), bases


def opened(store: Path, target: Path, fault: Fault | None) -> tuple[FaultEnv, Log]:
    """A copy of the store, opened; the fault counts from there."""
    shutil.copytree(store, target)
    env = FaultEnv(str(target))
    log = Log.open(str(target / NAME), CONFIG, env=env, clock_ms=clock)
    env.log.clear()
    env.fault, env._matching = fault, 0
    return env, log


def operations(store: Path, target: Path, kinds: frozenset[str] | None) -> int:
    env, log = opened(store, target, None)
    log.compact(NOW_MS)
    count = env.count(kinds)
    log.close()
    shutil.rmtree(target)
    return count


def require_old_or_new(path: Path, ends: tuple[Content, Content, list[int]]) -> None:
    """Each group of segments is the old one or the new one, and what comes after a new one is
    old."""
    before, after, bases = ends
    with Log.open(str(path), CONFIG, clock_ms=clock) as log:
        found = content(log)
    for low, high in zip(bases, [*bases[1:], 1 << 62], strict=True):
        old, new, now = ([each for each in part if low <= each[0] < high] for part in (before, after, found))
        assert now in (old, new), (low, high)
    assert verify(str(path), CONFIG).findings == []
    names = [each.name for each in path.iterdir()]
    assert not [name for name in names if name.endswith((".cleaned", ".swap", ".deleted"))]


def compacts_to_the_same(path: Path, ends: tuple[Content, Content, list[int]]) -> None:
    """What was broken off can be done again: the same records stay."""
    with Log.open(str(path), CONFIG, clock_ms=clock) as log:
        log.compact(NOW_MS)
        offsets = {record.offset for record in log.records(control=True)}
    assert offsets == {record.offset for raw in ends[1] for record in decode_batch(raw[2])[0].records()}


def cut_at(store: Path, ends: tuple[Content, Content, list[int]], folder: Path, at: int, seeds: int) -> None:
    folder.mkdir()
    env, log = opened(store, folder / "run", Fault(at, kinds=CHANGES))
    with pytest.raises(Killed):
        log.compact(NOW_MS)
    env.release()
    for seed in range(at, at + seeds):
        left = folder / f"left-{seed}"
        env.survivor(str(left), seed)
        try:
            require_old_or_new(left / NAME, ends)
            if seed % 5 == 0:
                compacts_to_the_same(left / NAME, ends)
        except BaseException as error:
            error.add_note(f"operation {at}: {env.log[-1]}, seed {seed}")
            raise
    shutil.rmtree(folder)


@pytest.mark.parametrize(
    ("first", "step", "seeds"),
    [
        (1, 10, 1),
        *(
            pytest.param(part + 1, PARTS, 8, marks=(pytest.mark.slow, pytest.mark.timeout(3000)))
            for part in range(PARTS)
        ),
    ],
)
def test_power_cuts_at_operations(
    store: Path, ends: tuple[Content, Content, list[int]], tmp_path: Path, first: int, step: int, seeds: int
) -> None:
    """Every tenth, which is another one of each group of segments; with `slow` at every
    operation."""
    count = operations(store, tmp_path / "count", CHANGES)
    assert count > 50
    for at in range(first, count + 1, step):
        cut_at(store, ends, tmp_path / str(at), at, seeds)


@pytest.mark.parametrize("step", [47, pytest.param(1, marks=(pytest.mark.slow, pytest.mark.timeout(3000)))])
@pytest.mark.parametrize("code", cases([errno.ENOSPC, errno.EIO], 2))
def test_refusals_at_operations(
    store: Path, ends: tuple[Content, Content, list[int]], tmp_path: Path, code: int, step: int
) -> None:
    count = operations(store, tmp_path / "count", None)
    for at in range(1 + code % step, count + 1, step):
        env, log = opened(store, tmp_path / "run", Fault(at, code))
        try:
            log.compact(NOW_MS)
        except (StorageError, LogFailedError):
            pass
        assert env.hits == 1, at
        env.fault = None
        log.close()
        assert env.open_paths == [], (at, env.log[-3:])
        try:
            require_old_or_new(tmp_path / "run" / NAME, ends)
        except BaseException as error:
            error.add_note(f"operation {at}")
            raise
        shutil.rmtree(tmp_path / "run")


@pytest.mark.parametrize("part", range(PARTS))
def test_random_runs(tmp_path: Path, part: int) -> None:
    for seed in range(part, SEEDS, PARTS):
        random_run(tmp_path / str(seed), seed)


def test_a_run_whose_producer_lost_all_before_a_segment(tmp_path: Path) -> None:
    random_run(tmp_path / "run", 1864)


@pytest.mark.slow
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("part", range(PARTS))
def test_many_random_runs(tmp_path: Path, part: int) -> None:
    for seed in range(SEEDS + part, SEEDS + SEEDS_SLOW, PARTS):
        random_run(tmp_path / str(seed), seed)


def random_run(folder: Path, seed: int) -> None:
    folder.mkdir()
    try:
        env, model, config = run_until_cut(folder / "run", seed)
        env.survivor(str(folder / "left"), seed)
        if not (folder / "left" / NAME).is_dir():
            assert model.kept_end == 0
            return
        check_left(folder / "left" / NAME, model, config)
        go_on(folder / "left" / NAME, config)
    except Exception as error:
        error.add_note(f"seed {seed}")
        raise
    shutil.rmtree(folder)
