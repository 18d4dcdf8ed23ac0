"""The Spark side of streams: a `LogStream` read in micro-batches, planned on the driver and read by
Python workers."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from logdex.convert.columns.projection import Projection
from logdex.errors import LogdexError
from logdex.spark.sources.rows import partitions_of, rows_of, say
from logdex.spark.sources.stream_table import Limits, LogStream, Offsets, StreamProgress

_IDLE_S = 0.1
"""How long a look for new messages waits that found none. Spark looks again at once."""


class OffsetReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The offsets of the batches of a `LogStream`; what a batch reads is decided by classes below.

    Spark keeps one object on the driver for the life of a query, and gives each task a pickled one.
    What was read is in Spark's checkpoint and nowhere else, so that a query which is started again
    goes on where its last complete batch ended.
    """

    def __init__(self, stream: LogStream) -> None:
        self._stream = stream
        self._progress = StreamProgress(stream, stream.read.env)
        self._initial: Offsets | None = None
        self._has_target = False

    def initialOffset(self) -> dict[str, Any]:
        """Returns where a new query begins. Spark asks twice, and must get the same answer."""
        if self._initial is None:
            self._initial = self._stream.initial(self._stream.read.env)
        return self._initial

    def getDefaultReadLimit(self) -> ReadLimit:
        """Returns the limit of a batch, by the options. If there are several, the others are
        applied by `latestOffset`: Spark knows none that consists of two in Python sources."""
        limits = self._stream.limits
        if limits.rows is not None:
            return ReadMaxRows(limits.rows)
        if limits.size_bytes is not None:
            return ReadMaxBytes(limits.size_bytes)
        return ReadAllAvailable() if limits.rows_min is None else ReadMinRows(limits.rows_min)

    def prepareForTriggerAvailableNow(self) -> None:
        """Lets the query end with what there is now."""
        self._progress.set_target()
        self._has_target = True

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Returns the end of the batch that begins at `start`."""
        limits = Limits() if isinstance(limit, ReadAllAvailable) else self._stream.limits
        end = self._progress.advance(start, limits)
        for note in self._progress.notes:
            say(note)
        self._progress.notes.clear()
        if end == start and not self._has_target:
            time.sleep(_IDLE_S)
        return end

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """Returns where the logs end now, for the query's progress."""
        return self._stream.latest(self._stream.read.env)[1]


class RefusedStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A reader that raises an error in whatever Spark calls first. Where making the reader raises
    it, PySpark hides it behind an error of its own."""

    def __init__(self, error: LogdexError) -> None:
        self._error = error

    def initialOffset(self) -> dict[str, Any]:
        """Raises the error."""
        raise self._error

    def getDefaultReadLimit(self) -> ReadLimit:
        """Raises the error."""
        raise self._error

    def prepareForTriggerAvailableNow(self) -> None:
        """Raises the error."""
        raise self._error

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Raises the error."""
        raise self._error

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """Raises the error."""
        raise self._error

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Raises the error."""
        raise self._error


class LogStreamReader(OffsetReader):
    """Reads a `LogStream` with the columns of an Arrow schema."""

    def __init__(self, stream: LogStream, schema: pa.Schema) -> None:
        super().__init__(stream)
        self._projection = Projection(stream.columns, schema.names, schema)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """Plans the read of one batch."""
        plan = self._stream.plan(start, end, self._projection.reads, self._stream.read.env)
        for note in plan.notes:
            say(note)
        return partitions_of(plan, self._stream.read)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yields the rows of one partition of `partitions`."""
        return rows_of(partition.value, self._projection, self._stream.read)
