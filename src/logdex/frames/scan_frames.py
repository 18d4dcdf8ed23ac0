"""What a scan offers besides its messages one by one: tables for pandas, Polars, Arrow and
DuckDB."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self, TypeVar

from logdex.errors import IncompleteReadWarning, UsageError
from logdex.frames.conditions import Conditions
from logdex.primitives.wrong_questions import nearest, require_column_names

if TYPE_CHECKING:
    import pyarrow as pa

    from logdex.frames.dataset import LogDataset
    from logdex.frames.tables import TimedTable

Item = TypeVar("Item")


class Lossy(Protocol):
    """What may not be able to read everything."""

    @property
    def losses(self) -> Sequence[str]:
        """What the last pass could not read, in words; empty if it read everything."""


class ScanFrames(ABC):
    """The base of the scans of all formats.

    `to_pandas` and `to_polars` read everything into memory. `to_dataset` and `to_lazy_polars`
    return tables that read when they are asked, and then only the columns and the parts of the log
    that a query needs. All of these have, besides the columns of `to_arrow`, a timestamp for each
    time in milliseconds: `store_timestamp` for `store_timestamp_ms`.
    """

    COUNTED_BY: ClassVar[str]
    """The column that costs least, for queries that only count."""

    @property
    @abstractmethod
    def schema(self) -> pa.Schema:
        """The schema of all columns."""

    @abstractmethod
    def arrow_reader(self, columns: Sequence[str] | None = None) -> pa.RecordBatchReader:
        """Returns what `to_arrow` does, without a warning: for who looks at `losses`."""

    def to_arrow(self, columns: Sequence[str] | None = None) -> pa.RecordBatchReader:
        """Returns some columns (None: all) as Arrow batches, in the given order, of which DuckDB
        and Polars read the reader as it is. Memory does not depend on the size of the log. The
        timestamps of `to_dataset` can be named, too.

        What is not needed for the columns is not read: without the body column, no body, and then
        its CRC is not checked. As all that reads a scan to its end, it warns there with
        `IncompleteReadWarning` of what could not be read (`losses`).
        """
        import pyarrow as pa

        reader = self._reader_with_times(columns)
        return pa.RecordBatchReader.from_batches(reader.schema, telling(reader, [self]))

    def _reader_with_times(self, columns: Sequence[str] | None) -> pa.RecordBatchReader:
        """Returns what `arrow_reader` does, also of timestamps."""
        if columns is not None:
            require_column_names(columns)
        if columns is None or all(name in self.schema.names for name in columns):
            return self.arrow_reader(columns)
        import pyarrow as pa

        from logdex.frames.tables import TimedTable, times_of

        names, times = list(columns), times_of(self.schema)
        known = {each: each for each in (*self.schema.names, *times)}
        for name in names:
            if name not in known:
                raise UsageError(f"there is no column {name!r}", hint=nearest(str(name), known, known))
        reader = self.arrow_reader([*dict.fromkeys(times.get(name, name) for name in names)])
        table = TimedTable(_Read(reader))
        schema = pa.schema([table.schema.field(name) for name in names])
        return pa.RecordBatchReader.from_batches(schema, table.read(names, Conditions()))

    @abstractmethod
    def narrowed(self, conditions: Conditions) -> Self | None:
        """Returns a new scan that reads everything for which the conditions hold, and may leave out
        the rest; None if nothing is left. The conditions are about columns of `schema`."""

    @property
    @abstractmethod
    def losses(self) -> Sequence[str]:
        """What the last pass could not read, in words; empty if it read everything."""

    def __arrow_c_schema__(self) -> object:
        """Returns the schema of `__arrow_c_stream__`."""
        return self._table().schema.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Returns all rows as a stream of Arrow's C data interface: ``polars.DataFrame(scan)``,
        ``pyarrow.table(scan)`` and DuckDB read a scan as it is. Its columns are those of
        `to_dataset`. Each stream reads the log anew, and warns with `IncompleteReadWarning` of what
        it could not read."""
        import pyarrow as pa

        table = self._table()
        batches = table.read(table.schema.names, Conditions())
        return pa.RecordBatchReader.from_batches(table.schema, batches).__arrow_c_stream__(requested_schema)

    def to_pandas(self, columns: Sequence[str] | None = None) -> Any:
        """Returns some columns (None: all) as a `pandas.DataFrame`, in which `topic` is a
        Categorical. Raises `EnvironmentProblem` without pandas."""
        from logdex.frames.extras import require

        require("pandas")
        return self._whole(columns).read_pandas()

    def to_polars(self, columns: Sequence[str] | None = None) -> Any:
        """Returns some columns (None: all) as a `polars.DataFrame`. Raises `EnvironmentProblem`
        without Polars."""
        from logdex.frames.polars_frames import data_frame

        return data_frame(self._whole(columns))

    def _whole(self, columns: Sequence[str] | None) -> pa.RecordBatchReader:
        """Returns `to_arrow`, by default with the columns of `to_dataset`."""
        return self.to_arrow(self._table().schema.names if columns is None else columns)

    def to_dataset(self) -> LogDataset:
        """Returns a `pyarrow.dataset.Dataset`, which DuckDB can query by the name of its
        variable."""
        from logdex.frames.dataset import LogDataset

        return LogDataset(self._table())

    def to_lazy_polars(self) -> Any:
        """Returns a `polars.LazyFrame`. Raises `EnvironmentProblem` without Polars."""
        from logdex.frames.polars_frames import lazy_frame

        return lazy_frame(self._table())

    def _table(self) -> _TellingTable:
        return _TellingTable(self)


def telling(items: Iterable[Item], scans: Sequence[Lossy]) -> Iterator[Item]:
    """Yields what was read, and warns behind it of what the scans could not read."""
    yield from items
    for scan in scans:
        for loss in scan.losses:
            warnings.warn(loss, IncompleteReadWarning, stacklevel=2)


class _TellingTable:
    """The table of a scan, which warns of what could not be read."""

    def __init__(self, scan: ScanFrames) -> None:
        self._scan = scan
        self.schema = self._of(ScanSource(scan)).schema

    def read(self, columns: Sequence[str], conditions: Conditions) -> Iterator[pa.RecordBatch]:
        """Yields batches."""
        source = ScanSource(self._scan)
        return telling(self._of(source).read(columns, conditions), source.scans)

    @staticmethod
    def _of(source: ScanSource) -> TimedTable:
        from logdex.frames.tables import TimedTable

        return TimedTable(source)


class _Read:
    """What is being read, as a table's source."""

    def __init__(self, reader: pa.RecordBatchReader) -> None:
        self.schema = reader.schema
        self._reader = reader

    def batches(self, columns: Sequence[str], conditions: Conditions) -> Iterator[pa.RecordBatch]:
        """Yields batches."""
        yield from self._reader


class ScanSource:
    """A scan as a table's source. `scans` are the scans that reads have made of it, which state how
    the log ended and what could not be read."""

    def __init__(self, scan: ScanFrames) -> None:
        self.schema = scan.schema
        self.scans: list[Any] = []
        self._scan = scan

    def batches(self, columns: Sequence[str], conditions: Conditions) -> Iterator[pa.RecordBatch]:
        """Yields batches."""
        narrower = self._scan.narrowed(conditions)
        if narrower is not None:
            self.scans.append(narrower)
            yield from narrower.arrow_reader(list(columns) or [self._scan.COUNTED_BY])
