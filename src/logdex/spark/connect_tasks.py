"""Runs tasks on Spark Connect, whose sessions have no RDDs: each task is a row of a DataFrame, and
`mapInArrow` runs it in a Python worker.

The functions and the tasks travel pickled, as Spark pickles functions itself. The workers are those
of the server: Logdex must be installed there.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from logdex.errors import LogdexError
from logdex.jobs.reports import Progress
from logdex.jobs.tasks import Result, Task, TaskFunction
from logdex.spark.attempts import attempt, failures_max, results_of
from logdex.spark.failures import spark_failures

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

_SCHEMA = "done binary"
_CORES_MAX = 1 << 16


class ConnectRunner:
    """Runs and counts tasks on one Connect session. Not thread-safe. `progress` is called with the
    running totals after each task."""

    def __init__(self, spark: SparkSession, progress: Progress | None = None) -> None:
        self._spark = spark
        self._progress = progress
        self._messages = self._size_bytes = 0
        self._cores: int | None = None
        self.tasks = 0
        """Tasks run so far, without repeated attempts."""

    @property
    def cores(self) -> int:
        """How many tasks run at once: Spark makes so many partitions where nothing else is said."""
        if self._cores is None:
            from pyspark.sql.functions import spark_partition_id

            with spark_failures():
                numbers = self._spark.range(_CORES_MAX).select(spark_partition_id().alias("number"))
                self._cores = int(numbers.agg({"number": "max"}).collect()[0][0]) + 1
        return self._cores

    def run(self, name: str, function: TaskFunction[Task, Result], tasks: Sequence[Task]) -> list[Result]:
        """Runs `tasks`, started in this order, and returns their results in the same order.

        When all have ended, raises the first typed error of a task, and `EnvironmentProblem` for
        any other failure that Spark's retries did not cure.
        """
        if not tasks:
            return []
        self.tasks += len(tasks)
        outcomes: list[Result | LogdexError] = []
        with spark_failures():
            runs = _runs(function, [pickle.dumps(task) for task in tasks], self._failures_max())
            rows = self._spark.range(0, len(tasks), numPartitions=len(tasks)).mapInArrow(runs, _SCHEMA)
            for row in rows.toLocalIterator():  # of a single job, whose rows come in their order
                outcome, messages, size_bytes = pickle.loads(row.done)
                self._note(messages, size_bytes)
                outcomes.append(outcome)
        return results_of(outcomes)

    def _failures_max(self) -> int:
        conf = self._spark.conf
        return failures_max(conf.get("spark.master", "") or "", conf.get("spark.task.maxFailures", "4") or "4")

    def _note(self, messages: int, size_bytes: int) -> None:
        self._messages += messages
        self._size_bytes += size_bytes
        if self._progress is not None:
            self._progress(self._messages, self._size_bytes)


def _runs(function: Any, tasks: list[bytes], attempts: int) -> Callable[[Any], Any]:
    """Returns the function that runs, in a worker, the tasks whose numbers are in some rows."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield _row(pickle.dumps(_run(function, tasks[number], attempts)))

    return run


def _run(function: Any, task: bytes, attempts: int) -> tuple[Any, int, int]:
    """One attempt at one task: its result, and the messages and bytes that it has counted."""
    counts = [0, 0]

    def count(messages: int, size_bytes: int) -> None:
        counts[0] += messages
        counts[1] += size_bytes

    return attempt(function, attempts, count, pickle.loads(task)), counts[0], counts[1]


def _row(done: bytes) -> pa.RecordBatch:
    import pyarrow as pa

    return pa.RecordBatch.from_pydict({"done": pa.array([done], pa.binary())})
