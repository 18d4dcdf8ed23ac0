"""Conversions, imports and figures on a real Spark: what a single process gives."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from logdex.convert.export import export
from logdex.convert.load import load
from logdex.convert.sources.kafka import LogDirSource
from logdex.convert.stats import stats
from logdex.convert.translate import convert
from logdex.spark.tasks import TaskRunner
from tests.directories import contents
from tests.unit.convert.export.test_job import store
from tests.unit.kafka.dispatch import growing as kafka

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def test_as_in_one_process(spark: SparkSession, tmp_path: Path) -> None:
    source = store(tmp_path / "store")
    for name, runner in (("local", None), ("spark", TaskRunner(spark))):
        convert(source, str(tmp_path / f"{name}-logs"), runner, sync=False)
        export(source, str(tmp_path / f"{name}-lake"), runner, sync=False)
        load(str(tmp_path / f"{name}-lake"), str(tmp_path / f"{name}-store"), "rocketmq", runner, sync=False)
    assert contents(tmp_path / "spark-logs") == contents(tmp_path / "local-logs")
    logs = LogDirSource(str(tmp_path / "spark-logs"))
    for each in (source, logs):
        one, two = stats(each).to_json(), stats(each, TaskRunner(spark), engine="spark").to_json()
        left_out = ("engine", "seconds", "tasks")
        assert {name: one[name] for name in one if name not in left_out} == {
            name: two[name] for name in two if name not in left_out
        }


def test_logs_become_the_store_of_one_process(spark: SparkSession, tmp_path: Path) -> None:
    for partition in range(2):
        kafka.grow(tmp_path / "logs" / f"a-{partition}", 30, partition)
    source = LogDirSource(str(tmp_path / "logs"))
    for name, runner in (("local", None), ("spark", TaskRunner(spark))):
        report = convert(source, str(tmp_path / name), runner, sync=False)
        assert report.messages > 60
    assert contents(tmp_path / "spark") == contents(tmp_path / "local") != {}
