"""Batches that are written into a store, killed before each operation: every row is there once."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from logdex.rocketmq.snapshot.store_snapshot import StoreSnapshot
from logdex.spark.sinks.rocketmq.sink import StoreSink
from tests.crash.sinks import killed_at_each, refused_at_each

SIZES = {
    "mappedFileSizeCommitLog": "4096",
    "mappedFileSizeConsumeQueue": "400",
    "maxIndexNum": "16",
    "maxHashSlotNum": "7",
}
BATCHES = [
    [pa.record_batch({"body": [b"%d-%d-%d" % (batch, task, row) for row in range(9)]}) for task in range(2)]
    for batch in range(2)
]


def sink(directory: Path) -> StoreSink:
    return StoreSink({"path": str(directory), "topic": "t", **SIZES}, ("body",))


def bodies(directory: Path) -> list[bytes]:
    with StoreSnapshot(directory, max_index_num=16, max_hash_slot_num=7) as snapshot:
        return [message.body for message in snapshot.scan()]


@pytest.mark.parametrize(
    ("step", "first"), [(61, 13), pytest.param(1, 1, marks=[pytest.mark.slow, pytest.mark.timeout(1800)])]
)
def test_killed(tmp_path: Path, step: int, first: int) -> None:
    assert killed_at_each(tmp_path, sink, BATCHES, bodies, step=step, first=first) > 3


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_power_cuts(tmp_path: Path) -> None:
    assert killed_at_each(tmp_path, sink, BATCHES, bodies, step=3, power_cut=True) > 20


@pytest.mark.parametrize(
    ("step", "first"), [(97, 29), pytest.param(1, 1, marks=[pytest.mark.slow, pytest.mark.timeout(1800)])]
)
def test_a_full_disk(tmp_path: Path, step: int, first: int) -> None:
    assert refused_at_each(tmp_path, sink, BATCHES, bodies, step=step, first=first) > 0
