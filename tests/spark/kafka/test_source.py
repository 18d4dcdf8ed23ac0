"""`kafka_log` on a real Spark: rows, filters that are pushed down, with and without Spark's setting
for it, errors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import logdex
import logdex.spark
from logdex.kafka.read.log_read import READ_COMMITTED, READ_UNCOMMITTED
from logdex.spark.sources import PUSHDOWN
from logdex.spark.sources.kafka.table import LogDirTable
from tests.golden import kafka as golden
from tests.unit.spark.sources.kafka.local_rows import local_rows, options_of
from tests.unit.spark.sources.tables import rows_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def expected(path: Path) -> Counter[tuple[str, int, int, bytes | None]]:
    with logdex.open(path) as snapshot:
        rows = snapshot.scan(isolation="read_uncommitted").to_arrow().read_all().to_pylist()  # type: ignore[call-arg]
    return Counter((row["topic"], row["partition"], row["offset"], row["value"]) for row in rows)


@pytest.mark.slow
@pytest.mark.usefixtures("pushdown")
def test_rows_and_filters(
    spark: SparkSession, golden_log: Callable[[str], Path], capfd: pytest.CaptureFixture[str]
) -> None:
    path = golden_log("tiny-broker")
    local = expected(path)
    frame = spark.read.format("kafka_log").option("includeHeaders", "true").load(str(path))
    assert frame.columns[:8] == [
        "key",
        "value",
        "topic",
        "partition",
        "offset",
        "timestamp",
        "timestampType",
        "headers",
    ]
    rows = frame.collect()
    found = Counter((row.topic, row.partition, row.offset, row.value and bytes(row.value)) for row in rows)
    assert found == Counter({each: n for each, n in local.items() if not each[0].startswith("__")})
    kept = frame.where("topic = 'orders' and offset between 3 and 9 and timestamp > '2000-01-01' and length(value) > 0")
    assert sorted((row.partition, row.offset) for row in kept.collect()) == sorted(
        (row.partition, row.offset) for row in rows if row.topic == "orders" and 3 <= row.offset <= 9
    )
    kept.explain()
    plan = capfd.readouterr().out
    assert "length(value" in plan
    assert "offset" not in plan.split("Filter", 1)[1].splitlines()[0], (
        "Spark does not check again what the read applies"
    )


@pytest.mark.slow
@pytest.mark.parametrize("isolation", [READ_UNCOMMITTED, READ_COMMITTED])
@pytest.mark.parametrize("name", golden.NAMES)
def test_golden_directories(name: str, isolation: str, spark: SparkSession, golden_log: Callable[[str], Path]) -> None:
    """Row for row and column for column what the local reader gives."""
    path = golden_log(name)
    local, topics, is_damaged = local_rows(path, isolation)
    options = options_of(path, isolation, topics, is_damaged=is_damaged) | {"maxPartitionBytes": "64k"}
    if is_damaged:
        with pytest.raises(Exception, match=r"byte \d+: "):
            spark.read.format("kafka_log").options(**options | {"mode": "FAILFAST"}).load().count()
    frame = spark.read.format("kafka_log").options(**options).load()
    found = frame.selectExpr("* EXCEPT (timestamp)", "unix_micros(timestamp) AS timestamp").toArrow().to_pylist()
    assert found == local != []


def test_batches_as_they_are_stored(spark: SparkSession, golden_log: Callable[[str], Path]) -> None:
    path = str(golden_log("tiny-broker"))
    frame = spark.read.format("kafka_log").option("rawBatches", "true").load(path)
    rows = frame.drop("baseTimestamp", "maxTimestamp").toArrow().to_pylist()
    names = frame.drop("baseTimestamp", "maxTimestamp").columns
    assert rows == rows_of(LogDirTable({"path": path, "rawBatches": "true"}), names=names) != []
    assert frame.where("topic = 'orders'").count() == sum(row["topic"] == "orders" for row in rows)


@pytest.mark.parametrize("asked", [True, False])
def test_registering_turns_pushdown_on_where_it_is_asked_to(spark: SparkSession, asked: bool) -> None:
    logdex.spark.register(spark, **({"filter_pushdown": True} if asked else {}))
    assert spark.conf.get(PUSHDOWN) == str(asked).lower()
    spark.conf.unset(PUSHDOWN)


def counts_of_topics(spark: SparkSession, path: str) -> list[int]:
    """The records of orders, of others, of both, and of both again, all of one DataFrame."""
    frame = spark.read.schema("topic string, offset bigint").format("kafka_log").load(path)
    orders, others = frame.where("topic = 'orders'"), frame.where("topic <> 'orders'")
    return [orders.count(), others.count(), frame.count(), orders.union(others).count()]


def test_filters_of_one_frame_leave_no_row_out_of_its_other_uses(
    spark: SparkSession, golden_log: Callable[[str], Path]
) -> None:
    logdex.spark.register(spark)
    orders, others, *both = counts_of_topics(spark, str(golden_log("tiny-broker")))
    assert both == [orders + others] * 2
    assert min(orders, others) > 0


@pytest.mark.slow
@pytest.mark.usefixtures("pushdown")
def test_spark_still_reads_by_the_last_filter_that_it_pushed(
    spark: SparkSession, golden_log: Callable[[str], Path]
) -> None:
    """The fault of Spark for which `register` does not turn pushdown on. Where this test fails, a
    newer Spark has mended it, and it can be turned on again."""
    orders, others, *both = counts_of_topics(spark, str(golden_log("tiny-broker")))
    assert both != [orders + others] * 2


@pytest.mark.slow
def test_damage_and_options(spark: SparkSession, golden_log: Callable[[str], Path]) -> None:
    path = str(golden_log("tiny-crash"))
    read = spark.read.format("kafka_log")
    with pytest.raises(Exception, match=r"byte \d+: the batch's bytes are not those that were written"):
        read.load(path).count()
    damaged = read.option("mode", "PERMISSIVE").load(path).where("_corrupt is not null").select("_corrupt.*").collect()
    assert [(row.begin, row.end) for row in damaged] == [(1087, 1214)]
    with pytest.raises(Exception, match="did you mean subscribe"):
        spark.read.format("kafka_log").option("subscribes", "orders").load(path)
