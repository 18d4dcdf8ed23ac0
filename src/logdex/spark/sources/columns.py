"""The columns of a source: which columns of the format's read each is made of, and how.

A batch is converted as a whole, by Arrow's functions. Spark accepts exactly one Arrow type per
column (``timestamp[us, tz=UTC]``, no dictionary), so each conversion ends with that type.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from logdex.errors import UsageError
from logdex.spark.sources.options import nearest

TIMESTAMP = pa.timestamp("us", tz="UTC")
_MS_MAX = ((1 << 63) - 1) // 1000

BATCH_ROWS_MAX = 1 << 16
BATCH_BYTES_MAX = 4 << 20
BATCH_BYTES_MIN = 1 << 20
"""Spark is fastest with batches of this size: with fewer bytes the cost of a batch counts, with more
they leave the processor's cache."""


@dataclass(frozen=True, slots=True)
class SourceColumn:
    """A column as Spark sees it. `reads` are the columns of the format that `make` needs; a column
    that reads nothing has one value for all rows of a split, the constant of its name."""

    name: str
    kind: pa.DataType
    reads: tuple[str, ...] = ()
    make: Callable[[pa.RecordBatch], pa.Array] | None = None


def same(name: str, read: str, kind: pa.DataType) -> SourceColumn:
    """Returns a column that is one column of the format, cast to Spark's type."""
    return SourceColumn(name, kind, (read,), lambda batch: as_type(batch.column(read), kind))


def timestamp(name: str, read: str) -> SourceColumn:
    """Returns a column that is a time in milliseconds of the format."""
    return SourceColumn(name, TIMESTAMP, (read,), lambda batch: timestamps(batch.column(read)))


def as_type(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """Returns an array with exactly the type `kind`."""
    return array if array.type.equals(kind) else array.cast(kind)


def timestamps(times_ms: pa.Array) -> pa.Array:
    """Returns milliseconds as Spark's timestamps. Times beyond what these can hold (a producer may
    state any number) become the first or the last of them."""
    clipped = np.clip(times_ms.to_numpy(zero_copy_only=False), -_MS_MAX, _MS_MAX)
    return pa.array(clipped * 1000).view(TIMESTAMP)


class Projection:
    """The conversion of a format's batches to the columns `names`, of those that there are. `schema`
    is the exact Arrow schema that Spark expects; None: every column may be null.

    Raises `UsageError` for an unknown name, a name that is given twice, and a type in `schema` that
    is not the column's.
    """

    def __init__(self, columns: Sequence[SourceColumn], names: Sequence[str], schema: pa.Schema | None = None) -> None:
        by_name = {column.name: column for column in columns}
        by_lower = {name.lower(): name for name in by_name}
        for name in names:
            if name not in by_name:
                raise UsageError(f"there is no column {name!r}", hint=nearest(name, by_lower, by_name))
        if len(set(names)) < len(names) or not names:
            raise UsageError(f"the columns are {', '.join(names) or 'none'}", hint="name columns, each once")
        self.columns = [by_name[name] for name in names]
        self.reads = tuple(dict.fromkeys(read for column in self.columns for read in column.reads))
        self.schema = schema or pa.schema([(column.name, column.kind) for column in self.columns])
        for column, field in zip(self.columns, self.schema, strict=True):
            if not _is_same_type(column.kind, field.type):
                raise UsageError(f"the column {column.name} is {column.kind}, not {field.type}", hint="cast it later")

    def convert(self, batch: pa.RecordBatch, constants: Mapping[str, str]) -> pa.RecordBatch:
        """Returns a batch of the format as a batch for Spark."""
        arrays = [
            pa.repeat(pa.scalar(constants[column.name], column.kind), len(batch))
            if column.make is None
            else column.make(batch)
            for column in self.columns
        ]
        made = [as_type(array, field.type) for array, field in zip(arrays, self.schema, strict=True)]
        return pa.RecordBatch.from_arrays(made, schema=self.schema)


def _is_same_type(ours: pa.DataType, theirs: pa.DataType) -> bool:
    """Whether two types are the same but for which values in them may be null, and the names that
    Arrow gives to the items of a list."""
    if ours.num_fields != theirs.num_fields or ours.id != theirs.id:
        return False
    if not ours.num_fields:
        return bool(ours.equals(theirs))
    pairs = [(ours.field(place), theirs.field(place)) for place in range(ours.num_fields)]
    names_matter = pa.types.is_struct(ours)
    return all((a.name == b.name or not names_matter) and _is_same_type(a.type, b.type) for a, b in pairs)


def resized(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yields the rows of `batches` in batches of `BATCH_BYTES_MIN` to `BATCH_BYTES_MAX` bytes and at
    most `BATCH_ROWS_MAX` rows. Only the last may have fewer bytes, and only a single row more."""
    waiting: list[pa.RecordBatch] = []
    rows = size_bytes = 0
    try:
        for whole in batches:
            for batch in _cut(whole):
                if rows + len(batch) > BATCH_ROWS_MAX or size_bytes + batch.nbytes > BATCH_BYTES_MAX:
                    yield from _joined(waiting)
                    waiting, rows, size_bytes = [], 0, 0
                waiting.append(batch)
                rows, size_bytes = rows + len(batch), size_bytes + batch.nbytes
                if size_bytes >= BATCH_BYTES_MIN:
                    yield from _joined(waiting)
                    waiting, rows, size_bytes = [], 0, 0
    except Exception:
        yield from _joined(waiting)
        raise
    yield from _joined(waiting)


def _cut(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    if len(batch) > 1 and (batch.nbytes > BATCH_BYTES_MAX or len(batch) > BATCH_ROWS_MAX):
        middle = len(batch) // 2
        yield from _cut(batch.slice(0, middle))
        yield from _cut(batch.slice(middle))
    elif len(batch):
        yield batch


def _joined(batches: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    if len(batches) < 2:
        return batches
    joined: list[pa.RecordBatch] = pa.Table.from_batches(batches).combine_chunks().to_batches()
    return joined
