"""The columns that are said to have no nulls: Spark does not look for nulls there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow as pa
import pytest

import logdex
from logdex.convert.columns import kafka, rocketmq
from logdex.convert.columns.projection import Projection, SourceColumn
from logdex.spark.sources.damage import PERMISSIVE
from logdex.spark.sources.options import Options
from logdex.spark.sources.table import ReadOptions
from tests.golden import kafka as golden_kafka
from tests.golden import rocketmq as golden

TINY = "tiny-broker"


def require_no_nulls(batches: Sequence[pa.RecordBatch], columns: Sequence[SourceColumn]) -> None:
    made = [column for column in columns if column.make is not None]
    projection = Projection(made, [column.name for column in made])
    for batch in batches:
        converted = projection.convert(batch, {})
        found = {column.name: converted.column(column.name).null_count for column in made if not column.nullable}
        assert not any(found.values()), found


def cases(names: Sequence[str]) -> list[object]:
    return [name if name == TINY else pytest.param(name, marks=pytest.mark.slow) for name in names]


@pytest.mark.filterwarnings("ignore::logdex.errors.IncompleteReadWarning")
@pytest.mark.parametrize("name", cases(golden.NAMES))
def test_messages(name: str, golden_store: Callable[..., Path]) -> None:
    with logdex.open_store(golden_store(name)) as store:
        require_no_nulls(store.scan().to_arrow().read_all().to_batches(), rocketmq.COLUMNS)


@pytest.mark.filterwarnings("ignore::logdex.errors.IncompleteReadWarning")
@pytest.mark.parametrize("name", cases(golden_kafka.NAMES))
def test_records(name: str, golden_log: Callable[[str], Path]) -> None:
    with logdex.open_log_dir(golden_log(name)) as logs:
        require_no_nulls(logs.scan().to_arrow().read_all().to_batches(), kafka.COLUMNS)


def test_a_row_about_damage_is_null_in_all_other_columns() -> None:
    permissive = ReadOptions.of(Options("kafka_log", {"mode": PERMISSIVE}, ("mode",)))
    assert all(column.nullable for column in permissive.available(kafka.COLUMNS))
    failing = ReadOptions.of(Options("kafka_log", {}, ()))
    nullable = {column.name for column in failing.available(kafka.COLUMNS) if column.nullable}
    assert nullable == {"key", "value", "headers"}
