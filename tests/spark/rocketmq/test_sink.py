"""The sinks on a real Spark: a batch write, a stream from a store into a log directory,
restarts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from logdex.kafka.snapshot.log_dir_snapshot import LogDirSnapshot
from logdex.rocketmq import Message, MessageStore
from logdex.rocketmq.snapshot.store_snapshot import StoreSnapshot

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_batch_writes(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "store")
    rows = spark.range(100).selectExpr("'t' AS topic", "CAST(id AS STRING) AS body", "concat('k-', id) AS keys")
    for _ in range(2):
        rows.repartition(3).write.format("rocketmq_store").mode("append").save(path)
    with StoreSnapshot(path) as snapshot:
        assert sorted(int(message.body) for message in snapshot.scan()) == sorted([*range(100)] * 2)
        assert len(snapshot.query_message("t", "k-7").messages) == 2
    with pytest.raises(Exception, match="cannot overwrite a log"):
        rows.write.format("rocketmq_store").mode("overwrite").save(path)
    with MessageStore.open(path), pytest.raises(Exception, match="another process has it open"):
        rows.write.format("rocketmq_store").mode("append").save(path)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_stream_from_a_store_into_a_log_directory(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "store")
    source = spark.readStream.format("rocketmq_store").options(startingOffsets="earliest", maxOffsetsPerTrigger="40")
    expected: list[int] = []
    with MessageStore.open(path) as store:
        for _ in range(2):
            for _ in range(60):
                store.put_message(Message(topic="t", body=b"%d" % len(expected), keys=(f"k-{len(expected)}",)))
                expected.append(len(expected))
            frame = source.load(path).selectExpr(
                "topic", "uniqueKey AS key", "body AS value", "bornTimestamp AS timestamp"
            )
            query = frame.writeStream.format("kafka_log").option("checkpointLocation", str(tmp_path / "checkpoint"))
            running = query.option("partitions", "2").trigger(availableNow=True).start(str(tmp_path / "logs"))
            assert running.awaitTermination(250)
            with LogDirSnapshot(tmp_path / "logs") as snapshot:
                assert sorted(int(record.value or b"") for record in snapshot.scan()) == expected
