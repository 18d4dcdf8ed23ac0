"""The Spark side of the sources: a DataFrame over a `LogTable`, planned on the driver and read by
Python workers."""

from __future__ import annotations

import logging
import sys
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

from logdex.errors import LogdexError
from logdex.jobs.tasks import group_parts
from logdex.spark.sources.columns import Projection, resized
from logdex.spark.sources.conditions import Condition, Conditions
from logdex.spark.sources.damage import FAILFAST, DamageLog
from logdex.spark.sources.pushdown import FilterTaker
from logdex.spark.sources.table import LogTable, TablePart, partition_bytes
from logdex.spark.tasks import freeze_imports

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

LOGGER = logging.getLogger("logdex.spark")


class LogSource(DataSource):
    """A source whose DataFrames read what there was when they were made.

    Spark makes one object per DataFrame, pickles it, and uses it for all actions. It is made when the
    DataFrame is, or at the first action if the user gives a schema, and then `schema` is not called.
    So the logs are looked at when the object is made. What goes wrong then is raised when the object
    is used for reading, because Spark makes one for writing as well.
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

    @property
    def table(self) -> LogTable:
        """What the DataFrame reads."""
        if self._table is None:
            assert self._problem is not None
            raise self._problem
        return self._table

    def schema(self) -> StructType:
        """Returns the columns of a DataFrame whose user gives no schema."""
        table = self.table
        return from_arrow_schema(Projection(table.columns, table.names).schema, prefer_timestamp_ntz=False)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Returns a reader of the columns of `schema`."""
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
        self._wanted = Conditions(tuple(conditions))
        return [self._table.is_exact(each) for each in conditions]

    def partitions(self) -> list[InputPartition]:
        """Plans the read. It is told to Spark's log what was left out."""
        table = self._table
        plan = table.plan(self._projection.reads, self._wanted)
        for line in (plan.describe(table.source, self._wanted), *plan.notes):
            say(line)
        groups = group_parts(plan.parts, partition_bytes(table.read, plan.size_bytes))
        return [InputPartition(tuple(group)) for group in groups] + [InputPartition(each) for each in plan.damage]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yields the rows of one partition of `partitions`."""
        freeze_imports()
        return resized(self._batches(partition.value))

    def _batches(self, given: object) -> Iterator[pa.RecordBatch]:
        damage = DamageLog()
        if isinstance(given, LogdexError):
            damage.note(given)  # type: ignore[arg-type]  # the plan has only errors of damage
        on_damage = None if self._table.read.mode == FAILFAST else damage.note
        parts: tuple[TablePart, ...] = given if isinstance(given, tuple) else ()
        for part in parts:
            for batch in part.batches(on_damage):
                yield self._projection.convert(batch, part.constants)
                yield from damage.rows(self._projection.schema)
        yield from damage.rows(self._projection.schema)


def say(line: str) -> None:
    """Writes a line to Spark's log, which has what a Python process on the driver writes to stderr."""
    if not LOGGER.handlers:
        LOGGER.addHandler(logging.StreamHandler(sys.stderr))
        LOGGER.setLevel(logging.INFO)
        LOGGER.propagate = False
    LOGGER.info(line)
