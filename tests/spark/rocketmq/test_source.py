"""`rocketmq_store` on a real Spark: rows, a user's schema, a look-up by key, a store that grows,
SQL."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from logdex.layout.rocketmq import SYS_FLAG_COMPRESSED
from logdex.rocketmq import Message, MessageStore
from tests.golden import rocketmq as golden
from tests.unit.spark.sources.rocketmq.local_rows import comparable, local_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def rows_match(spark: SparkSession, path: Path, *, raw_bodies: bool = True, **options: str) -> int:
    """Row for row and column for column what the local reader gives. Where there is damage, the
    rows behind it are there as the mode says."""
    expected, is_clean = local_rows(path, raw_bodies=raw_bodies)
    given = {"rawBody": str(raw_bodies), **options}

    def rows(**mode: str) -> list[dict[str, Any]]:
        frame = spark.read.format("rocketmq_store").options(**given, **mode).load(str(path))
        names = ("bornTimestamp", "storeTimestamp")
        micros = [f"unix_micros({name}) AS {name}" for name in names]
        found = frame.selectExpr(f"* EXCEPT ({', '.join(names)})", *micros)
        return found.toArrow().to_pylist()  # type: ignore[no-any-return]

    if is_clean:
        assert comparable(rows()) == expected
        return len(expected)
    with pytest.raises(Exception, match="goes on behind damage"):
        rows()
    found = rows(mode="PERMISSIVE")
    corrupt = [row.pop("_corrupt") for row in found]
    whole = [row for row, damage in zip(found, corrupt, strict=True) if damage is None]
    behind = [int(Path(each["file"]).name) + each["end"] for each in corrupt if each is not None]
    assert behind
    expected, is_clean = local_rows(path, behind, raw_bodies=raw_bodies)
    assert is_clean
    assert comparable(whole) == expected
    assert comparable(rows(mode="DROPMALFORMED")) == expected
    return len(expected)


def test_rows(spark: SparkSession, golden_store: Callable[..., Path]) -> None:
    assert rows_match(spark, golden_store("tiny-broker"), maxPartitionBytes="4k") == 60


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::logdex.errors.IncompleteReadWarning")
@pytest.mark.parametrize("name", golden.NAMES)
def test_golden_stores(name: str, spark: SparkSession, golden_store: Callable[..., Path]) -> None:
    path = golden_store(name)
    rows_match(spark, path)
    if any(message["sysFlag"] & SYS_FLAG_COMPRESSED for message in golden.manifest(name)["messages"]):
        rows_match(spark, path, raw_bodies=False)


@pytest.mark.slow
def test_rows_behind_damage(spark: SparkSession, golden_copy: Callable[..., Path]) -> None:
    """The golden stores have damage in their last message only."""
    path = golden_copy("tiny-5.5.0")
    before, _ = local_rows(path)
    harmed = next(row for row in before[100:] if row["body"])
    file = max(each for each in (path / "commitlog").iterdir() if int(each.name) <= harmed["physicalOffset"])
    data = file.read_bytes()
    at = data.index(harmed["body"], harmed["physicalOffset"] - int(file.name))
    file.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
    assert rows_match(spark, path) == len(before) - 1


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
