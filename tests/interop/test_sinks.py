"""What Spark's sinks write is served by the real engines."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from logdex.kafka import Log, Record
from logdex.rocketmq import Message, MessageStore
from logdex.spark.sources.options import camel_case
from tests.interop.kafka import peer
from tests.interop.kafka.test_recover import our_records, told_record
from tests.interop.rocketmq import engines
from tests.interop.rocketmq.programs import Program
from tests.interop.rocketmq.scenarios import GEOMETRY
from tests.interop.test_convert import SIZES, check_dump, check_goes_on, check_served_by_kafka

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.needs_java, pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(900)]

OPTIONS = {camel_case(name): size for name, size in SIZES.items()}


@pytest.mark.parametrize("version", engines.VERSIONS)
def test_the_engine_goes_on_in_a_store(version: str, spark: SparkSession, peers_dir: Path, tmp_path: Path) -> None:
    rows = spark.range(100).selectExpr("'t' AS topic", "CAST(id AS STRING) AS body", "concat('k-', id) AS keys")
    written = rows.repartition(3).write.format("rocketmq_store").options(rocketmqVersion=version, **OPTIONS)
    for _ in range(2):
        written.mode("append").save(str(tmp_path / "store"))
    check_goes_on(peers_dir, tmp_path / "store", version, 200)


@pytest.mark.parametrize("version", engines.VERSIONS)
def test_a_broker_serves_the_store_that_a_stream_wrote(
    version: str, spark: SparkSession, peers_dir: Path, tmp_path: Path
) -> None:
    """A stream writes a partition's records in several batches. The engine reads the messages that
    we read, and a broker on the store gives a consumer each of them once."""
    with Log.open(tmp_path / "logs" / "t-0") as log:
        for number in range(200):
            log.append([Record(key=b"k-%d" % number, value=b"body-%d" % number)])
    source = spark.readStream.format("kafka_log").options(startingOffsets="earliest", maxOffsetsPerTrigger="60")
    columns = ("topic", "CAST(key AS STRING) AS keys", "value AS body", "CAST(offset % 3 AS INT) AS queueId")
    written = source.load(str(tmp_path / "logs")).selectExpr(*columns).writeStream.format("rocketmq_store")
    written = written.options(rocketmqVersion=version, checkpointLocation=str(tmp_path / "checkpoint"), **OPTIONS)
    store = tmp_path / "store"
    query = written.trigger(availableNow=True).start(str(store))
    assert query.awaitTermination(250)
    assert sum(progress.numInputRows > 0 for progress in query.recentProgress) > 1

    check_dump(peers_dir, store, version)
    program = Program(peers_dir, version, "ConsumeStore", tmp_path)
    lines = [line.split() for line in program.run("--dir", store, "--group", "G", "--topic", "t", *GEOMETRY)]
    expected = [[str(number % 3), str(number // 3), "0", f"body-{number}"] for number in range(200)]
    assert sorted(lines) == sorted(expected)


@peer.needs_peers
@pytest.mark.parametrize("version", peer.VERSIONS)
def test_kafkas_classes_serve_a_log_directory(version: str, spark: SparkSession, tmp_path: Path) -> None:
    rows = spark.range(100).selectExpr("'t' AS topic", "CAST(id AS STRING) AS value", "concat('k-', id) AS key")
    for compression in ("zstd", "none"):
        written = rows.repartition(3).write.format("kafka_log").options(partitions="2", compression=compression)
        written.mode("append").save(str(tmp_path / "logs"))
    check_served_by_kafka(tmp_path / "logs", version, 200)


@peer.needs_peers
@pytest.mark.parametrize("version", peer.VERSIONS)
def test_a_broker_serves_what_a_stream_wrote(version: str, spark: SparkSession, tmp_path: Path) -> None:
    """A stream writes a store's messages in several batches. A broker that is started on the
    directory gives a consumer each of them once."""
    expected = [(f"k-{number}".encode(), f"body {number}".encode()) for number in range(200)]
    with MessageStore.open(tmp_path / "store") as store:
        for key, body in expected:
            store.put_message(Message(topic="t", body=body, keys=key.decode()))
    source = spark.readStream.format("rocketmq_store").options(startingOffsets="earliest", maxOffsetsPerTrigger="60")
    rows = source.load(str(tmp_path / "store")).selectExpr("topic", "keys[0] AS key", "body AS value")
    written = rows.writeStream.format("kafka_log").option("checkpointLocation", str(tmp_path / "checkpoint"))
    logs = tmp_path / "logs"
    query = written.options(partitions="2", compression="lz4").trigger(availableNow=True).start(str(logs))
    assert query.awaitTermination(250)
    assert sum(progress.numInputRows > 0 for progress in query.recentProgress) > 1

    lines = peer.read_log(logs, version, "--mode", "broker", "--load", "clean", "--work", str(tmp_path / "work"))
    for isolation in ("read_uncommitted", "read_committed"):
        consumed = [told_record(line) for line in lines["message"] if line["isolation"] == isolation]
        assert sorted(consumed) == sorted(our_records(logs))
        assert sorted(record[2:] for record in consumed) == sorted(expected)
    assert all("error" not in line for line in lines["consumed"])
    assert "Exception" not in "".join(str(line) for line in lines["log"])
