"""A stream of `kafka_log` on a real Spark: batches by rows and by bytes, a log that grows and
rolls, restarts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from logdex.kafka import Log, Record
from tests.spark.rocketmq.test_stream import run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_batches_and_restarts(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "logs"
    path.mkdir()
    source = spark.readStream.format("kafka_log").options(startingOffsets="earliest", subscribe="t")
    with Log.open(path / "t-0", segment_bytes=400) as first, Log.open(path / "t-1") as second:
        for number in range(12):
            (first if number % 3 else second).append([Record(b"k", b"%d" % number)])
        assert run(source.option("maxOffsetsPerTrigger", "6").load(str(path)), tmp_path) == [6, 6]
        for number in range(12, 30):
            (first if number % 3 else second).append([Record(b"k", b"%d" % number)])
        by_bytes = source.option("maxBytesPerTrigger", "300")
        assert len(run(by_bytes.load(str(path)), tmp_path)) > 3
        rows = spark.read.parquet(str(tmp_path / "out")).collect()
        assert sorted(int(bytes(row.value)) for row in rows) == [*range(30)]
