"""Runs an `IndexPipeline` as a Structured Streaming query: Spark decides when a step is due and up
to which offsets, and `foreachBatch` makes it.

See ``docs/design/0030-dispatch-as-a-stream.md``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from logdex.convert.index_pipeline import IndexPipeline
from logdex.errors import EnvironmentProblem
from logdex.formats import format_of
from logdex.formats.format import FoundPath, Settings
from logdex.spark.dispatch.log_ends import LOG_FORMAT, SOURCE, LogEndsSource
from logdex.spark.failures import spark_failures
from logdex.spark.sources.options import format_settings
from logdex.spark.tasks import is_connect

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_POLL_S = 1
_STARTS_MAX = 5
_SOURCE_TOO_SLOW = "failed to connect back"
"""What Spark says if a Python source does not start within ten seconds, which happens on a machine
with too much to do. Then the query is started again, a few times."""


class Batches:
    """Makes a step of each batch of a query. `error` is what a step raised."""

    def __init__(self, pipeline: IndexPipeline) -> None:
        self.error: BaseException | None = None
        self._pipeline = pipeline

    def take(self, batch: DataFrame, batch_id: int) -> None:
        """Takes in the logs up to the end of a batch. Spark calls it once per batch of a query;
        what an earlier query has taken in of it is in the journal of the dispatch, and is passed
        over."""
        try:
            self._pipeline.step({(row["log"], row["part"]): row["end"] for row in batch.collect()})
        except BaseException as error:
            self.error = error
            raise


def dispatch_stream(
    spark: SparkSession,
    pipeline: IndexPipeline,
    found: FoundPath,
    settings: Settings,
    *,
    follow: bool = False,
    every_s: float = 1.0,
) -> None:
    """Makes the steps of a pipeline of the log at `found` as batches of a query: those of what
    there is now, or with `follow` one every `every_s` seconds in which the log has grown, until the
    job is stopped. `settings` are those with which the log is opened.

    The query begins anew each time, at the beginning of the logs: how far the files have come is in
    the job's own journal. Its checkpoint is in the job's stage directory.

    Spark Connect makes the batches of a query in a process of its server, which cannot have the
    job's locks and files. There the steps are made without a query, at the same times, and their
    tasks run on Spark all the same.

    Raises what a step raises, and `EnvironmentProblem` if Spark fails.
    """
    if is_connect(spark):
        pipeline.run(follow=follow, every_s=every_s)
        return
    spark.dataSource.register(LogEndsSource)
    stream = spark.readStream.format(SOURCE).options(**_options(found, settings)).load(pipeline.job.report.path)
    trigger: dict[str, Any] = {"processingTime": f"{int(every_s * 1000)} milliseconds"}
    for start in range(1, _STARTS_MAX + 1):
        try:
            _run(stream, pipeline, trigger if follow else {"availableNow": True}, f"query-{start}")
            break
        except EnvironmentProblem as error:
            if _SOURCE_TOO_SLOW not in error.message or start == _STARTS_MAX:
                raise
    if not follow:
        pipeline.step()  # finds out how the log ends, and takes in what the stream does not wait for


def _run(stream: DataFrame, pipeline: IndexPipeline, trigger: dict[str, Any], checkpoint: str) -> None:
    """Runs a query until it ends or the job is stopped."""
    batches = Batches(pipeline)
    writer = stream.writeStream.foreachBatch(batches.take).queryName("logdex dispatch")
    writer = writer.option("checkpointLocation", f"file://{pipeline.job.stage_directory}/{checkpoint}")
    with spark_failures():
        query = writer.trigger(**trigger).start()
        try:
            while not query.awaitTermination(_POLL_S) and not pipeline.job.is_stopped:
                pass
        except Exception:
            if batches.error is not None:
                raise batches.error from None
            raise
        finally:
            pipeline.wait_for_step()
            query.stop()


def _options(found: FoundPath, settings: Settings) -> dict[str, str]:
    """Returns the options of the source. Where the log ends, and whether it was cut, the job
    decides: the stream goes on."""
    given = {
        option: str(settings[name])
        for option, (name, _) in format_settings(format_of(found)).items()
        if settings.get(name) is not None
    }
    fixed = {LOG_FORMAT: found.format, "startingOffsets": "earliest", "failOnDataLoss": "false", "mode": "PERMISSIVE"}
    return {**given, **fixed}
