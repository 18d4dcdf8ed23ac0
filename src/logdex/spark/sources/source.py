"""The Spark side of the sources: a DataFrame over a `LogTable`, planned on the driver and read by
Python workers."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

from logdex.convert.columns.projection import Projection
from logdex.errors import LogdexError, UsageError
from logdex.frames.conditions import Condition, Conditions
from logdex.spark.sinks.sink import Sink
from logdex.spark.sinks.writer import LogStreamWriter, LogWriter
from logdex.spark.sources.pushdown import FilterTaker
from logdex.spark.sources.rows import partitions_of, rows_of, say
from logdex.spark.sources.stream import LogStreamReader, RefusedStreamReader
from logdex.spark.sources.stream_table import LogStream
from logdex.spark.sources.table import LogTable, require_columns

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

_ONE_FILTER = "Spark may use these filters for other uses of the same DataFrame: load one for each filter"


class LogSource(DataSource):
    """A source whose DataFrames read what there was when they were made, and whose streams read on.

    Spark makes one object per DataFrame, pickles it, and uses it for all actions. It is made when
    the DataFrame is, or at the first action if the user gives a schema, and then `schema` is not
    called. So the logs are looked at when the object is made. What goes wrong then is raised when
    the object is used for reading, because Spark makes one for writing as well.
    """

    def __init__(self, options: Mapping[str, str]) -> None:
        super().__init__(dict(options))
        self._table: LogTable | None = None
        self._problem: LogdexError | None = None
        try:
            self._table = self.make_table(options)
        except LogdexError as error:
            self._problem = error

    @staticmethod
    @abstractmethod
    def make_table(options: Mapping[str, str]) -> LogTable:
        """Returns what a DataFrame with some options reads."""

    @staticmethod
    @abstractmethod
    def make_stream(options: Mapping[str, str]) -> LogStream:
        """Returns what a stream with some options reads."""

    @staticmethod
    @abstractmethod
    def make_sink(options: Mapping[str, str], columns: tuple[str, ...]) -> Sink:
        """Returns what rows with some columns are appended to."""

    @property
    def table(self) -> LogTable:
        """What the DataFrame reads."""
        if self._table is None:
            assert self._problem is not None
            raise self._problem
        return self._table

    def schema(self) -> StructType:
        """Returns the columns of a DataFrame whose user gives no schema. Spark asks in the same way
        for a stream, which has options that are an error in a batch read."""
        table: LogTable | LogStream
        try:
            table = self.table
        except LogdexError as error:
            table = self._stream_or(error)
        projection = Projection(table.columns, table.names)
        # Spark does not look for nulls in columns that have none
        fields = [pa.field(each.name, each.kind, each.nullable) for each in projection.columns]
        return from_arrow_schema(pa.schema(fields), prefer_timestamp_ntz=False)

    def _stream_or(self, error: LogdexError) -> LogStream:
        try:
            stream = self.make_stream(self.options)
            stream.initial()
        except LogdexError:
            raise error from None
        return stream

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Returns a reader of a stream of the columns of `schema`."""
        try:
            stream = self.make_stream(self.options)
            require_columns(stream.read, schema.names)
            return LogStreamReader(stream, to_arrow_schema(schema, timezone="UTC"))
        except LogdexError as error:
            return RefusedStreamReader(error)

    def writer(self, schema: StructType, overwrite: bool) -> LogWriter:
        """Returns a writer of rows with the columns of `schema`. They are appended."""
        if overwrite:
            raise UsageError(f"{self.name()} cannot overwrite a log", hint='say mode("append")')
        return LogWriter(self.make_sink(self.options, tuple(schema.names)))

    def streamWriter(self, schema: StructType, overwrite: bool) -> LogStreamWriter:
        """Returns a writer of the batches of a stream."""
        if overwrite:
            raise UsageError(f"{self.name()} cannot overwrite a log", hint='say outputMode("append")')
        return LogStreamWriter(self.make_sink(self.options, tuple(schema.names)))

    def reader(self, schema: StructType) -> DataSourceReader:
        """Returns a reader of the columns of `schema`."""
        require_columns(self.table.read, schema.names)
        return LogReader(self.table, to_arrow_schema(schema, timezone="UTC"))


class LogReader(DataSourceReader):
    """Reads a `LogTable` with the columns of an Arrow schema."""

    def __init__(self, table: LogTable, schema: pa.Schema) -> None:
        self._table = table
        self._projection = Projection(table.columns, schema.names, schema)
        self._wanted = Conditions()
        self.pushFilters = FilterTaker(self.take)  # type: ignore[method-assign]

    def take(self, conditions: Sequence[Condition]) -> list[bool]:
        """Takes the conditions that Spark pushes down. Returns which of them the read applies
        exactly."""
        names = self._projection.known_names
        known = [replace(each, column=names.get(each.column, each.column)) for each in conditions]
        self._wanted = Conditions(tuple(known))
        return [self._table.is_exact(each) for each in known]

    def partitions(self) -> list[InputPartition]:
        """Plans the read. It is told to Spark's log what was left out."""
        table = self._table
        plan = table.plan(self._projection.reads, self._wanted)
        notes = [*plan.notes, _ONE_FILTER] if self._wanted.all else plan.notes
        for line in (plan.describe(table.source, self._wanted), *notes):
            say(line)
        return partitions_of(plan, table.read)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yields the rows of one partition of `partitions`."""
        return rows_of(partition.value, self._projection, self._table.read)
