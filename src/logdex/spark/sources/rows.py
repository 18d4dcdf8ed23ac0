"""How a task reads its partition of a plan: what batch reads and streams share."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from logdex.convert.columns.projection import Projection
from logdex.errors import LogdexError
from logdex.jobs.tasks import group_parts
from logdex.spark.attempts import freeze_imports
from logdex.spark.sources.arrow_batches import resized
from logdex.spark.sources.damage import FAILFAST, DamageLog
from logdex.spark.sources.table import ReadOptions, TablePart, TablePlan, partition_bytes

LOGGER = logging.getLogger("logdex.spark")


def partitions_of(plan: TablePlan, read: ReadOptions) -> list[InputPartition]:
    """Returns Spark's partitions: parts that follow each other share one, up to its size. With
    maxRecordsPerPartition none do. Each damage that was found while planning has one."""
    groups: list[list[TablePart]] = [[part] for part in plan.parts]
    if read.partition_records is None:
        groups = group_parts(plan.parts, partition_bytes(read, plan.size_bytes))
    return [InputPartition(tuple(group)) for group in groups] + [InputPartition(each) for each in plan.damage]


def rows_of(given: object, projection: Projection, read: ReadOptions) -> Iterator[pa.RecordBatch]:
    """Yields the rows of the value of one partition."""
    freeze_imports()
    return resized(_batches(given, projection, read))


def _batches(given: object, projection: Projection, read: ReadOptions) -> Iterator[pa.RecordBatch]:
    damage = DamageLog()
    if isinstance(given, LogdexError):
        damage.note(given)  # type: ignore[arg-type]  # the plan has only errors of damage
    on_damage = None if read.mode == FAILFAST else damage.note
    parts: tuple[TablePart, ...] = given if isinstance(given, tuple) else ()
    env = read.env
    for part in parts:
        for batch in part.batches(on_damage, env):
            yield projection.convert(batch, part.constants)
            yield from damage.rows(projection.schema)
    yield from damage.rows(projection.schema)


def say(line: str) -> None:
    """Writes a line to Spark's log, which has what a Python process on the driver writes to
    stderr."""
    if not LOGGER.handlers:
        LOGGER.addHandler(logging.StreamHandler(sys.stderr))
        LOGGER.setLevel(logging.INFO)
        LOGGER.propagate = False
    LOGGER.info(line)
