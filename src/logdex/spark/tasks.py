"""Runs tasks on Spark: plain functions in Python workers, one call per task, with small results.

A session of Spark Connect runs them through `connect_tasks.py`. A classic one uses plain RDDs,
which have half the fixed cost of `mapInArrow` for tasks without rows. A worker returns Logdex's
typed errors as data, and they are raised here. Spark retries a task that fails in any other way.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from logdex.errors import LogdexError
from logdex.jobs.reports import Progress
from logdex.jobs.tasks import Result, Task, TaskFunction
from logdex.spark.attempts import attempt, failures_max, results_of
from logdex.spark.failures import spark_failures

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from logdex.spark.connect_tasks import ConnectRunner

POLL_S = 0.1


def runner_of(spark: SparkSession, progress: Progress | None = None) -> TaskRunner | ConnectRunner:
    """Returns a runner for a session, classic or Connect."""
    if not is_connect(spark):
        return TaskRunner(spark, progress)
    from logdex.spark.connect_tasks import ConnectRunner

    return ConnectRunner(spark, progress)


def is_connect(spark: SparkSession) -> bool:
    """Whether a session is one of Spark Connect, which has no context."""
    from pyspark.errors import PySparkException

    try:
        spark.sparkContext  # noqa: B018
    except PySparkException:
        return True
    return False


class TaskRunner:
    """Runs and counts tasks on one Spark session. Not thread-safe.

    `progress` is called from a thread of its own with the running totals that finished tasks report
    by their `Count`.
    """

    def __init__(self, spark: SparkSession, progress: Progress | None = None) -> None:
        self._context = spark.sparkContext
        self._progress = progress
        self._counts = (self._context.accumulator(0), self._context.accumulator(0)) if progress else None
        self.tasks = 0
        """Tasks run so far, without repeated attempts."""

    @property
    def cores(self) -> int:
        """How many tasks run at once."""
        return max(int(self._context.defaultParallelism), 1)

    def run(self, name: str, function: TaskFunction[Task, Result], tasks: Sequence[Task]) -> list[Result]:
        """Runs `tasks`, started in this order, and returns their results in the same order.

        Raises the first typed error of a task, and `EnvironmentProblem` for any other failure that
        Spark's retries did not cure.
        """
        if not tasks:
            return []
        self.tasks += len(tasks)
        attempts = failures_max(
            self._context.master or "", self._context.getConf().get("spark.task.maxFailures", "4") or "4"
        )
        call = partial(_attempt, function, attempts, self._counts)
        with spark_failures(), self._described(name), self._polled():
            outcomes = self._context.parallelize(tasks, len(tasks)).map(call).collect()
        return results_of(outcomes)

    @contextmanager
    def _described(self, name: str) -> Iterator[None]:
        """Describes the job in Spark's web pages."""
        before = self._context.getLocalProperty("spark.job.description")
        self._context.setJobDescription(name)
        try:
            yield
        finally:
            self._context.setLocalProperty("spark.job.description", before)  # type: ignore[arg-type]

    @contextmanager
    def _polled(self) -> Iterator[None]:
        """Calls `progress` while the job runs, and once at its end."""
        counts, progress = self._counts, self._progress
        if counts is None or progress is None:
            yield
            return
        done = threading.Event()
        said = (0, 0)

        def say() -> None:
            nonlocal said
            now = int(counts[0].value), int(counts[1].value)
            if now != said:
                said = now
                progress(*now)

        def poll() -> None:
            while not done.wait(POLL_S):
                say()

        thread = threading.Thread(target=poll, name="logdex-progress", daemon=True)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()
        say()


def _attempt(function: TaskFunction[Task, Result], failures_max: int, counts: Any, task: Task) -> Result | LogdexError:
    """One attempt at one task, in a worker."""

    def count(messages: int, size_bytes: int) -> None:
        if counts is not None:
            counts[0].add(messages)
            counts[1].add(size_bytes)

    return attempt(function, failures_max, count, task)
