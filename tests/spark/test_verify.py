"""`logdex.spark.verify`: what it reports is what the local `verify` reports."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pytest

import logdex.spark
from logdex.formats import detect, format_of
from logdex.rocketmq.verify import verify
from tests.unit.kafka.verify.test_in_tasks import facts, harmed_logs
from tests.unit.rocketmq.verify.test_in_tasks import SIZES, many

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_findings_are_the_local_ones_and_a_data_frame(
    spark: SparkSession, golden_copy: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # Spark's workers are elsewhere
    store = golden_copy("tiny-5.5.0")
    index = next((store / "index").iterdir())
    data = bytearray(index.read_bytes())
    data[45] ^= 1
    index.write_bytes(data)
    for path in (harmed_logs(tmp_path / "logs", Random(4)), store):
        found = detect(path)
        local = format_of(found).verify(found, {}, max_findings=100)
        seen: list[tuple[int, int]] = []
        inside = path.relative_to(tmp_path)
        report = logdex.spark.verify(spark, inside, max_findings=100, progress=lambda *all, seen=seen: seen.append(all))
        assert (report.engine, report.tasks > 1, local.engine) == ("spark", True, "local")
        assert facts(report) == facts(local)
        assert seen[-1] == (report.messages, report.bytes)
        rows = spark.createDataFrame(report.to_arrow()).collect()
        assert [row.asDict() for row in rows] == [finding.to_json() for finding in local.findings]
        assert rows


def test_a_store_in_several_tasks(spark: SparkSession, tmp_path: Path) -> None:
    """Small parts, so that there are several tasks, and a store of which not all is sound."""
    root = many(tmp_path / "store")
    log = sorted((root / "commitlog").iterdir())[1]
    data = bytearray(log.read_bytes())
    data[data.index(b"body ", 40_000)] ^= 1
    log.write_bytes(data)
    runner = logdex.spark.runner_of(spark)
    report = verify(str(root), SIZES, runner=runner, cut_bytes=20_000)
    assert report.findings
    assert facts(report) == facts(verify(str(root), SIZES, cut_bytes=20_000))
    assert runner.tasks > 4
