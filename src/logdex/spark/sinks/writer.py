"""The Spark side of sinks: tasks stage rows, the driver appends each batch exactly once."""

from __future__ import annotations

import time
import uuid
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
from logdex.spark.sinks.journal import SinkJournal
from logdex.spark.sinks.sink import Sink
from logdex.spark.sinks.staging import remove_staged, stage

QUERY_PROPERTY, BATCH_PROPERTY = "sql.streaming.queryId", "streaming.sql.batchId"
"""The names under which Spark tells a task which query and batch it works for."""


@dataclass(frozen=True)
class StagedRows(WriterCommitMessage):
    """The staged file of one task, empty if it had no rows, and the query that it is of."""

    file: str
    query: str


def _files(messages: list[WriterCommitMessage | None]) -> tuple[str, ...]:
    return tuple(each.file for each in messages if isinstance(each, StagedRows) and each.file)


class _Target:
    """Where a write goes. It is looked at before any task runs."""

    def __init__(self, sink: Sink) -> None:
        self.sink = sink
        self._id = uuid.uuid4().hex[:16]
        self._is_new = not DEFAULT_ENV.exists(sink.directory)

    def stage(self, query: str, batch: int, batches: Iterator[pa.RecordBatch]) -> StagedRows:
        """Stages the rows of one task."""
        freeze_imports()
        context = TaskContext.get()
        task = 0 if context is None else context.partitionId()
        DEFAULT_ENV.make_dirs_durably(self.sink.directory)
        rows = self.sink.prepared(batches, task, time.time_ns() // 1_000_000)
        name, _ = stage(self.sink.directory, query, batch, rows, DEFAULT_ENV, write_id=self._id)
        return StagedRows(name, query)

    def discard(self, batch: int) -> None:
        """Removes what tasks have staged of a batch, but for what the journal has as begun, and the
        directory if this write has made it and nothing is in it. A task that has yet to stage its
        first rows may leave a file, which a commit sweeps when it is a day old."""
        directory = self.sink.directory
        if not DEFAULT_ENV.is_dir(directory):
            return
        pending = SinkJournal.read(directory, DEFAULT_ENV).pending
        remove_staged(directory, batch, self._id, () if pending is None else pending.files, DEFAULT_ENV)
        if self._is_new and not DEFAULT_ENV.list_dir(directory):
            with suppress(StorageError):  # a task has come to stage rows there
                DEFAULT_ENV.remove_dir(directory)


class LogWriter(DataSourceArrowWriter):
    """Appends the rows of one batch write: all of them, or none if a task fails."""

    def __init__(self, sink: Sink) -> None:
        self._target = _Target(sink)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> StagedRows:
        """Stages the rows of one task."""
        return self._target.stage("", 0, iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Appends the rows of all tasks, in the order of the tasks."""
        files = _files(messages)
        if files:
            commit_batch(self._target.sink.directory, self._target.sink.open, "", 0, files)
            self._target.discard(0)  # of tasks that were run again

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Appends nothing."""
        self._target.discard(0)


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
        return self._target.stage(query, int(batch), iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batch_id: int) -> None:
        """Appends the rows of all tasks, unless the batch was appended before."""
        files = _files(messages)
        query = next((each.query for each in messages if isinstance(each, StagedRows)), "")
        if files:
            commit_batch(self._target.sink.directory, self._target.sink.open, query, batch_id, files)

    def abort(self, messages: list[WriterCommitMessage | None], batch_id: int) -> None:
        """Appends nothing of a batch."""
        self._target.discard(batch_id)
