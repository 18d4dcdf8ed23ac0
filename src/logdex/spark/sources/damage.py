"""What a source does with damaged bytes: the modes of Spark's own file sources, and the column
`_corrupt` that tells of damage."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from logdex.convert.columns.projection import SourceColumn
from logdex.errors import CorruptError

FAILFAST, PERMISSIVE, DROPMALFORMED = "FAILFAST", "PERMISSIVE", "DROPMALFORMED"
MODES = (FAILFAST, PERMISSIVE, DROPMALFORMED)
"""Fail at damage, which is the default; one row with only `_corrupt` per damage; no row for it."""
_HINT = "option mode=PERMISSIVE or DROPMALFORMED goes on behind damage"

CORRUPT = "_corrupt"
CORRUPT_TYPE = pa.struct([("file", pa.string()), ("begin", pa.int64()), ("end", pa.int64()), ("reason", pa.string())])
"""The bytes [begin, end) of a file. `end` is null where it is not known how far the damage goes."""


def with_hint(error: CorruptError) -> CorruptError:
    """Returns the error with a hint: the option that reads on behind the damage."""
    if _HINT not in (error.hint or ""):
        error.hint = f"{error.hint}; {_HINT}" if error.hint else _HINT
    return error


def _nulls(batch: pa.RecordBatch) -> pa.Array:
    return pa.nulls(len(batch), CORRUPT_TYPE)


CORRUPT_COLUMN = SourceColumn(CORRUPT, CORRUPT_TYPE, (), _nulls, nullable=True)
"""The column is null in every row with data."""


class DamageLog:
    """Collects the damage that one read met, and makes its rows. `noted` counts all of it."""

    def __init__(self) -> None:
        self.noted = 0
        self._waiting: list[CorruptError] = []

    def note(self, error: CorruptError) -> None:
        """Takes an error in place of raising it."""
        self.noted += 1
        self._waiting.append(error)

    def rows(self, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """Yields one row per damage since the last call, with nulls in all columns but `_corrupt`.
        Without that column there are no rows."""
        waiting, self._waiting = self._waiting, []
        if not waiting or CORRUPT not in map(str.lower, schema.names):
            return
        told = [
            {"file": each.path, "begin": each.position, "end": each.end_position, "reason": each.description}
            for each in waiting
        ]
        arrays = [
            pa.array(told, field.type) if field.name.lower() == CORRUPT else pa.nulls(len(told), field.type)
            for field in schema
        ]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)
