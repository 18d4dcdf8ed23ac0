"""Sources, sinks, streams and jobs on Spark Connect. They run in one process of their own, which
runs a server too, because a process has classic sessions or Connect sessions, not both."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import logdex
from logdex.spark.java import find_java
from tests.cli.helpers import run
from tests.directories import contents, digests
from tests.unit.kafka.dispatch import growing as kafka
from tests.unit.rocketmq.dispatch import growing as rocketmq

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(900)]

TIMES = ("store_timestamp_ms",)

CODE = """
import json
import subprocess
import sys
import threading
import time
from pathlib import Path
from random import Random

import logdex.spark
from logdex.convert.export import export
from logdex.convert.index_pipeline import IndexPipeline, Lake
from logdex.convert.load import load
from logdex.convert.sources.rocketmq import StoreSource
from logdex.convert.stats import stats
from logdex.convert.translate import convert
from logdex.errors import EnvironmentProblem, StoreError
from logdex.formats import detect, format_of
from logdex.rocketmq.dispatch.job import Dispatcher
from logdex.spark.dispatch.query import dispatch_stream
from logdex.rocketmq import MessageStore
from logdex.spark.tasks import runner_of
from pyspark.sql import SparkSession
from tests.unit.convert.export.test_job import store
from tests.unit.kafka.dispatch import growing as kafka
from tests.unit.kafka.verify.test_in_tasks import facts, harmed_logs
from tests.unit.rocketmq.dispatch import growing as rocketmq

store_path, logs_path, out = map(Path, sys.argv[1:])
said = {}
spark = SparkSession.builder.remote("local[2]").getOrCreate()

logdex.spark.register(spark)
messages = spark.read.format("rocketmq_store").load(str(store_path))
records = spark.read.format("kafka_log").load(str(logs_path))
said["sources"] = [messages.count(), messages.where("topic = 'Orders'").count(), records.count() > 0]

seen = []
report = logdex.spark.rebuild(spark, store_path, output=out / "connect", progress=lambda *counts: seen.append(counts))
said["rebuild"] = [report.engine, report.tasks > 1, seen[-1] == (report.messages, report.bytes), len(seen) > 1]

report = logdex.spark.rebuild(spark, logs_path, output=out / "connect-indexes", key_index=True)
said["rebuild of logs"] = [report.engine, report.tasks > 1, report.messages > 0]

source = store(out / "store")
for name, runner in (("local", None), ("connect", runner_of(spark))):
    export(source, str(out / f"{name}-lake"), runner, sync=False, task_bytes=1000)
one, two = (stats(source, each).to_json() for each in (None, runner_of(spark)))
said["stats"] = [name for name in one if one[name] != two[name] and name not in ("seconds", "tasks")]

for name, runner in (("local", None), ("connect", runner_of(spark))):
    convert(source, str(out / f"{name}-logs"), runner, sync=False)
    load(str(out / f"{name}-lake"), str(out / f"{name}-store"), "rocketmq", runner, sync=False)

logs = harmed_logs(out / "harmed", Random(4))
local = format_of(detect(logs)).verify(detect(logs), {}, max_findings=100)
found = logdex.spark.verify(spark, logs, max_findings=100)
rows = spark.createDataFrame(found.to_arrow()).collect()
said["verify"] = [
    facts(found) == facts(local), len(rows) > 0, [row.asDict() for row in rows] == [f.to_json() for f in local.findings]
]

said["dispatch"] = []
for turn in range(2):
    rocketmq.grow(out / "growing", 60, turn)
    kafka.grow(out / "growing-logs" / "a-0", 20, turn)
    lake = Lake(StoreSource(str(out / "growing"), settings=rocketmq.SIZES), str(out / "growing-lake"), sync=False)
    with Dispatcher(out / "growing", out / "dispatched", rocketmq.CONFIG) as job:
        pipeline = IndexPipeline(job, lake, runner=runner_of(spark), engine="spark")
        dispatch_stream(spark, pipeline, detect(out / "growing"), rocketmq.SIZES)
    with kafka.dispatcher(out / "growing-logs", out / "dispatched-logs") as of_logs:
        pipeline = IndexPipeline(of_logs, runner=runner_of(spark), engine="spark")
        dispatch_stream(spark, pipeline, detect(out / "growing-logs"), {})
    reports = job.report, of_logs.report
    said["dispatch"].append([job.report.messages, job.report.lake_messages, *(each.tasks > 0 for each in reports)])

rocketmq.grow(out / "growing", 20, 2)
with Dispatcher(out / "growing", out / "dispatched", rocketmq.CONFIG) as job:
    pipeline = IndexPipeline(job, runner=runner_of(spark), engine="spark")
    given = spark, pipeline, detect(out / "growing"), rocketmq.SIZES
    following = threading.Thread(target=dispatch_stream, args=given, kwargs={"follow": True, "every_s": 0.1})
    following.start()
    deadline = time.monotonic() + 100
    while job.report.messages < 20 and time.monotonic() < deadline:
        time.sleep(0.05)
    rocketmq.grow(out / "growing", 20, 3)
    while job.report.messages < 40 and time.monotonic() < deadline:
        time.sleep(0.05)
    job.stop()
    following.join()
said["followed"] = job.report.messages

def corrupt(task, attempt, count):
    if task == 1:
        raise StoreError("broken", path="log")
    Path(out, f"ran-{attempt}").touch()
    return attempt

def other(task, attempt, count):
    return 1 // task

runner = runner_of(spark)
said["cores"] = runner.cores
try:
    runner.run("test", corrupt, [1, 2, 3, 4])
except StoreError as error:
    said["typed error"] = [error.path, len(list(out.glob("ran-*")))]
try:
    runner.run("test", other, [0])
except EnvironmentProblem as error:
    said["other error"] = error.message
said["attempts"] = [len(set(runner.run("test", corrupt, [0, 0, 2]))), runner.tasks]
"""

STREAMS = """
sunk, logs, again = (str(out / name) for name in ("sunk", "logs", "again"))
rows = spark.range(100).selectExpr("'t' AS topic", "CAST(id AS STRING) AS body", "concat('k-', id) AS keys")
rows.repartition(3).write.format("rocketmq_store").mode("append").save(sunk)
as_records = rows.limit(10).selectExpr("topic", "keys AS key", "body AS value")
as_records.write.format("kafka_log").option("partitions", "2").mode("append").save(str(out / "written"))

def refusal(write):
    try:
        write()
    except Exception as error:
        return str(error)

as_messages = rows.write.format("rocketmq_store")
said["overwrite"] = refusal(lambda: as_messages.mode("overwrite").save(sunk))
said["relative"] = refusal(lambda: spark.read.format("rocketmq_store").load("sunk").count())
with MessageStore.open(sunk):
    said["locked"] = refusal(lambda: as_messages.mode("append").save(sunk))

def follow(source, path, columns, sink, target):
    stream = spark.readStream.format(source).options(startingOffsets="earliest", maxOffsetsPerTrigger="60").load(path)
    written = stream.selectExpr(*columns).writeStream.format(sink).option("checkpointLocation", target + "-checkpoint")
    query = written.trigger(availableNow=True).start(target)
    assert query.awaitTermination(250)
    return [each.numInputRows for each in query.recentProgress if each.numInputRows]

to_records = ("topic", "uniqueKey AS key", "body AS value", "bornTimestamp AS timestamp")
said["batches"] = [follow("rocketmq_store", sunk, to_records, "kafka_log", logs)]
rows.limit(7).write.format("rocketmq_store").mode("append").save(sunk)
said["batches"].append(follow("rocketmq_store", sunk, to_records, "kafka_log", logs))
to_messages = ("topic", "CAST(key AS STRING) AS keys", "value AS body")
said["batches"].append(follow("kafka_log", logs, to_messages, "rocketmq_store", again))
stream = spark.readStream.format("rocketmq_store").option("endingOffsets", "latest").load(sunk)
bad = stream.writeStream.format("noop").option("checkpointLocation", str(out / "bad"))
said["bad option"] = refusal(lambda: bad.start().awaitTermination(100))

def each_batch(frame, number):
    frame.write.format("kafka_log").mode("append").save(str(out / "by-hand"))

stream = spark.readStream.format("kafka_log").option("startingOffsets", "earliest").load(logs).select("topic", "value")
by_hand = stream.writeStream.foreachBatch(each_batch).option("checkpointLocation", str(out / "by-hand-checkpoint"))
assert by_hand.trigger(availableNow=True).start().awaitTermination(250)

rocketmq.grow(out / "followed", 60, 0)
sizes = [part for name, size in rocketmq.SIZES.items() for part in ("--" + name.replace("_", "-"), str(size))]
said["commands"] = []
for words in (
    ["rebuild", logs_path, "--key-index", "--output", out / "command-indexes"],
    ["verify", logs_path],
    ["stats", store_path],
    ["export", store_path, "--output", out / "command-lake"],
    ["dispatch", out / "followed", *sizes, "--output", out / "command-dispatched"],
):
    command = [sys.executable, "-m", "logdex", *map(str, words), "--json", "--engine", "spark"]
    server = f"sc://{spark.client._builder.endpoint}"
    done = subprocess.run([*command, "--master", server], capture_output=True, text=True, check=False)
    said["commands"].append([done.returncode, done.stderr[-500:] if done.returncode else ""])

print(json.dumps(said))
spark.stop()
"""


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("connect")


@pytest.fixture(scope="module")
def said(out: Path, golden_store: Callable[..., Path], golden_log: Callable[..., Path]) -> dict[str, Any]:
    pytest.importorskip("grpc")
    arguments = (golden_store("tiny-broker"), golden_log("tiny-broker"), out)
    environ = {**os.environ, "JAVA_HOME": find_java().home, "PYSPARK_PYTHON": sys.executable}
    environ |= {"SPARK_TESTING": "1"}  # the server takes any free port, so that several tests can run at once
    command = [sys.executable, "-c", CODE + STREAMS, *map(str, arguments)]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_sources(said: dict[str, Any]) -> None:
    assert said["sources"] == [60, 49, True]


def test_a_rebuild_is_byte_identical(
    said: dict[str, Any], out: Path, golden_store: Callable[..., Path], tmp_path: Path
) -> None:
    assert said["rebuild"] == ["spark", True, True, True]
    assert run("rebuild", golden_store("tiny-broker"), "--output", tmp_path / "local").exit_code == 0
    assert digests(out / "connect") == digests(tmp_path / "local") != {}


def test_a_rebuild_of_logs_is_byte_identical(
    said: dict[str, Any], out: Path, golden_log: Callable[..., Path], tmp_path: Path
) -> None:
    assert said["rebuild of logs"] == ["spark", True, True]
    rebuilt = run("rebuild", golden_log("tiny-broker"), "--key-index", "--output", tmp_path / "local")
    assert rebuilt.exit_code == 0
    assert digests(out / "connect-indexes") == digests(tmp_path / "local") != {}


def test_commands(said: dict[str, Any], out: Path, tmp_path: Path) -> None:
    """They take the address of a server as their master."""
    assert said["commands"] == [[0, ""]] * 5
    assert digests(out / "command-indexes") == digests(out / "connect-indexes")
    assert list((out / "command-lake").rglob("*.parquet"))
    rocketmq.require_rebuilt(out / "followed", out / "command-dispatched", tmp_path / "rebuilt")


def test_other_jobs(said: dict[str, Any], out: Path) -> None:
    assert digests(out / "connect-lake") == digests(out / "local-lake") != {}
    assert said["stats"] == []
    assert contents(out / "connect-logs") == contents(out / "local-logs") != {}
    assert messages_of(out / "connect-store") == messages_of(out / "local-store") != []


def messages_of(store: Path) -> list[dict[str, Any]]:
    """Its messages without the times at which they were stored, which are those of the import."""
    with logdex.open(store) as snapshot:
        rows = snapshot.scan().to_arrow().read_all().to_pylist()
    return [{name: value for name, value in row.items() if name not in TIMES} for row in rows]


def test_verify(said: dict[str, Any]) -> None:
    assert said["verify"] == [True, True, True]


def test_dispatch(said: dict[str, Any], out: Path, tmp_path: Path) -> None:
    assert said["dispatch"] == [[60, 60, True, True]] * 2
    assert said["followed"] == 40
    rocketmq.require_rebuilt(out / "growing", out / "dispatched", tmp_path / "rebuilt")
    kafka.require_rebuilt(out / "growing-logs", out / "dispatched-logs", tmp_path / "rebuilt-logs")


def test_errors_of_tasks(said: dict[str, Any]) -> None:
    """A typed error is raised when the other tasks have ended, so that none writes any more."""
    assert said["cores"] == 2
    assert said["typed error"] == ["log", 3]
    assert "ZeroDivisionError" in said["other error"]
    assert said["attempts"] == [3, 8]


def bodies(path: Path, column: str) -> list[int]:
    with logdex.open(path) as snapshot:
        return sorted(int(body) for body in snapshot.scan().to_arrow().read_all()[column].to_pylist())


def test_batch_writes(said: dict[str, Any], out: Path) -> None:
    assert bodies(out / "written", "value") == [*range(10)]
    assert "cannot overwrite a log" in said["overwrite"]
    assert "another process has it open" in said["locked"]


def test_streams(said: dict[str, Any], out: Path) -> None:
    """From a store into a log directory, again when the store has grown, and from there into a
    store."""
    assert said["batches"] == [[60, 40], [7], [60, 47]]
    expected = sorted([*range(100), *range(7)])
    assert bodies(out / "logs", "value") == bodies(out / "again", "body") == bodies(out / "sunk", "body") == expected
    assert bodies(out / "by-hand", "value") == expected, "by foreachBatch"
    assert "the option endingOffsets is for batch reads" in said["bad option"]


def test_a_relative_path_is_not_the_clients(said: dict[str, Any]) -> None:
    assert "no such file or directory" in said["relative"]
