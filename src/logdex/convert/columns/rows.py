"""What the sinks of both formats do with the columns of a DataFrame."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import pyarrow as pa
import pyarrow.compute as pc

from logdex.convert.columns.type_names import is_bytes, type_name
from logdex.errors import UsageError
from logdex.primitives.wrong_questions import nearest


def require_columns(names: Collection[str], taken: Collection[str], ignored: Collection[str]) -> None:
    """Raises `UsageError` for a column that a sink neither takes nor knows from reading."""
    known = {name.lower(): name for name in (*taken, *ignored)}
    for name in names:
        if name not in known.values():
            raise UsageError(f"the sink has no column {name!r}", hint=nearest(name, known, taken))


def typed(batch: pa.RecordBatch, name: str, kinds: Mapping[str, pa.DataType]) -> pa.Array | None:
    """Returns a column as the type of its name, None if there is none. Raises `UsageError` if it
    cannot be that."""
    if name not in batch.schema.names:
        return None
    column = batch.column(name)
    try:
        return column if column.type.equals(kinds[name]) else column.cast(kinds[name])
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        # Spark casts little else than text to binary; text is taken as the bytes of its UTF-8
        kind = "string" if is_bytes(kinds[name]) else type_name(kinds[name])
        raise UsageError(
            f"the column {name} is {type_name(column.type)}: {error}", hint=f"cast it to {kind}"
        ) from error


def times_ms(batch: pa.RecordBatch, name: str, now_ms: int) -> pa.Array:
    """Returns a column of timestamps in milliseconds; the present time where it is null or there is
    no such column."""
    if name not in batch.schema.names:
        return pa.repeat(pa.scalar(now_ms, pa.int64()), len(batch))
    column = batch.column(name)
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("ms", tz=column.type.tz), safe=False)
    elif not pa.types.is_integer(column.type):
        hint = "make it a timestamp, or milliseconds as a number"
        raise UsageError(f"the column {name} is {type_name(column.type)}", hint=hint)
    return pc.fill_null(column.cast(pa.int64()), now_ms)


def require_topic(names: Collection[str], otherwise: str | None) -> None:
    """Raises `UsageError` for rows that have no column of topics, unless an option names one."""
    if otherwise is None and "topic" not in names:
        raise UsageError("a column topic is missing", hint="add a column topic without nulls, or the option topic")


def topics_of(batch: pa.RecordBatch, otherwise: str | None) -> pa.Array:
    """Returns the topic of each row: that of the option, else of the column. Raises `UsageError`
    for a row without."""
    if otherwise is not None:
        return pa.repeat(pa.scalar(otherwise, pa.string()), len(batch))
    topics = typed(batch, "topic", {"topic": pa.string()})
    if topics is None or topics.null_count:
        raise UsageError("a row has no topic", hint="add a column topic without nulls, or the option topic")
    return topics
