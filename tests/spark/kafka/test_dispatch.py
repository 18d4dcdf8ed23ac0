"""A dispatch of Kafka's logs as a Structured Streaming query on a real Spark: the files of a
rebuild, and a lake."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest

from logdex.convert.index_pipeline import IndexPipeline, Lake
from logdex.convert.sources.kafka import LogDirSource
from logdex.formats import detect
from logdex.spark.dispatch.query import dispatch_stream
from logdex.spark.tasks import TaskRunner
from tests.unit.kafka.dispatch.growing import dispatcher, grow, require_rebuilt

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(600)]


def test_what_there_is_run_after_run(spark: SparkSession, tmp_path: Path) -> None:
    logs, output, lake = tmp_path / "logs", tmp_path / "out", tmp_path / "lake"
    messages = 0
    for turn in range(3):
        grow(logs / "a-0", 20, turn)
        grow(logs / "a-1", 20, turn + 9)
        with dispatcher(logs, output) as job:
            kept = Lake(LogDirSource(str(logs)), str(lake), sync=False)
            pipeline = IndexPipeline(job, kept, runner=TaskRunner(spark), engine="spark")
            dispatch_stream(spark, pipeline, detect(str(logs)), {})
        messages += job.report.lake_messages
        assert job.report.tasks >= 2
        assert job.report.engine == "spark"
        require_rebuilt(logs, output, tmp_path / "rebuilt")
    rows = pq.read_table(lake, columns=["partition", "offset"]).to_pylist()
    assert len({(row["partition"], row["offset"]) for row in rows}) == len(rows) == messages > 120
