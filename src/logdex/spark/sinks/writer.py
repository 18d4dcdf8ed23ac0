"""The Spark side of sinks: tasks stage rows, the driver appends each batch exactly once."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from logdex.errors import EnvironmentProblem, StorageError
from logdex.io.env import DEFAULT_ENV
from logdex.spark.attempts import freeze_imports
from logdex.spark.sinks.commit import commit_batch
from logdex.spark.sinks.sink import Sink
from logdex.spark.sinks.staging import stage

QUERY_PROPERTY, BATCH_PROPERTY = "sql.streaming.queryId", "streaming.sql.batchId"
"""The names under which Spark tells a task which query and batch it works for."""


@dataclass(frozen=True)
class StagedRows(WriterCommitMessage):
    """The staged file of one task, empty if it had no rows, and the query that it is of."""

    file: str
    query: str


def _stage(sink: Sink, query: str, batch: int, batches: Iterator[pa.RecordBatch]) -> StagedRows:
    freeze_imports()
    context = TaskContext.get()
    task = 0 if context is None else context.partitionId()
    DEFAULT_ENV.make_dirs_durably(sink.directory)
    rows = sink.prepared(batches, task, time.time_ns() // 1_000_000)
    return StagedRows(stage(sink.directory, query, batch, rows, DEFAULT_ENV)[0], query)


def _files(messages: list[WriterCommitMessage | None]) -> tuple[str, ...]:
    return tuple(each.file for each in messages if isinstance(each, StagedRows) and each.file)


class _Target:
    """Where a write goes. It is looked at before any task runs."""

    def __init__(self, sink: Sink) -> None:
        self.sink = sink
        self._is_new = not DEFAULT_ENV.exists(sink.directory)

    def discard(self, messages: list[WriterCommitMessage | None]) -> None:
        """Removes what finished tasks have staged, and the directory if this write has made it and
        nothing is in it. Others may still be staging; the next commits sweep their files."""
        directory = self.sink.directory
        for name in _files(messages):
            DEFAULT_ENV.remove(f"{directory}/{name}")
        if self._is_new and DEFAULT_ENV.is_dir(directory) and not DEFAULT_ENV.list_dir(directory):
            with suppress(StorageError):  # a task has come to stage rows there
                DEFAULT_ENV.remove_dir(directory)


class LogWriter(DataSourceArrowWriter):
    """Appends the rows of one batch write: all of them, or none if a task fails."""

    def __init__(self, sink: Sink) -> None:
        self._target = _Target(sink)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> StagedRows:
        """Stages the rows of one task."""
        return _stage(self._target.sink, "", 0, iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Appends the rows of all tasks, in the order of the tasks."""
        files = _files(messages)
        if files:
            commit_batch(self._target.sink.directory, self._target.sink.open, "", 0, files)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Appends nothing."""
        self._target.discard(messages)


class LogStreamWriter(DataSourceStreamArrowWriter):
    """Appends each batch of a stream once, however often Spark runs it."""

    def __init__(self, sink: Sink) -> None:
        self._target = _Target(sink)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> StagedRows:
        """Stages the rows of one task of one batch."""
        context = TaskContext.get()
        query = None if context is None else context.getLocalProperty(QUERY_PROPERTY)
        batch = None if context is None else context.getLocalProperty(BATCH_PROPERTY)
        if not query or batch is None:
            raise EnvironmentProblem("Spark does not tell of which query a task is", hint="use PySpark 4.3")
        return _stage(self._target.sink, query, int(batch), iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batch_id: int) -> None:
        """Appends the rows of all tasks, unless the batch was appended before."""
        files = _files(messages)
        query = next((each.query for each in messages if isinstance(each, StagedRows)), "")
        if files:
            commit_batch(self._target.sink.directory, self._target.sink.open, query, batch_id, files)

    def abort(self, messages: list[WriterCommitMessage | None], batch_id: int) -> None:
        """Appends nothing of a batch."""
        self._target.discard(messages)
