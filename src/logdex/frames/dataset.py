"""A lazy table as a `pyarrow.dataset.Dataset`: for Arrow itself, for DuckDB and for whoever else
reads datasets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from pyarrow import fs

from logdex.errors import LogdexError, UsageError
from logdex.frames.arrow_filters import conditions_of, fields_of
from logdex.frames.conditions import Conditions
from logdex.frames.tables import LazyTable

_READAHEAD = 2
"""How many batches Arrow may read ahead. A batch has up to 16 MiB."""

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

    def scanner(self, columns: Columns = None, filter: pc.Expression | None = None, **options: Any) -> ds.Scanner:
        """Returns a scanner, as `pyarrow.dataset.Dataset.scanner` does."""
        needed = self._needed(columns, filter)
        schema = pa.schema([self.schema.field(name) for name in needed])
        batches = self._read(needed, conditions_of(filter))
        chosen = columns if columns is None or isinstance(columns, Mapping) else list(columns)
        given = {"batch_readahead": _READAHEAD, **options}
        return ds.Scanner.from_batches(batches, schema=schema, columns=chosen, filter=filter, **given)

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
