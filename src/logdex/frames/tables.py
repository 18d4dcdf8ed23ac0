"""Tables that are read when they are asked, and only as far as a query needs.

Each has, for every column that is a time in milliseconds, another one that is a timestamp:
`store_timestamp` for `store_timestamp_ms`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import pyarrow as pa

from logdex.frames.conditions import Condition, Conditions, in_milliseconds
from logdex.frames.times import TIMESTAMP, timestamps

_IN_MS = "timestamp_ms"


class LazyTable(Protocol):
    """A table that can be read any number of times."""

    @property
    def schema(self) -> pa.Schema:
        """The schema of all columns."""

    def read(self, columns: Sequence[str], conditions: Conditions) -> Iterator[pa.RecordBatch]:
        """Yields batches of some columns. Rows for which a condition does not hold may be left out;
        all others are there. Batches without columns have their numbers of rows."""


class Readable(Protocol):
    """What a `TimedTable` adds timestamps to."""

    @property
    def schema(self) -> pa.Schema:
        """The schema of all columns."""

    def batches(self, columns: Sequence[str], conditions: Conditions) -> Iterator[pa.RecordBatch]:
        """Yields batches with at least some columns, and at least the rows for which the conditions
        hold."""


def times_of(schema: pa.Schema) -> dict[str, str]:
    """Returns the names of the timestamps that a table has besides its columns, each with the
    column in milliseconds that it is made from."""
    return {name.removesuffix("_ms"): name for name in schema.names if name.endswith(_IN_MS)}


class TimedTable:
    """The table of a source, with timestamps."""

    def __init__(self, source: Readable) -> None:
        self._source = source
        self._times = times_of(source.schema)
        self.schema = pa.schema([*source.schema, *(pa.field(name, TIMESTAMP) for name in self._times)])

    def read(self, columns: Sequence[str], conditions: Conditions) -> Iterator[pa.RecordBatch]:
        """Yields batches."""
        schema = pa.schema([self.schema.field(name) for name in columns])
        reads = [*dict.fromkeys(self._times.get(name, name) for name in columns)]
        for batch in self._source.batches(reads, Conditions(tuple(map(self._of_source, conditions.all)))):
            if columns:
                yield pa.RecordBatch.from_arrays([self._column(batch, name) for name in columns], schema=schema)
            else:
                yield batch.select([])

    def _column(self, batch: pa.RecordBatch, name: str) -> pa.Array:
        return timestamps(batch.column(self._times[name])) if name in self._times else batch.column(name)

    def _of_source(self, condition: Condition) -> Condition:
        if condition.column in self._times:
            return in_milliseconds(condition, self._times[condition.column])
        return condition


class Rows:
    """A small table: `make` makes all its rows, as dictionaries that may have more than the columns
    of `schema`."""

    def __init__(self, schema: pa.Schema, make: Callable[[], Iterable[Mapping[str, Any]]]) -> None:
        self.schema = schema
        self._make = make

    def batches(self, columns: Sequence[str], conditions: Conditions) -> Iterator[pa.RecordBatch]:
        """Yields one batch."""
        yield pa.RecordBatch.from_pylist([*map(dict, self._make())], schema=self.schema)


class LogTables(Protocol):
    """The tables of what is at a path, each as it was when it was first read, or first since the
    last `refresh`. `problems` are about the small ones; the scans of the large ones have their
    own."""

    @property
    def path(self) -> str:
        """Where the log is."""

    @property
    def tables(self) -> Mapping[str, LazyTable]:
        """The tables by name."""

    @property
    def problems(self) -> Sequence[str]:
        """What could not be read, as text."""

    def refresh(self) -> None:
        """Makes the tables anew, with what was written meanwhile."""
