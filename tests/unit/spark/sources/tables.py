"""Reads a table of a source without Spark, for tests."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Iterable
from typing import Any

import pyarrow as pa
import pytest

from logdex.convert.columns.projection import Projection
from logdex.errors import UsageError
from logdex.frames.conditions import Condition, Conditions
from logdex.io.env import DEFAULT_ENV, Env
from logdex.spark.sources.arrow_batches import resized
from logdex.spark.sources.damage import FAILFAST, DamageLog
from logdex.spark.sources.stream_table import MARKS, LogStream, Offsets, StreamProgress
from logdex.spark.sources.table import LogTable, TablePlan

Row = dict[str, Any]


def plan_of(table: LogTable, *conditions: Condition, names: Iterable[str] = (), env: Env = DEFAULT_ENV) -> TablePlan:
    """The plan of a table that went through a pickle, as Spark's do."""
    copied: LogTable = pickle.loads(pickle.dumps(table))
    return copied.plan(Projection(table.columns, tuple(names) or table.names).reads, Conditions(conditions), env)


def rows_of(table: LogTable, *conditions: Condition, names: Iterable[str] = (), env: Env = DEFAULT_ENV) -> list[Row]:
    """The rows that a task per part gives, times as microseconds."""
    plan = plan_of(table, *conditions, names=names, env=env)
    return rows_of_plan(plan, Projection(table.columns, tuple(names) or table.names), table.read.mode, env)


def rows_between(stream: LogStream, start: Offsets, end: Offsets, env: Env = DEFAULT_ENV) -> list[Row]:
    """The rows of one batch of a stream."""
    copied: LogStream = pickle.loads(pickle.dumps(stream))
    projection = Projection(stream.columns, stream.names)
    plan = copied.plan(start, end, projection.reads, env)
    return rows_of_plan(plan, projection, stream.read.mode, env)


def batches_of(stream: LogStream, start: Offsets, env: Env = DEFAULT_ENV) -> list[list[Row]]:
    """The batches of a stream from `start` up to the end of the logs, as Trigger.AvailableNow makes
    them. Before each, the query is started again."""
    found: list[list[Row]] = []
    while True:
        progress = StreamProgress(pickle.loads(pickle.dumps(stream)), env)
        end = json.loads(json.dumps(progress.advance(start, stream.limits)))
        if end == start:
            return found
        found.append(rows_between(stream, start, end, env))
        start = end


def unmarked(offsets: Offsets) -> Offsets:
    """Offsets without what a stream knows the logs again by."""
    return {name: {part: value for part, value in each.items() if part != MARKS} for name, each in offsets.items()}


def rows_of_plan(plan: TablePlan, projection: Projection, mode: str, env: Env = DEFAULT_ENV) -> list[Row]:
    """The rows of a plan whose parts went through a pickle."""
    damage = DamageLog()
    for each in plan.damage:
        damage.note(each)
    found: list[Row] = []
    for part in pickle.loads(pickle.dumps(plan.parts)):
        read = part.batches(None if mode == FAILFAST else damage.note, env)
        for batch in resized(projection.convert(each, part.constants) for each in read):
            found += _plain(batch)
        found += [row for batch in damage.rows(projection.schema) for row in _plain(batch)]
    return found + [row for batch in damage.rows(projection.schema) for row in _plain(batch)]


def _plain(batch: pa.RecordBatch) -> list[Row]:
    batch.validate(full=True)
    columns = [column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column for column in batch.columns]
    rows: list[Row] = pa.RecordBatch.from_arrays(columns, names=batch.schema.names).to_pylist()
    return rows


def fitting(rows: Iterable[Row], *conditions: Condition) -> list[Row]:
    """The rows for which all conditions hold."""
    return [row for row in rows if all(_holds(each, row[each.column]) for each in conditions)]


def _holds(condition: Condition, value: object) -> bool:
    return value is not None and condition.holds(value)


def rows_and_bytes(make: Callable[[Env], LogTable], *conditions: Condition) -> tuple[list[Row], int]:
    """The rows of a table that `make` opens, and the bytes that opening, planning and reading it
    took from a remote file system. On a local disk files are mapped, and nothing counts which of
    their bytes are used."""
    env = Env()
    rows = rows_of(make(env), *conditions, env=env)
    assert env.counters.mapped_bytes == 0
    return rows, env.counters.read_bytes


def require_refused(stream: LogStream, start: Offsets, end: Offsets, told: str) -> None:
    """Asserts that a stream goes on from `end` as little as it reads from `start` to there, because
    its log is another one."""
    for act in (lambda: StreamProgress(stream).advance(end, stream.limits), lambda: rows_between(stream, start, end)):
        with pytest.raises(UsageError, match=told) as raised:
            act()
        assert "failOnDataLoss" in str(raised.value.hint)
