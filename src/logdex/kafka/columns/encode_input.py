"""Prepares a table of records for the encode kernel: checks it, slices it, takes buffer
addresses."""

from __future__ import annotations

from dataclasses import dataclass

from logdex.errors import UsageError
from logdex.frames.arrow import pa, pc
from logdex.kafka.batch.record import NO_TIMESTAMP
from logdex.kernels.kafka.record_encode import Records
from logdex.kernels.kafka.spans import Spans
from logdex.primitives.wrong_questions import require_names

SLICE_ROWS = 1 << 16
SLICE_BYTES = 8 << 20
"""The approximate size of a slice. Where a column has several chunks, a slice that spans them is
copied."""

_COLUMNS = ("key", "value", "timestamp_ms", "headers")
_NOTHING = Spans(0, 0, 0, 0)


def headers_type() -> pa.DataType:
    """Returns the type of a column of headers."""
    return pa.list_(pa.struct([("key", pa.binary()), ("value", pa.binary())]))


@dataclass(frozen=True, slots=True)
class RecordSlice:
    """Rows from `start` on. `records` has addresses in `table`, which must outlive it."""

    start: int
    records: Records
    table: pa.Table


def fill_columns(table: pa.Table | pa.RecordBatch, now_ms: int) -> pa.Table | pa.RecordBatch:
    """Replaces -1 and null in the column `timestamp_ms` by `now_ms`. Where that column or `key` is
    missing, all times are `now_ms`, or all keys null.

    A table with several columns `timestamp_ms` is returned unchanged, and nothing is added to one
    with unknown columns: one of them may be a misspelt name.
    """
    if set(table.schema.names) <= set(_COLUMNS):
        if "key" not in table.schema.names:
            table = table.append_column("key", pa.nulls(table.num_rows, pa.binary()))
        if "timestamp_ms" not in table.schema.names:
            table = table.append_column("timestamp_ms", pa.nulls(table.num_rows, pa.int64()))
    if table.schema.names.count("timestamp_ms") != 1:
        return table
    place = table.schema.get_field_index("timestamp_ms")
    times = table.column(place)
    if pa.types.is_null(times.type):
        times = times.cast(pa.int64())
    if times.type != pa.int64() or not (times.null_count or pc.min(times).as_py() == NO_TIMESTAMP):
        return table
    now = pa.scalar(now_ms, pa.int64())
    times = pc.fill_null(pc.if_else(pc.equal(times, NO_TIMESTAMP), now, times), now)
    return table.set_column(place, "timestamp_ms", times)


def check_table(table: pa.Table | pa.RecordBatch) -> pa.Table:
    """Returns a table of the columns to encode.

    Raises `UsageError` if one is missing, repeated or of another type.
    """
    if isinstance(table, pa.RecordBatch):
        table = pa.Table.from_batches([table])
    names = ["key", "value", "timestamp_ms"] + ["headers"] * ("headers" in table.column_names)
    for name in names:
        count = table.column_names.count(name)
        if not count:
            # Without unknown columns, `fill_columns` has added all but the value.
            require_names("column", table.column_names, _COLUMNS)
            raise UsageError(f"a column {name} is missing")
        if count > 1:
            raise UsageError(f"exactly one column {name} is needed, but there are {count}")
    times = table.schema.field("timestamp_ms").type
    if times != pa.int64():
        from logdex.frames.times import milliseconds_hint  # it needs PyArrow, which one record does not

        hint = milliseconds_hint(times)
        raise UsageError(f"column timestamp_ms is {times}, it must be int64", hint=hint)
    if table.column("timestamp_ms").null_count:
        raise UsageError("column timestamp_ms has nulls", hint="use -1 for none")
    least = pc.min(table.column("timestamp_ms")).as_py()
    if least is not None and least < NO_TIMESTAMP:
        raise UsageError(f"column timestamp_ms has {least}", hint="use -1 for none")
    return table.select(names)


def read_slice(table: pa.Table, start: int, factor: int) -> RecordSlice:
    """Returns a slice from row `start` on, with `factor` times the usual number of rows.

    Raises `UsageError` if a column cannot be converted.
    """
    rows_max = max(1, min(SLICE_ROWS, SLICE_BYTES * table.num_rows // (table.nbytes + 1))) * factor
    part = table.slice(start, rows_max)
    try:
        part = part.combine_chunks()
        while any(column.num_chunks > 1 for column in part.columns):  # a column exceeds what 32-bit offsets can address
            part = table.slice(start, part.num_rows // 2).combine_chunks()
        part = part.cast(_schema(part))
    except (pa.ArrowException, NotImplementedError) as error:
        raise _unfit(part, error) from error
    columns = {name: part.column(name).chunk(0) for name in part.column_names}
    timestamps = columns["timestamp_ms"]
    headers = _headers(columns["headers"]) if "headers" in columns else (_NOTHING,) * 3
    records = Records(
        part.num_rows,
        _address(timestamps.buffers()[1]) + 8 * timestamps.offset,
        spans_of(columns["key"]),
        spans_of(columns["value"]),
        *headers,
    )
    return RecordSlice(start, records, part)


def _unfit(part: pa.Table, error: Exception) -> UsageError:
    """Returns the error for a table of which a column cannot be converted, with its name."""
    for field in _schema(part):
        try:
            part.column(field.name).cast(field.type)
        except (pa.ArrowException, NotImplementedError) as reason:
            told = (
                f"the column {field.name} is {part.schema.field(field.name).type}, and must be {field.type}: {reason}"
            )
            return UsageError(told, hint="cast it before")
    return UsageError(f"the columns cannot be converted to binary: {error}")


def _schema(table: pa.Table) -> pa.Schema:
    types = {"key": pa.binary(), "value": pa.binary(), "timestamp_ms": pa.int64(), "headers": headers_type()}
    return pa.schema([(name, types[name]) for name in table.column_names])


def _headers(lists: pa.Array) -> tuple[Spans, Spans, Spans]:
    """The spans of the lists, keys and values. Raises `UsageError` for a null header or header
    key."""
    structs = lists.values
    keys, values = structs.field("key"), structs.field("value")
    if structs.null_count or keys.null_count:
        raise UsageError("column headers: a header, or its key, is null", hint="only a header's value may be null")
    if not len(structs):
        return (_NOTHING,) * 3
    return spans_of(lists), spans_of(keys), spans_of(values)


def spans_of(array: pa.Array) -> Spans:
    """The addresses of a binary array's offsets, bytes and validity; a list array has no bytes.

    The array must outlive the result.
    """
    validity, offsets, *data = array.buffers()
    is_list = pa.types.is_list(array.type)
    return Spans(
        _address(offsets) + 4 * array.offset,
        0 if is_list else _address(data[0]),
        _address(validity) if array.null_count else 0,
        array.offset,
    )


def _address(buffer: pa.Buffer | None) -> int:
    return 0 if buffer is None else int(buffer.address)
