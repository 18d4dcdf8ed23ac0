"""Batches that are written into a log directory, killed before each operation: every row is there
once."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from logdex.kafka.snapshot.log_dir_snapshot import LogDirSnapshot
from logdex.spark.sinks.kafka.sink import LogDirSink
from tests.crash.sinks import killed_at_each, refused_at_each

BATCHES = [
    [
        pa.record_batch(
            {
                "value": [b"%d-%d-%d" % (batch, task, row) for row in range(9)],
                "partition": pa.array([row % 2 for row in range(9)], pa.int32()),
            }
        )
        for task in range(2)
    ]
    for batch in range(2)
]


def sink(directory: Path) -> LogDirSink:
    return LogDirSink({"path": str(directory), "topic": "t", "segmentBytes": "300"}, ("value", "partition"))


def values(directory: Path) -> list[bytes]:
    with LogDirSnapshot(directory) as snapshot:
        return [record.value or b"" for record in snapshot.scan()]


@pytest.mark.parametrize(
    ("step", "first"), [(61, 13), pytest.param(1, 1, marks=[pytest.mark.slow, pytest.mark.timeout(1800)])]
)
def test_killed(tmp_path: Path, step: int, first: int) -> None:
    assert killed_at_each(tmp_path, sink, BATCHES, values, step=step, first=first) > 3


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_power_cuts(tmp_path: Path) -> None:
    assert killed_at_each(tmp_path, sink, BATCHES, values, step=3, power_cut=True) > 20


@pytest.mark.parametrize(
    ("step", "first"), [(97, 29), pytest.param(1, 1, marks=[pytest.mark.slow, pytest.mark.timeout(1800)])]
)
def test_a_full_disk(tmp_path: Path, step: int, first: int) -> None:
    assert refused_at_each(tmp_path, sink, BATCHES, values, step=step, first=first) > 0
