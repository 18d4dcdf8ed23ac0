"""A dispatch as a Structured Streaming query on a real Spark: the files of a rebuild, each message
once in the lake."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest

from logdex.convert.index_pipeline import IndexPipeline, Lake
from logdex.convert.sources.rocketmq import StoreSource
from logdex.errors import UsageError
from logdex.formats import detect
from logdex.rocketmq.dispatch.job import Dispatcher
from logdex.spark.dispatch.query import dispatch_stream
from logdex.spark.tasks import TaskRunner
from tests.unit.rocketmq.dispatch.growing import CONFIG, SIZES, grow, require_rebuilt

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(600)]


class Run:
    """Runs of a dispatch of one store into one output, with a lake."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.store, self.output, self.lake = folder / "store", folder / "out", folder / "lake"
        self._spark = spark
        self._rebuilt = folder / "rebuilt"

    def pipeline(self, job: Dispatcher) -> IndexPipeline:
        lake = Lake(StoreSource(str(self.store), settings=SIZES), str(self.lake), sync=False)
        return IndexPipeline(job, lake, runner=TaskRunner(self._spark), engine="spark")

    def follow(self, pipeline: IndexPipeline, *, follow: bool) -> None:
        dispatch_stream(self._spark, pipeline, detect(str(self.store)), SIZES, follow=follow, every_s=0.1)

    def require_right(self, messages: int) -> None:
        require_rebuilt(self.store, self.output, self._rebuilt)
        rows = pq.read_table(self.lake, columns=["physicalOffset"])
        offsets = rows["physicalOffset"].to_pylist()
        assert len(offsets) == len(set(offsets)) == messages


def test_what_there_is_run_after_run(spark: SparkSession, tmp_path: Path) -> None:
    run = Run(spark, tmp_path)
    for turn in range(3):
        grow(run.store, 60, turn)
        with Dispatcher(run.store, run.output, CONFIG) as job:
            run.follow(run.pipeline(job), follow=False)
        assert (job.report.messages, job.report.engine, job.report.lake_messages) == (60, "spark", 60)
        assert job.report.tasks > 0
        run.require_right(60 * (turn + 1))
    assert sorted(path.name for path in run.output.iterdir()) == [
        ".logdex-dispatch",
        ".logdex-lock",
        "consumequeue",
        "index",
    ]


def fail_after(run: Run, messages: int) -> None:
    """Follows the store until a step has taken in more messages, and fails then."""
    with Dispatcher(run.store, run.output, CONFIG) as job:
        step = job.step

        def fails(*given: object, **more: object) -> bool:
            step(*given, **more)  # type: ignore[arg-type]
            if job.report.messages > messages:
                raise UsageError("that is enough")
            return True

        job.step = fails  # type: ignore[method-assign]
        run.follow(run.pipeline(job), follow=True)


def test_follow_with_a_run_that_breaks_off(spark: SparkSession, tmp_path: Path) -> None:
    """The error of a step ends the query, and is raised as it is; the next query takes up what is
    left."""
    run = Run(spark, tmp_path)
    grow(run.store, 20, 0)
    grower = threading.Timer(3, grow, (run.store, 20, 1))
    grower.start()
    with pytest.raises(UsageError, match="enough"):
        fail_after(run, 20)
    grower.join()
    with Dispatcher(run.store, run.output, CONFIG) as job:
        following = threading.Thread(target=run.follow, args=(run.pipeline(job),), kwargs={"follow": True})
        following.start()
        for turn in range(3):
            grow(run.store, 40, turn + 2)
            time.sleep(0.5)
        deadline = time.monotonic() + 100
        while job.report.lake_messages < 140 and time.monotonic() < deadline:
            time.sleep(0.05)
        job.stop()
        following.join()
    run.require_right(160)
