"""A lazy table as a `pyarrow.dataset.Dataset`: for Arrow itself, for DuckDB and for whoever else
reads datasets."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from pyarrow import fs

from logdex.errors import LogdexError, UsageError
from logdex.frames.arrow_filters import conditions_of, fields_of
from logdex.frames.conditions import Conditions
from logdex.frames.tables import LazyTable

_NOT_A_FILE = "a log - read this dataset through its own methods, not as a part of another"

Columns = Sequence[str] | Mapping[str, pc.Expression] | None


class LogDataset(ds.FileSystemDataset):
    """A dataset whose scans read only the columns and the parts of a log that they need.

    `scanner`, and what uses it (`to_table`, `to_batches`, `head`, `take`, `count_rows`, DuckDB),
    read the log. For Arrow's C++ code it is a dataset of one file that is missing, so that what
    goes past `scanner` fails and does not find an empty table. `problem` is the error that ended
    the last read, if one did: DuckDB keeps only its text. Threads may share it.
    """

    def __init__(self, table: LazyTable) -> None:
        files, kind = fs.LocalFileSystem(), ds.IpcFileFormat()
        missing = kind.make_fragment(_NOT_A_FILE, filesystem=files)
        super().__init__([missing], table.schema, kind, filesystem=files)
        self.table = table
        self.problem: LogdexError | None = None

    def __reduce__(self) -> Any:
        """Raises `UsageError`: what is open here is not open elsewhere."""
        raise UsageError("a dataset of a log cannot be pickled", hint="open the log there")

    def scanner(self, columns: Columns = None, filter: pc.Expression | None = None, **options: Any) -> LogScanner:
        """Returns a scanner with the methods of `pyarrow.dataset.Scanner`. Options that tune
        Arrow's own scanner change nothing."""
        needed = self._needed(columns, filter)
        schema = pa.schema([self.schema.field(name) for name in needed])
        chosen = columns if columns is None or isinstance(columns, Mapping) else list(columns)
        return LogScanner(self._read(needed, conditions_of(filter)), schema, chosen, filter)

    def filter(self, expression: pc.Expression) -> ds.Dataset:
        """Raises `UsageError`: give the filter to the method that reads."""
        raise UsageError("a dataset of a log has no filter of its own", hint="say to_table(filter=…)")

    def count_rows(self, filter: pc.Expression | None = None, **options: Any) -> int:
        """Returns the number of rows that pass a filter."""
        return int(self.scanner([], filter, **options).count_rows())

    def _needed(self, columns: Columns, filter: pc.Expression | None) -> list[str]:
        """Returns the names of the columns to read, in the order of the schema."""
        if columns is None:
            return list(self.schema.names)
        parts = [fields_of(each) for each in columns.values()] if isinstance(columns, Mapping) else [frozenset(columns)]
        wanted: set[str] = set()
        for found in (*parts, fields_of(filter)):
            if found is None:
                return list(self.schema.names)
            wanted |= found
        return [name for name in self.schema.names if name in wanted]

    def _read(self, columns: list[str], conditions: Conditions) -> Iterator[pa.RecordBatch]:
        self.problem = None
        try:
            yield from self.table.read(columns, conditions)
        except LogdexError as error:
            self.problem = error
            raise


class LogScanner:
    """One read of a dataset of a log, by the thread that asks for batches.

    Arrow's own scanner reads ahead in a thread of its own. If a query stops early, as one with
    LIMIT does, that thread goes on, and a process that ends meanwhile hangs or is aborted.
    """

    def __init__(
        self, batches: Iterator[pa.RecordBatch], schema: pa.Schema, columns: Columns, filter: pc.Expression | None
    ) -> None:
        self._batches, self._filter = batches, filter
        self._columns = None if filter is None and columns == schema.names else columns
        self.projected_schema: pa.Schema = self._of(schema.empty_table()).projected_schema
        """The schema of the batches."""

    def to_batches(self) -> Generator[pa.RecordBatch, None, None]:
        """Yields the batches."""
        is_plain = self._columns is None and self._filter is None
        for batch in self._batches:
            if is_plain or not batch.num_columns:
                yield batch
            else:
                yield from self._of(pa.Table.from_batches([batch])).to_batches()

    def to_reader(self) -> pa.RecordBatchReader:
        """Returns a reader of the batches."""
        return pa.RecordBatchReader.from_batches(self.projected_schema, self.to_batches())

    def to_table(self) -> pa.Table:
        """Reads all rows."""
        return pa.Table.from_batches([*self.to_batches()], self.projected_schema)

    def head(self, num_rows: int) -> pa.Table:
        """Reads the first rows."""
        found, left = list[pa.RecordBatch](), num_rows
        with closing(self.to_batches()) as batches:
            while left > 0 and (batch := next(batches, None)) is not None:
                found.append(batch.slice(0, left))
                left -= found[-1].num_rows
        return pa.Table.from_batches(found, self.projected_schema)

    def take(self, indices: Any) -> pa.Table:
        """Reads the rows at some places."""
        return self.to_table().take(indices)

    def count_rows(self) -> int:
        """Reads and counts all rows."""
        return sum(batch.num_rows for batch in self.to_batches())

    def _of(self, table: pa.Table) -> ds.Scanner:
        return ds.InMemoryDataset(table).scanner(columns=self._columns, filter=self._filter)
