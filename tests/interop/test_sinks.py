"""What Spark's sinks write is served by the real engines."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from logdex.spark.sources.options import camel_case
from tests.interop.kafka import peer
from tests.interop.rocketmq import engines
from tests.interop.test_convert import SIZES, check_goes_on, check_served_by_kafka

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.needs_java, pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(900)]

OPTIONS = {camel_case(name): size for name, size in SIZES.items()}


@pytest.mark.parametrize("version", engines.VERSIONS)
def test_the_engine_goes_on_in_a_store(version: str, spark: SparkSession, peers_dir: Path, tmp_path: Path) -> None:
    rows = spark.range(100).selectExpr("'t' AS topic", "CAST(id AS STRING) AS body", "concat('k-', id) AS keys")
    written = rows.repartition(3).write.format("rocketmq_store").options(rocketmqVersion=version, **OPTIONS)
    for _ in range(2):
        written.mode("append").save(str(tmp_path / "store"))
    check_goes_on(peers_dir, tmp_path / "store", version, 200)


@peer.needs_peers
@pytest.mark.parametrize("version", peer.VERSIONS)
def test_kafkas_classes_serve_a_log_directory(version: str, spark: SparkSession, tmp_path: Path) -> None:
    rows = spark.range(100).selectExpr("'t' AS topic", "CAST(id AS STRING) AS value", "concat('k-', id) AS key")
    for compression in ("zstd", "none"):
        written = rows.repartition(3).write.format("kafka_log").options(partitions="2", compression=compression)
        written.mode("append").save(str(tmp_path / "logs"))
    check_served_by_kafka(tmp_path / "logs", version, 200)
