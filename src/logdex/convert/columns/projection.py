"""The columns that a log has as a table, for Spark and for Parquet: which columns of the format's
read each is made of, and how.

A batch is converted as a whole, by Arrow's functions. Spark accepts exactly one Arrow type per
column (``timestamp[us, tz=UTC]``, no dictionary), so each conversion ends with that type.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from logdex.convert.columns.type_names import type_name
from logdex.errors import UsageError
from logdex.frames.conditions import Conditions, in_milliseconds
from logdex.frames.times import TIMESTAMP, timestamps
from logdex.primitives.wrong_questions import nearest


@dataclass(frozen=True, slots=True)
class SourceColumn:
    """A column of the table. `reads` are the columns of the format that `make` needs; a column
    that reads nothing has one value for all rows of a split, the constant of its name. `is_same`
    states whether it has the values of the one column that it reads, or the same times. `nullable`
    states whether there are rows without a value."""

    name: str
    kind: pa.DataType
    reads: tuple[str, ...] = ()
    make: Callable[[pa.RecordBatch], pa.Array] | None = None
    is_same: bool = False
    nullable: bool = False


def same(name: str, read: str, kind: pa.DataType, *, nullable: bool = False) -> SourceColumn:
    """Returns a column that is one column of the format, cast to the table's type."""
    return SourceColumn(name, kind, (read,), lambda batch: as_type(batch.column(read), kind), True, nullable)


def timestamp(name: str, read: str) -> SourceColumn:
    """Returns a column that is a time in milliseconds of the format."""
    return SourceColumn(name, TIMESTAMP, (read,), lambda batch: timestamps(batch.column(read)), True)


def of_format(columns: Iterable[SourceColumn], conditions: Conditions) -> Conditions:
    """Returns the conditions for columns that are one of the format's, by its name and in its
    unit."""
    by_name = {column.name: column for column in columns if column.is_same}
    found = []
    for each in conditions.all:
        column = by_name.get(each.column)
        if column is not None:
            read = column.reads[0]
            found.append(in_milliseconds(each, read) if column.kind == TIMESTAMP else replace(each, column=read))
    return Conditions(tuple(found))


def as_type(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """Returns an array with exactly the type `kind`."""
    return array if array.type.equals(kind) else array.cast(kind)


class Projection:
    """The conversion of a format's batches to the columns `names`, of those that there are,
    whatever their case. `schema` is the exact Arrow schema that is asked for; None: every column
    may be null.

    Raises `UsageError` for an unknown name, a name that is given twice, and a type in `schema` that
    is not the column's, or that has no nulls though the column has.
    """

    def __init__(self, columns: Sequence[SourceColumn], names: Sequence[str], schema: pa.Schema | None = None) -> None:
        by_lower = {column.name.lower(): column for column in columns}
        for name in names:
            if name.lower() not in by_lower:
                known = {lower: column.name for lower, column in by_lower.items()}
                raise UsageError(f"there is no column {name!r}", hint=nearest(name, known, known.values()))
        self.columns = [by_lower[name.lower()] for name in names]
        self.known_names = {name: column.name for name, column in zip(names, self.columns, strict=True)}
        """The columns' own names by those that are asked for."""
        if len({column.name for column in self.columns}) < len(names) or not names:
            raise UsageError(f"the columns are {', '.join(names) or 'none'}", hint="name columns, each once")
        self.reads = tuple(dict.fromkeys(read for column in self.columns for read in column.reads))
        self.schema = schema or pa.schema([(column.name, column.kind) for column in self.columns])
        for column, field in zip(self.columns, self.schema, strict=True):
            if not _is_same_type(column.kind, field.type):
                ours, theirs = type_name(column.kind), type_name(field.type)
                raise UsageError(f"the column {column.name} is {ours}, not {theirs}", hint="cast it later")
            if column.nullable and not field.nullable:
                what = f"the column {column.name} may be null, and the schema says NOT NULL"
                raise UsageError(what, hint="leave that, or nullable=False, out of the schema")

    def convert(self, batch: pa.RecordBatch, constants: Mapping[str, str]) -> pa.RecordBatch:
        """Returns a batch of the format as a batch of the table."""
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
