"""`rocketmq_store` on a real Spark: rows, a user's schema, a look-up by key, a store that grows,
SQL."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from logdex.rocketmq import Message, MessageStore
from logdex.rocketmq.commit_log.log_end import EndKind
from logdex.rocketmq.snapshot.store_snapshot import StoreSnapshot
from tests.golden import rocketmq as golden

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def scanned(path: Path) -> tuple[list[dict[str, Any]], bool]:
    """The messages that the local reader gives, up to the first damage, and whether there is none.
    A last message that was only partly written is where a log ends, and no damage."""
    with StoreSnapshot(str(path)) as snapshot:
        scan = snapshot.scan()
        rows = scan.to_arrow().read_all().to_pylist()
        assert scan.end is not None
        return rows, scan.end.kind is not EndKind.CORRUPT


def rows_match(spark: SparkSession, path: Path, **options: str) -> int:
    local, is_clean = scanned(path)
    if not is_clean:
        with pytest.raises(Exception, match="goes on behind damage"):
            spark.read.format("rocketmq_store").load(str(path)).count()
        options |= {"mode": "DROPMALFORMED"}
    rows = spark.read.format("rocketmq_store").options(rawBody="true", **options).load(str(path)).collect()
    names = (("topic", "topic"), ("queueId", "queue_id"), ("queueOffset", "queue_offset"), ("msgId", "msg_id"))
    found = [[row[a] for a, _ in names] + [bytes(row.body)] for row in rows]
    expected = [[row[b] for _, b in names] + [row["body"]] for row in local]
    assert (found if is_clean else found[: len(expected)]) == expected
    return len(rows)


def test_rows(spark: SparkSession, golden_store: Callable[..., Path]) -> None:
    assert rows_match(spark, golden_store("tiny-broker"), maxPartitionBytes="4k") == 60


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::logdex.errors.IncompleteReadWarning")
@pytest.mark.parametrize("name", golden.NAMES)
def test_golden_stores(name: str, spark: SparkSession, golden_store: Callable[..., Path]) -> None:
    rows_match(spark, golden_store(name))


@pytest.mark.slow
def test_schema_key_and_view(spark: SparkSession, golden_store: Callable[..., Path]) -> None:
    path = str(golden_store("tiny-broker"))
    for mode in ("FAILFAST", "DROPMALFORMED"):
        schema = spark.read.format("rocketmq_store").option("mode", mode).load(path).schema
        assert [field.name for field in schema if field.nullable] == ["body", "tags", "uniqueKey"]
    few = spark.read.schema("topic string, queueOffset bigint").format("rocketmq_store").load(path)
    assert few.columns == ["topic", "queueOffset"]
    assert few.where("topic = 'Orders' and queueOffset >= 1").count() > 0
    found = spark.read.format("rocketmq_store").options(topic="Orders", key="order-0").load(path).collect()
    assert [row.uniqueKey for row in found if "order-0" in row["keys"]] == [row.uniqueKey for row in found] != []
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW m USING rocketmq_store OPTIONS (path '{path}')")
    assert spark.sql("SELECT count(*) FROM m WHERE tags = 'TagC'").first()[0] > 0  # type: ignore[index]
    with pytest.raises(Exception, match="did you mean topic"):
        spark.read.format("rocketmq_store").option("topik", "x").load(path)


@pytest.mark.slow
def test_a_store_that_grows(spark: SparkSession, tmp_path: Path) -> None:
    """All actions of a DataFrame see the store as it was when the DataFrame was made; with a
    schema, which lets Spark look later, as it was at the first action."""
    path = str(tmp_path / "store")
    with MessageStore.open(path) as store:
        store.put_message(Message(topic="t", body=b"x"))
        frame = spark.read.format("rocketmq_store").option("columns", "body").load(path)
        lazy = spark.read.schema("body binary").format("rocketmq_store").load(path)
        store.put_message(Message(topic="t", body=b"y"))
        assert [bytes(row.body) for row in frame.collect()] == [b"x"]
        assert lazy.count() == 2
        store.put_message(Message(topic="t", body=b"z"))
        assert [bytes(row.body) for row in lazy.collect()] == [b"x", b"y"]
        assert frame.count() == 1
