"""A snapshot of a partition whose segments are removed or replaced after it was opened."""

from __future__ import annotations

import itertools
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import logdex
from logdex.errors import OffsetOutOfRangeError, VanishedError
from logdex.io.env import DEFAULT_ENV, Env
from logdex.io.files import ReadFile
from logdex.kafka.batch.record import Record
from logdex.kafka.directory.recognise import require_kafka
from logdex.kafka.log.log import Log
from logdex.kafka.read import plan
from logdex.kafka.read.committed import AbortedTransactions, find_aborted
from logdex.kafka.read.read_filter import ReadFilter
from logdex.kafka.read.steady import LOOKS_MAX
from logdex.kafka.settings.log_config import LogConfig
from logdex.kafka.snapshot.overview import overview
from logdex.kafka.snapshot.partition_snapshot import PartitionSnapshot
from tests.examples import cases

NOW_MS = 1_700_000_000_000
CONFIG = LogConfig(segment_bytes=1500, index_interval_bytes=200, retention_ms=-1, retention_bytes=4000)
COMPACTED = LogConfig(segment_bytes=1500, index_interval_bytes=200, retention_ms=-1, cleanup_policy=("compact",))
WRITER = Path(__file__).parents[1] / "busy_writer.py"


def put(log: Log, count: int) -> None:
    """Records with their offset as their value, and now and then a transaction."""
    for number in range(count):
        at = log.log_end_offset
        log.append([Record(b"k%d" % (at % 5), b"%d" % at, NOW_MS + at)])
        if number % 10 == 9:
            with log.transaction(number % 3) as transaction:
                at = log.log_end_offset
                transaction.append([Record(b"t", b"%d" % at, NOW_MS + at)])
                if number % 20 == 9:
                    transaction.abort()


def retained(log: Log) -> None:
    put(log, 40)
    log.apply_retention()


def compacted(log: Log) -> None:
    put(log, 40)
    log.compact()


def plan_and_read(snapshot: PartitionSnapshot) -> list[Any]:
    splits = snapshot.plan_read(ReadFilter(isolation="read_committed")).splits
    return [value for split in splits for batch in split.to_batches() for value in batch.column("value").to_pylist()]


ANSWERS: dict[str, Callable[[PartitionSnapshot], Any]] = {
    "scan": lambda snapshot: [record.value for record in snapshot.scan()],
    "committed": lambda snapshot: [record.value for record in snapshot.scan(isolation="read_committed")],
    "by time": lambda snapshot: [record.value for record in snapshot.scan(begin_ms=NOW_MS + 3)],
    "limit": lambda snapshot: [record.value for record in snapshot.scan(limit=20)],
    "plan": plan_and_read,
    "query": lambda snapshot: [record.value for record in snapshot.query("k3")],
    "end": lambda snapshot: (snapshot.log_end_offset, snapshot.last_stable_offset, len(snapshot.producers)),
    "times": lambda snapshot: (snapshot.read_max_timestamp(), snapshot.offset_for_timestamp(-3)),
    "time": lambda snapshot: snapshot.offset_for_timestamp(NOW_MS + 10),
    "locate": lambda snapshot: snapshot.locate(snapshot.log_end_offset - 1),
    "read": lambda snapshot: [record.value for record in snapshot.read(snapshot.log_end_offset - 2)],
    "read committed": lambda snapshot: [
        record.value for record in snapshot.read(snapshot.last_stable_offset - 2, isolation="read_committed")
    ],
}


@pytest.mark.parametrize(("answer", "change"), cases(itertools.product(ANSWERS, [retained, compacted]), 3))
def test_an_answer_is_from_what_is_there(answer: str, change: Callable[[Log], None], tmp_path: Path) -> None:
    path = tmp_path / "events-0"
    with Log.open(path, CONFIG if change is retained else COMPACTED) as log:
        put(log, 120)
        with PartitionSnapshot(path) as snapshot:
            change(log)
            answers = [ANSWERS[answer](snapshot)]
            change(log)
            answers.append(ANSWERS[answer](snapshot))
        with PartitionSnapshot(path) as fresh:
            expected = ANSWERS[answer](fresh)
    for found in answers:
        assert type(found) is type(expected)
        if isinstance(found, list):
            numbers = [int(value) for value in found]
            assert numbers
            assert numbers == sorted(set(numbers), reverse=answer == "query")


@pytest.mark.parametrize("change", [retained, compacted])
def test_a_scan_goes_on_behind_what_it_has_read(change: Callable[[Log], None], tmp_path: Path) -> None:
    path = tmp_path / "events-0"
    with Log.open(path, CONFIG if change is retained else COMPACTED) as log, PartitionSnapshot(path) as snapshot:
        put(log, 120)
        snapshot.refresh()
        for read in (snapshot.scan, lambda: reversed(snapshot.query("k3"))):
            offsets = []
            for place, record in enumerate(read()):
                assert record.value == b"%d" % record.offset
                offsets.append(record.offset)
                if place in (0, 30):
                    change(log)
            assert offsets == sorted(set(offsets))
            assert offsets[-1] >= 120


def test_retention_that_is_faster_than_every_look(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "events-0"
    with Log.open(path, LogConfig(segment_bytes=300, retention_ms=-1)) as log:
        put(log, 240)
    bases = sorted(int(each.stem) for each in path.glob("*.log"))
    assert len(bases) > 2 * LOOKS_MAX
    removed: list[int] = []

    def find_and_remove(*arguments: Any) -> AbortedTransactions:
        try:
            return find_aborted(*arguments)
        finally:
            removed.append(bases[len(removed)])
            (path / f"{removed[-1]:020d}.log").unlink()

    monkeypatch.setattr(plan, "find_aborted", find_and_remove)
    with PartitionSnapshot(path) as snapshot:
        offsets = [record.offset for record in snapshot.scan(isolation="read_committed")]
        assert bases[len(removed)] <= offsets[0] < bases[len(removed) + 2]
        assert offsets[-1] >= 120


def test_an_abandoned_swap_is_not_waited_for_long(tmp_path: Path) -> None:
    path = tmp_path / "events-0"
    with Log.open(path, CONFIG) as log:
        put(log, 5)
    (path / "00000000000000000003.log.swap").touch()
    with PartitionSnapshot(path) as snapshot:
        assert len(list(snapshot.scan())) == 5


class _SwappingEnv(Env):
    """An Env beside a compaction that gives a segment its name between a reader's failed opening of
    it and the reader's next call."""

    def __init__(self) -> None:
        super().__init__()
        self.missing = {1, 3, 4}
        self._count = 0

    def open_read(self, path: str) -> ReadFile:
        """Misses some of the .log files, which are there."""
        if path.endswith(".log"):
            self._count += 1
            if self._count in self.missing:
                raise VanishedError("no such file or directory", path=path)
        return super().open_read(path)


def test_a_segment_that_comes_back_while_it_is_opened(tmp_path: Path) -> None:
    path = tmp_path / "events-0"
    with Log.open(path, CONFIG) as log:
        put(log, 60)
    with PartitionSnapshot(path, env=_SwappingEnv()) as snapshot:
        assert len(snapshot.segments) == len(list(path.glob("*.log"))) > 3
        assert [record.offset for record in snapshot.scan()][:3] == [0, 1, 2]


@pytest.fixture
def busy(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Path]:
    """A partition to which another process writes, rolls, retains and compacts."""
    path = tmp_path / "events-0"
    process = subprocess.Popen([sys.executable, WRITER, path, request.param])
    try:
        deadline = time.monotonic() + 120
        while len(list(path.glob("*.log"))) < 4 and time.monotonic() < deadline:
            time.sleep(0.1)
        yield path
        assert process.poll() is None, "the writer failed"
    finally:
        process.kill()
        process.wait()


@pytest.mark.slow
@pytest.mark.live_writer
@pytest.mark.timeout(900)
@pytest.mark.parametrize("busy", ["retain", "compact"], indirect=True)
def test_beside_a_busy_writer(busy: Path) -> None:
    for _ in range(40):
        for answer in ANSWERS.values():
            with PartitionSnapshot(busy) as snapshot:
                try:
                    answer(snapshot)
                except OffsetOutOfRangeError:
                    assert snapshot.log_end_offset > 0  # retention was faster
        look = overview(require_kafka(busy, env=DEFAULT_ENV), LogConfig())
        assert look.problems == []
        with logdex.open(busy) as opened:
            assert isinstance(opened, PartitionSnapshot)
            records = list(opened.scan())
            assert [record.offset for record in records] == sorted({record.offset for record in records})
            assert all(record.value == b"%d" % record.offset for record in records)
