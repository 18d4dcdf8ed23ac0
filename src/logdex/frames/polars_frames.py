"""Tables as frames of Polars."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from logdex.frames.conditions import Conditions
from logdex.frames.extras import require
from logdex.frames.polars_filters import conditions_of
from logdex.frames.tables import LazyTable


def data_frame(reader: pa.RecordBatchReader) -> Any:
    """Returns all rows of a reader as a `polars.DataFrame`."""
    return require("polars").from_arrow(_without_dictionaries(reader.read_all()))


def lazy_frame(table: LazyTable) -> Any:
    """Returns a table as a `polars.LazyFrame`, which reads the columns and the parts of the log
    that a query needs."""
    pl = require("polars")
    names = table.schema.names

    def read(
        with_columns: list[str] | None, predicate: Any, n_rows: int | None, batch_size: int | None
    ) -> Iterator[Any]:
        """Yields frames. Polars counts `n_rows` before it filters."""
        chosen = names if with_columns is None else with_columns
        used = set() if predicate is None else set(predicate.meta.root_names())
        needed = [name for name in names if name in used or name in chosen]
        left = n_rows
        for batch in table.read(needed, conditions_of(predicate) if n_rows is None else Conditions()):
            frame = pl.from_arrow(_without_dictionaries(batch.slice(0, left)))
            left = None if left is None else left - len(frame)
            yield (frame if predicate is None else frame.filter(predicate)).select(chosen)
            if left == 0:
                return

    empty = pl.from_arrow(_without_dictionaries(table.schema.empty_table()))
    return pl.io.plugins.register_io_source(read, schema=empty.schema)


def _without_dictionaries(rows: Any) -> Any:
    """Returns rows with plain columns: the categories of Polars compare otherwise than texts."""
    for place, field in enumerate(rows.schema):
        if pa.types.is_dictionary(field.type):
            rows = rows.set_column(place, field.name, rows.column(place).cast(field.type.value_type))
    return rows
