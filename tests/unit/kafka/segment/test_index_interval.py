"""What stretches between index entries say of the interval: made from the rule, with what breaks
it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from logdex.io.env import Env
from logdex.kafka.batch.record import Record
from logdex.kafka.log.log import Log
from logdex.kafka.segment import index_interval
from logdex.kafka.segment.index_interval import (
    DEFAULT_INTERVAL_BYTES,
    IndexInterval,
    describe_intervals,
    index_intervals,
    infer_index_interval,
    stretches_of,
)
from logdex.kernels.kafka.batch_columns import Int64s
from tests.unit.kafka.verify.older_broker import OlderBroker, batch_at


def batches(sizes: list[int]) -> Int64s:
    return np.cumsum([0, *sizes[:-1]], dtype=np.int64)


def entries(positions: Int64s, interval: int, reopened: tuple[int, ...] = ()) -> Int64s:
    """By the rule; at the places `reopened` the count begins anew."""
    found, since = [], 0
    for place, position in enumerate(positions.tolist()):
        if place in reopened:
            since = position
        if position - since > interval:
            found.append(position)
            since = position
    return np.array(found, np.int64)


def inferred(positions: Int64s, indexed: Int64s) -> IndexInterval:
    return infer_index_interval(stretches_of(positions, indexed))


@pytest.mark.parametrize("interval", [0, 1, 100, 256, 1000, 4000, 4096, 5000, 8192, 65_536, 100_000])
@pytest.mark.parametrize("size", [61, 97, 700, 5000, 30_000])
def test_an_inferred_interval_gives_the_same_entries(interval: int, size: int) -> None:
    chance = np.random.default_rng(interval + size)
    positions = batches(chance.integers(max(size // 2, 61), size + 2, 400).tolist())
    indexed = entries(positions, interval)
    if not len(indexed):
        return
    found = inferred(positions, indexed)
    assert found.is_inferred
    assert found.low <= interval < found.high
    for each in (found.size_bytes, found.low, found.high - 1):
        assert entries(positions, each).tolist() == indexed.tolist()


@pytest.mark.parametrize(
    ("interval", "chosen"), [(4096, 4096), (1024, 1024), (8192, 8192), (3000, 3000), (10_240, 10_240)]
)
def test_a_round_number_is_chosen(interval: int, chosen: int) -> None:
    positions = batches([100, 61, 75, 110] * 2000)
    assert inferred(positions, entries(positions, interval)).size_bytes == chosen


def test_the_low_end_where_nothing_round_fits() -> None:
    assert infer_index_interval(np.array([[777, 779]])) == IndexInterval(777, True, 777, 779)


@pytest.mark.parametrize("interval", [256, 4096, 16_384])
def test_segments_that_were_reopened_do_not_mislead(interval: int) -> None:
    positions = batches([100, 61, 75, 110] * 1000)
    reopened = tuple(range(37, 4000, 900))
    indexed = entries(positions, interval, reopened)
    assert indexed.tolist() != entries(positions, interval).tolist()
    assert inferred(positions, indexed).size_bytes == interval


def test_one_long_stretch_is_no_reason_to_leave_the_default() -> None:
    positions = batches([100] * 90)
    indexed = entries(positions, 4096, reopened=(30,))
    assert indexed.tolist() == [7100]
    assert inferred(positions, indexed) == IndexInterval(DEFAULT_INTERVAL_BYTES)
    longer = entries(batches([100] * 300), 4096, reopened=(30,))
    assert inferred(batches([100] * 300), longer) == IndexInterval(DEFAULT_INTERVAL_BYTES, True, 4000, 4100)


def test_an_index_that_is_not_of_the_log_tells_nothing() -> None:
    positions = batches([100] * 100)
    good = entries(positions, 256)
    assert len(stretches_of(positions, good))
    for wrong in (good + 1, good[::-1].copy(), np.array([0, 300]), np.array([-5, 300]), np.empty(0, np.int64)):
        assert not len(stretches_of(positions, wrong.astype(np.int64)))
    assert not len(stretches_of(np.empty(0, np.int64), good))
    assert not len(stretches_of(positions, np.array([1 << 20])))  # behind what was scanned


def test_stretches_that_contradict_each_other_leave_the_default() -> None:
    apart = np.array([[100 * number, 100 * number + 50] for number in range(1, 9)])
    assert infer_index_interval(apart) == IndexInterval(DEFAULT_INTERVAL_BYTES)
    assert infer_index_interval(np.empty((0, 2), np.int64)) == IndexInterval(DEFAULT_INTERVAL_BYTES)


def write(directory: Path, interval: int, count: int) -> list[str]:
    with Log.open(str(directory), index_interval_bytes=interval, segment_bytes=20_000, retention_ms=-1) as log:
        for number in range(count):
            log.append([Record(value=b"v" * (50 + number % 7))])
    return sorted(str(path) for path in directory.glob("*.log"))


def test_what_partitions_of_a_topic_tell_is_put_together(tmp_path: Path) -> None:
    for name, interval, count in (("a-0", 512, 400), ("a-1", 512, 1), ("b-0", 2048, 400), ("c-0", 64, 1)):
        (tmp_path / name).mkdir()
        write(tmp_path / name, interval, count)
    logs = {path.name: sorted(map(str, path.glob("*.log"))) for path in sorted(tmp_path.iterdir())}
    env = Env()
    found = index_intervals(logs, env)
    assert env.counters.written_bytes == 0
    assert [found[name].size_bytes for name in logs] == [512, 512, 2048, 4096]
    assert [found[name].is_inferred for name in logs] == [True, True, True, False]
    told, assumed = describe_intervals(found)
    assert [line.partition(":")[0] for line in told] == [
        "index.interval.bytes 512 of a-0 and 1 more",
        "index.interval.bytes 2048 of b-0",
    ]
    assert assumed == ["index.interval.bytes 4096 of c-0"]


def test_entries_of_appends_bound_the_interval_only_from_above(tmp_path: Path) -> None:
    """An older broker makes one entry at most for an append, however long that is; what a newer one
    wrote behind it bounds the interval from below."""
    broker = OlderBroker(tmp_path / "a-0", 4096)
    for first in range(0, 600, 60):
        broker.append(b"".join(batch_at(n, n, size=200) for n in range(first, first + 60)))
    broker.close()
    assert index_intervals({"a-0": [str(broker.path("log"))]}, Env())["a-0"].size_bytes == 4096
    with Log.open(tmp_path / "a-0", segment_bytes=60_000, retention_ms=-1) as log:
        for _ in range(600):
            log.append([Record(value=bytes(200))])
    logs = sorted(str(path) for path in (tmp_path / "a-0").glob("*.log"))
    found = index_intervals({"a-0": logs}, Env())["a-0"]
    assert (found.size_bytes, found.is_inferred) == (4096, True)
    assert found.low > 3000


def test_only_the_beginning_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a-0").mkdir()
    logs = write(tmp_path / "a-0", 256, 900)
    assert len(logs) > 4
    monkeypatch.setattr(index_interval, "ENTRIES_MAX", 8)
    assert index_intervals({"a-0": logs}, Env())["a-0"].size_bytes == 256
    monkeypatch.setattr(index_interval, "SCANNED_BYTES_MAX", 1000)
    for log in logs[2:]:
        Path(log).write_bytes(b"not read")
    assert index_intervals({"a-0": logs}, Env())["a-0"].size_bytes == 256
    for log in logs[:2]:  # the first ones tell nothing: their indexes are gone
        Path(log).with_suffix(".index").write_bytes(b"")
    assert not index_intervals({"a-0": logs}, Env())["a-0"].is_inferred
