"""Every golden case of both formats as Parquet: row for row what the source reads."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from logdex.convert.export import export
from logdex.convert.sources.kafka import LogDirSource
from logdex.convert.sources.rocketmq import StoreSource
from logdex.convert.sources.source import LogSource
from logdex.rocketmq.snapshot.store_snapshot import StoreSnapshot
from tests.conformance.rocketmq.test_store import AS_THE_ENGINE_LEFT_IT, geometry_of
from tests.examples import cases
from tests.golden import kafka as golden_kafka
from tests.unit.convert.export.lakes import exported, rows_of, without_day


def check(source: LogSource, output: Path) -> list[dict[str, object]]:
    report = export(source, str(output), sync=False, task_bytes=100_000)
    rows = exported(output)
    assert without_day(rows) == rows_of(source)
    assert report.messages == len(rows)
    again = export(source, str(output), sync=False)
    assert (again.messages, again.files, again.run) == (0, 0, 0)
    return rows


@pytest.mark.parametrize(("name", "recovered"), cases(AS_THE_ENGINE_LEFT_IT, 3))
def test_stores(golden_store: Callable[..., Path], tmp_path: Path, name: str, recovered: bool) -> None:
    root, settings = golden_store(name, recovered=recovered), geometry_of(name)
    rows = check(StoreSource(str(root), settings=settings), tmp_path / "lake")
    with StoreSnapshot(str(root), **settings) as snapshot:
        found = dict(snapshot.scan().items())
    assert {row["physicalOffset"] for row in rows} == found.keys()
    assert all(found[row["physicalOffset"]].queue_offset == row["queueOffset"] for row in rows)  # type: ignore[index]


@pytest.mark.parametrize("name", cases(golden_kafka.NAMES, 3))
def test_log_directories(golden_log: Callable[[str], Path], tmp_path: Path, name: str) -> None:
    check(LogDirSource(str(golden_log(name))), tmp_path / "lake")
