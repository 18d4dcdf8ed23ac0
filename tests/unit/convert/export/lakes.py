"""What an export wrote, read back."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq

from logdex.convert.columns.projection import Projection
from logdex.convert.columns.table_form import FORMS
from logdex.convert.sources.source import LogSource

Row = dict[str, Any]


def parquet_files(output: Path) -> list[str]:
    return sorted(str(path.relative_to(output)) for path in output.rglob("*.parquet"))


def exported(output: Path) -> list[Row]:
    """All rows, with the topic and the day that their folder names state."""
    rows = []
    for name in parquet_files(output):
        topic, day, _ = name.split("/")
        place = {"topic": unquote(topic.removeprefix("topic=")), "day": day.removeprefix("day=")}
        rows += [place | row for row in plain(pq.ParquetFile(output / name).read())]
    return sorted(rows, key=order)


def plain(table: pa.Table) -> list[Row]:
    """The rows, with times as microseconds."""
    kinds = [pa.int64() if pa.types.is_timestamp(field.type) else field.type for field in table.schema]
    names = [pa.field(field.name, kind) for field, kind in zip(table.schema, kinds, strict=True)]
    rows: list[Row] = table.cast(pa.schema(names)).to_pylist()
    return rows


def order(row: Row) -> tuple[Any, ...]:
    names = ("topic", *FORMS["kafka" if "partition" in row else "rocketmq"].order)
    return tuple(row[name] for name in names)


def rows_of(source: LogSource) -> list[Row]:
    """The rows of the source itself."""
    form = FORMS[source.format]
    projection = Projection(form.columns, ("topic", *form.names) if "topic" not in form.names else form.names)
    plan = source.plan(tuple(dict.fromkeys((form.topic, *projection.reads))), {}, 1 << 30)
    losses: list[str] = []
    batches = [projection.convert(batch, {}) for part in plan.parts for batch in part.batches(losses.append)]
    return sorted(plain(pa.Table.from_batches(batches, projection.schema)), key=order)


def without_day(rows: list[Row]) -> list[Row]:
    return [{name: value for name, value in row.items() if name != "day"} for row in rows]
