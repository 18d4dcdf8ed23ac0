"""The export on a real Spark: the bytes of a local run, and Spark reads what was written."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from logdex.convert.export import export
from logdex.spark.tasks import TaskRunner
from tests.directories import contents
from tests.unit.convert.export.test_job import partition, store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.mark.parametrize("make", [store, lambda path: partition(path, 0, 20)], ids=["store", "logs"])
def test_as_in_one_process(spark: SparkSession, tmp_path: Path, make) -> None:  # type: ignore[no-untyped-def]
    source = make(tmp_path / "log")
    local = export(source, str(tmp_path / "local"), sync=False, task_bytes=1000)
    counts: list[tuple[int, int]] = []
    runner = TaskRunner(spark, lambda messages, size_bytes: counts.append((messages, size_bytes)))
    report = export(source, str(tmp_path / "spark"), runner, engine="spark", sync=False, task_bytes=1000)
    assert contents(tmp_path / "spark") == contents(tmp_path / "local")
    assert (report.engine, report.tasks, report.messages) == ("spark", local.tasks, local.messages)
    assert counts[-1] == (report.messages, report.bytes)
    frame = spark.read.parquet(str(tmp_path / "spark"))
    assert frame.count() == report.messages
    assert {"topic", "day"} <= set(frame.columns)
