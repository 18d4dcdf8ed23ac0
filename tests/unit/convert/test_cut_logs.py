"""Jobs on Kafka's logs while a partition is truncated or created again: what they give is of one
log."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from logdex.convert.export import export
from logdex.convert.sources.kafka import LogDirSource
from logdex.convert.sources.source import SourcePlan
from logdex.io.env import Env
from logdex.kafka.batch.record import Record
from logdex.kafka.log.log import Log
from tests.beside import At, become
from tests.examples import some

Rows = list[tuple[int, bytes]]
START_MS = 1_700_000_000_000


def put(log: Log, rows: Rows) -> None:
    for offset, value in rows:
        log.append([Record(b"key", value, START_MS + offset, ())])
        if offset % 5 == 4:
            log.roll()


def made(home: Path, rows: Rows) -> Path:
    with Log.open(home / "events-0", clock_ms=lambda: START_MS, retention_ms=-1) as log:
        put(log, rows)
    return home


def created_again(home: Path, _: Path) -> Path:
    """With fewer records than before, that are longer."""
    return made(home, [(offset, b"new" * 50) for offset in range(12)])


def truncated(home: Path, before: Path) -> Path:
    shutil.copytree(before, home)
    with Log.open(home / "events-0", clock_ms=lambda: START_MS, retention_ms=-1) as log:
        log.truncate_to(3)
        put(log, [(offset, b"new" * 20 * offset) for offset in range(3, 12)])
    return home


class BehindPlan(At):
    """Acts before the n-th operation behind the first plan of a read."""

    is_planned = False

    @contextmanager
    def operation(self, kind: str, path: str) -> Iterator[None]:
        with super().operation(kind, path) if self.is_planned else Env.operation(self, kind, path):
            yield


class PlannedSource(LogDirSource):
    def plan(self, *given: Any, **options: Any) -> SourcePlan:
        found = LogDirSource.plan(self, *given, **options)
        if isinstance(env := given[3], BehindPlan):
            env.is_planned = True
        return found


def exported(root: Path, output: Path, env: At) -> Rows:
    report = export(PlannedSource(str(root)), output, sync=False, env=env)
    assert report.losses == []
    tables = [pq.read_table(file, columns=["offset", "value"], partitioning=None) for file in output.rglob("*.parquet")]
    rows = [row for table in tables for row in zip(*(column.to_pylist() for column in table.columns), strict=True)]
    return sorted(rows)


@pytest.mark.parametrize("change", [created_again, truncated])
def test_what_is_exported_is_of_one_log(change: Callable[[Path, Path], Path], tmp_path: Path) -> None:
    """The change comes after the read is planned."""
    before = made(tmp_path / "before", [(offset, b"old" * 9) for offset in range(13)])
    after = change(tmp_path / "after", before)
    whole = BehindPlan(0, lambda: None)
    logs = [exported(before, tmp_path / "whole", whole), exported(after, tmp_path / "changed", At(0, lambda: None))]
    for number in some(range(1, -whole.left + 1), 10, first=5):
        root, output = Path(shutil.copytree(before, tmp_path / "root")), tmp_path / f"output-{number}"
        found = exported(root, output, BehindPlan(number, partial(become, root, after)))
        assert any(found == log[: len(found)] for log in logs), number
        shutil.rmtree(root)
