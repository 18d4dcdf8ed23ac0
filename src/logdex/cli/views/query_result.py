"""The result of a query: as a table, as JSON lines, as CSV, or as a Parquet file."""

from __future__ import annotations

import base64
import csv
import json
import math
import sys
from collections.abc import Callable, Iterable, Iterator
from decimal import Decimal
from itertools import chain, count
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from logdex.cli.output import emit_json, human_time, note, shown, table
from logdex.cli.rows.printer import END_OF
from logdex.errors import LogdexError, UsageError
from logdex.io.env import DEFAULT_ENV
from logdex.primitives.shown import counted

if TYPE_CHECKING:
    from logdex.sql.session import SqlSession

_ROWS_AT_ONCE = 1_000
"""How many rows of a table are looked at to make its columns wide enough."""

_PLAN = ["explain_key", "explain_value"]
"""The columns of what EXPLAIN returns. Its values are drawings of several lines."""

_UNITS = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}


def print_result(session: SqlSession, query: str, form: str, parquet: str | None) -> int:
    """Prints the rows of a query as ``table``, ``json`` or ``csv``, or writes them to the file
    `parquet`. Returns the number of rows."""
    batches = session.batches(query)
    if parquet is not None:
        rows = _write_parquet(batches, parquet)
        note(f"{parquet}: {counted(rows, 'row')}")
        return rows
    counted_batches = _Counted(batches)
    {"table": _print_table, "json": _print_json, "csv": _print_csv}[form](iter(counted_batches))
    return counted_batches.rows


def tell_problems(problems: Iterable[str]) -> bool:
    """Prints what could not be read. Returns whether there was nothing."""
    found = [*dict.fromkeys(problems)]
    for problem in found:
        note(problem)
    return not found


def print_end_of_result(form: str, rows: int, *, is_complete: bool, problems: Iterable[str], **facts: Any) -> None:
    """Prints, behind rows as JSON, what programs need to know of the answer: whether all that it
    was made of could be read. In the lists of `facts` each thing is named once, even if the query
    has read the log several times."""
    if form == "json":
        for name, value in facts.items():
            if isinstance(value, list):
                facts[name] = [each for place, each in enumerate(value) if each not in value[:place]]
        told = {"count": rows, "is_complete": is_complete, "problems": [*dict.fromkeys(problems)]}
        emit_json({END_OF: "sql", **told, **facts})


class _Counted:
    """Batches, of which the `rows` are counted as they go by."""

    def __init__(self, batches: Iterator[pa.RecordBatch]) -> None:
        self._batches = batches
        self.rows = 0

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        for batch in self._batches:
            self.rows += len(batch)
            yield batch


def _print_json(batches: Iterator[pa.RecordBatch]) -> None:
    for batch in batches:
        names = _distinct(batch.schema.names)
        for row in zip(*_columns(batch, _json_bytes), strict=True):
            emit_json(dict(zip(names, row, strict=True)))


def _distinct(names: Iterable[str]) -> list[str]:
    """Returns names of columns of which none is there twice: the second ``x`` is ``x_1``."""
    found: dict[str, None] = {}
    for name in names:
        tries = (name if number == 0 else f"{name}_{number}" for number in count())
        found[next(each for each in tries if each not in found)] = None
    return list(found)


def _print_csv(batches: Iterator[pa.RecordBatch]) -> None:
    writer = csv.writer(sys.stdout, lineterminator="\n")
    for number, batch in enumerate(batches):
        if number == 0:
            writer.writerow(map(shown, batch.schema.names))
        for row in zip(*_columns(batch, shown), strict=True):
            writer.writerow(["" if value is None else shown(_text(value)) for value in row])


def _print_table(batches: Iterator[pa.RecordBatch]) -> None:
    waiting: list[tuple[str, ...]] = []
    numbers: list[int] = []
    for number, batch in enumerate(batches):
        if batch.schema.names == _PLAN:
            _print_plan(batch)
            continue
        numbers = [place for place, field in enumerate(batch.schema) if _is_number(field.type)]
        if number == 0:
            waiting = [tuple(name.upper() for name in batch.schema.names)]
        for row in zip(*_columns(batch, shown), strict=True):
            waiting.append(tuple("NULL" if value is None else _text(value) for value in row))
            if len(waiting) > _ROWS_AT_ONCE:
                table(waiting, right=numbers, indent="")
                waiting = []
    table(waiting, right=numbers, indent="")


def _print_plan(batch: pa.RecordBatch) -> None:
    for text in batch.column(1).to_pylist():
        for line in text.splitlines():
            print(shown(line))


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def _text(value: Any) -> str:
    if isinstance(value, list | dict):
        return json.dumps(value, ensure_ascii=False)
    return ("false", "true")[value] if isinstance(value, bool) else str(value)


def _json_bytes(value: bytes) -> str:
    return base64.b64encode(value).decode()


def _columns(batch: pa.RecordBatch, of_bytes: Callable[[bytes], str]) -> list[list[Any]]:
    """Returns the columns of a batch as values of JSON. `of_bytes` makes text of bytes."""
    return [[_plain(value, column.type, of_bytes) for value in _values(column)] for column in batch.columns]


def _values(column: pa.Array) -> list[Any]:
    """Returns the values of a column. Timestamps, which may be beyond Python's, are numbers."""
    plain = column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column
    values: list[Any] = plain.to_pylist()
    return values


def _plain(value: Any, kind: pa.DataType, of_bytes: Callable[[bytes], str]) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)  # JSON has no such numbers
    if isinstance(value, pa.MonthDayNano):
        return _interval(value)
    if value is None or isinstance(value, bool | int | float | str):
        return _time(value, kind) if pa.types.is_timestamp(kind) and isinstance(value, int) else value
    if isinstance(value, bytes):
        return of_bytes(value)
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if pa.types.is_map(kind):
        return {str(name): _plain(each, kind.item_type, of_bytes) for name, each in value}
    if isinstance(value, list):
        return [_plain(each, kind.value_type, of_bytes) for each in value]
    if isinstance(value, dict):
        return {name: _plain(each, kind.field(name).type, of_bytes) for name, each in value.items()}
    return str(value)


def _interval(value: pa.MonthDayNano) -> str:
    seconds, nanoseconds = divmod(value.nanoseconds, 1_000_000_000)
    clock = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{nanoseconds // 1_000_000:03}"
    parts = [counted(value.months, "month")] * bool(value.months) + [counted(value.days, "day")] * bool(value.days)
    return " ".join([*parts, clock])


def _time(value: int, kind: pa.DataType) -> str:
    text = human_time(value * 1_000 // _UNITS[kind.unit])
    return text if kind.tz is not None else text.removesuffix("Z")


def _require_parquet(schema: pa.Schema) -> None:
    for field in schema:
        if pa.types.is_interval(field.type):
            raise UsageError(f"Parquet has no intervals, as in {field.name}", hint="epoch(…) is one in seconds")


def _write_parquet(batches: Iterator[pa.RecordBatch], path: str) -> int:
    """Writes a new file, which has its name when it is whole. Returns the number of rows."""
    from logdex.convert.export.parquet_file import ParquetFile

    env, beside = DEFAULT_ENV, f"{path}.tmp"
    if env.exists(path):
        raise UsageError(f"{path} exists", hint="name a new file")
    first = next(batches, None)
    if first is None:
        raise UsageError("the statement has no result", hint="leave out --parquet")
    _require_parquet(first.schema)
    if env.exists(beside):
        env.remove(beside)  # a killed run has left it
    file = ParquetFile(beside, first.schema, order=(), keys=(), codec="snappy", rows_max=0, env=env, sync=False)
    try:
        for batch in chain([first], batches):
            if len(batch):
                file.write(pa.Table.from_batches([batch]))
        file.close()
        env.rename(beside, path)
    except BaseException:
        file.abandon()
        if env.exists(beside):
            try:
                env.remove(beside)
            except LogdexError:
                pass  # the first error is the one to raise
        raise
    return file.rows
