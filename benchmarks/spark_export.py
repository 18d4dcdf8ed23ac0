"""The export as Parquet beside Spark, which writes the same rows from its memory; and a look-up of
one key beside a scan for it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks import stores
from benchmarks.measure import Work, in_turns, remove
from logdex.convert.export import export
from logdex.convert.sources.rocketmq import StoreSource
from logdex.rocketmq.settings.store_config import StoreConfig
from logdex.rocketmq.snapshot.store_snapshot import StoreSnapshot

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Row = dict[str, Any]

EXPORT_BAR = 0.77
"""The export takes at most 1.3 times as long as Spark takes to write rows that it has in memory."""
LOOK_UP_BAR = 100.0
DRIVER_MEMORY = "8g"


def exporting(data: Path, repeats: int, name: str = "1k") -> Iterator[Row]:
    """The export with `--engine spark` on local[2], in turns with Spark's own writer. Both write
    Parquet with zstd, by topic and day; ours is sorted, with Bloom filters."""
    from logdex.spark.session import session
    from logdex.spark.tasks import runner_of

    root, output = stores.ensure(stores.SPECS[name], data), data / "lake"
    stores.read_in(root)
    with session("local[2]", app_name="logdex bench", conf={"spark.driver.memory": DRIVER_MEMORY}) as spark:
        rows = _in_memory(spark, root)

        def ours() -> None:
            report = export(StoreSource(str(root)), output, runner_of(spark), engine="spark", sync=False)
            assert report.messages == stores.SPECS[name].messages

        def theirs() -> None:
            writer = rows.write.mode("overwrite").option("compression", "zstd")
            writer.partitionBy("topic", "day").parquet(str(output))

        yield in_turns(
            f"export {name} on local[2] / Spark from memory", ours, theirs, repeats, EXPORT_BAR, partial(remove, output)
        )
        rows.unpersist()
    remove(output)


def _in_memory(spark: SparkSession, root: Path) -> DataFrame:
    """The rows of a store with the day of each, in Spark's memory."""
    from pyspark import StorageLevel

    import logdex.spark

    logdex.spark.register(spark)
    rows = spark.read.format("rocketmq_store").load(str(root))
    rows = rows.selectExpr("*", "to_date(storeTimestamp) AS day").persist(StorageLevel.MEMORY_ONLY)
    rows.count()
    return rows


def looking_up(data: Path, repeats: int, name: str = "8g") -> Iterator[Row]:
    """A key in the middle of a store, through the index and by a scan of the log: in Python, and
    with Spark's source."""
    import logdex.spark
    from logdex.spark.session import session

    root = stores.ensure(stores.SPECS[name], data)
    stores.read_in(root)
    with StoreSnapshot(str(root), config=StoreConfig()) as store:
        topic, queue_id, offset, key = _message_in_the_middle(store)

        def by_index() -> None:
            assert [each.queue_offset for each in store.query_message(topic, key).messages] == [offset]

        def by_scan() -> None:
            found = 0
            for batch in store.scan().to_arrow(["keys"]):
                found += _count(batch, key)
            assert found == 1

        yield in_turns(f"look up a key, {name}, Python", by_index, by_scan, repeats, LOOK_UP_BAR)
    with session("local[2]", app_name="logdex bench") as spark:
        logdex.spark.register(spark)
        reader = spark.read.format("rocketmq_store").option("topic", topic)
        where = f"array_contains(keys, '{key}')"

        def in_spark(frame: DataFrame) -> None:
            assert [row.queueId for row in frame.select("queueId").collect()] == [queue_id]

        through: Work = partial(in_spark, reader.option("key", key).load(str(root)))
        plain = spark.read.format("rocketmq_store").option("topic", topic).load(str(root)).where(where)
        yield in_turns(f"look up a key, {name}, local[2]", through, partial(in_spark, plain), repeats, LOOK_UP_BAR)


def _message_in_the_middle(store: StoreSnapshot) -> tuple[str, int, int, str]:
    """Topic, queue, queue offset and key of a message in the middle of a queue."""
    queue = next(each for each in store.queues() if each.topic.startswith(b"Bench"))
    offset = (queue.min_offset + queue.max_offset) // 2
    message = store.get_message(queue.topic, queue_id=queue.queue_id, offset=offset, max_count=1).messages[0]
    return queue.topic.decode(), queue.queue_id, offset, message.keys[0].decode()


def _count(batch: Any, key: str) -> int:
    import pyarrow.compute as pc

    return int(pc.sum(pc.equal(batch.column("keys").flatten(), key)).as_py() or 0)
