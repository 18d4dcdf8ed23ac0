"""A stream of `rocketmq_store` on a real Spark: batches, limits, a store that is written meanwhile,
restarts."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from logdex.rocketmq import Message, MessageStore

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark


def run(frame: DataFrame, folder: Path) -> list[int]:
    """Reads what there is into Parquet below `folder`, and goes on there next time. Returns the
    rows of each batch."""
    out, checkpoint = str(folder / "out"), str(folder / "checkpoint")
    query = frame.writeStream.format("parquet").options(path=out, checkpointLocation=checkpoint)
    running = query.trigger(availableNow=True).start()
    assert running.awaitTermination(200)
    return [each.numInputRows for each in running.recentProgress if each.numInputRows]


def bodies(spark: SparkSession, folder: Path) -> list[int]:
    return sorted(int(bytes(row.body)) for row in spark.read.parquet(str(folder / "out")).collect())


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_batches_and_restarts(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "store")
    source = spark.readStream.format("rocketmq_store").options(startingOffsets="earliest", columns="body,queueOffset")
    with MessageStore.open(path) as store:
        for number in range(10):
            store.put_message(Message(topic="t", body=b"%d" % number))
        frame = source.option("maxOffsetsPerTrigger", "4").load(path)
        assert frame.columns == ["body", "queueOffset"]
        assert run(frame, tmp_path) == [4, 4, 2]
        stop = threading.Event()

        def write() -> None:
            number = 10
            while not stop.is_set():
                store.put_message(Message(topic="t", body=b"%d" % number))
                number += 1
                stop.wait(0.002)

        writer = threading.Thread(target=write)
        writer.start()
        try:
            for _ in range(3):
                assert run(source.option("maxOffsetsPerTrigger", "300").load(path), tmp_path)
        finally:
            stop.set()
            writer.join()
        run(source.load(path), tmp_path)
        found = bodies(spark, tmp_path)
        assert found == [*range(len(found))], "no loss and no duplicate"
        assert len(found) == sum(store.core.queue_offsets.values())


@pytest.mark.slow
def test_errors_and_latest(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "store")
    with MessageStore.open(path) as store:
        store.put_message(Message(topic="t", body=b"0"))
        frame = spark.readStream.format("rocketmq_store").option("startingOffsets", "latest").load(path)
        assert run(frame, tmp_path) == []
        store.put_message(Message(topic="t", body=b"1"))
        assert run(frame, tmp_path) == [1]
    with pytest.raises(Exception, match="endingOffsets is for batch reads"):
        run(spark.readStream.format("rocketmq_store").option("endingOffsets", "latest").load(path), tmp_path / "other")
    with pytest.raises(Exception, match="missing"):
        spark.readStream.format("rocketmq_store").load(str(tmp_path / "missing"))
