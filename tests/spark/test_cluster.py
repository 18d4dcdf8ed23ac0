"""Everything that runs on Spark, on a standalone cluster through ``spark-submit --py-files``: jobs,
sources and sinks give what they give in one process."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import logdex
from logdex.convert.export import export
from logdex.convert.load import load
from logdex.convert.sources.rocketmq import StoreSource
from logdex.convert.stats import stats
from logdex.convert.translate import convert
from logdex.formats import detect, format_of
from logdex.kafka.snapshot.log_dir_snapshot import LogDirSnapshot
from logdex.spark.sources.options import camel_case
from logdex.testing.store_builder import write_commit_log
from tests.directories import contents
from tests.spark.cluster import spark_environ, spark_home, standalone
from tests.unit.rocketmq.dispatch.growing import files_of
from tests.unit.rocketmq.rebuild.test_job import messages

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(900)]

SIZES: dict[str, Any] = {
    "mapped_file_size_commit_log": 64 << 10,
    "mapped_file_size_consume_queue": 8000,
    "max_hash_slot_num": 101,
    "max_index_num": 300,
}
OPTIONS = {camel_case(name): size for name, size in SIZES.items()}
"""`SIZES` as options of the sources."""

DRIVER = """
import json, sys
import logdex, logdex.spark
from pyspark.sql import SparkSession
from logdex.convert.export import export
from logdex.convert.index_pipeline import IndexPipeline, Lake
from logdex.convert.load import load
from logdex.convert.sources.rocketmq import StoreSource
from logdex.convert.stats import stats
from logdex.convert.translate import convert
from logdex.formats import detect, format_of
from logdex.spark.dispatch.query import dispatch_stream

home, sizes, options = sys.argv[1], *map(json.loads, sys.argv[2:])
spark = SparkSession.builder.getOrCreate()
logdex.spark.register(spark)

def where(_):
    import logdex
    return [logdex.__file__]

store, runner = home + "/store", logdex.spark.runner_of(spark)
source = StoreSource(store, settings=sizes)
answers = {"files": spark.sparkContext.parallelize(range(8), 8).mapPartitions(where).distinct().collect()}
answers["rebuild"] = logdex.spark.rebuild(spark, store, home + "/spark-rebuilt", sync=False, **sizes).messages
answers["verify"] = len(logdex.spark.verify(spark, store, **sizes).findings)
found = detect(store)
with format_of(found).dispatch(found, sizes, home + "/spark-dispatched") as job:
    lake = Lake(source, home + "/spark-dispatched-lake", sync=False)
    dispatch_stream(spark, IndexPipeline(job, lake, runner=runner, engine="spark"), found, sizes)
answers["dispatch"] = [job.report.messages, job.report.lake_messages, job.report.tasks]
export(source, home + "/spark-lake", runner, sync=False)
load(home + "/spark-lake", home + "/spark-loaded", "rocketmq", runner, sync=False)
convert(source, home + "/spark-logs", runner, sync=False)
answers["stats"] = stats(source, runner, engine="spark").to_json()
answers["logs"] = logdex.spark.rebuild(spark, home + "/spark-logs", home + "/spark-logs-rebuilt", sync=False).messages
frame = spark.read.format("rocketmq_store").options(**options).load(store)
answers["rows"] = frame.count()
answers["bodies"] = sorted(row.body.hex() for row in frame.select("body").collect())
logs = spark.read.format("kafka_log").load(home + "/spark-logs")
answers["records"] = logs.count()
stream = spark.readStream.format("rocketmq_store").options(startingOffsets="earliest", maxOffsetsPerTrigger="700")
rows = stream.options(**options).load(store)
written = rows.selectExpr("'out' AS topic", "body AS value").writeStream.format("kafka_log").option("partitions", "2")
query = written.option("checkpointLocation", home + "/checkpoint").trigger(availableNow=True).start(home + "/streamed")
assert query.awaitTermination(600)
logs.selectExpr("'again' AS topic", "value AS body").write.format("rocketmq_store").mode("append").save(home + "/sunk")
with open(home + "/answers.json", "w") as file:
    json.dump(answers, file)
"""


def submit(master: str, home: Path) -> dict[str, Any]:
    """What the driver says, which runs `logdex` from an archive."""
    package = Path(logdex.__file__).parent
    with zipfile.ZipFile(home / "logdex.zip", "w") as archive:
        for path in package.rglob("*"):
            if path.is_file() and path.suffix != ".pyc":
                archive.write(path, Path("logdex") / path.relative_to(package))
    (home / "driver.py").write_text(DRIVER)
    environ = {**spark_environ(home), "PYSPARK_PYTHON": sys.executable, "XDG_CACHE_HOME": str(home / "cache")}
    command = [
        str(spark_home() / "bin" / "spark-submit"),
        *("--master", master, "--py-files", str(home / "logdex.zip")),
        *("--conf", "spark.driver.host=127.0.0.1", "--conf", "spark.ui.enabled=false"),
        *("--conf", "spark.log.level=ERROR"),
        *(str(home / "driver.py"), str(home), json.dumps(SIZES), json.dumps(OPTIONS)),
    ]
    done = subprocess.run(command, env=environ, cwd=home, capture_output=True, text=True, check=False, timeout=800)
    assert done.returncode == 0, (done.stdout + done.stderr)[-6000:]
    answers: dict[str, Any] = json.loads((home / "answers.json").read_text())
    return answers


def test_each_job_source_and_sink(tmp_path: Path) -> None:
    store = str(tmp_path / "store")
    write_commit_log(store, messages(1500), SIZES["mapped_file_size_commit_log"])
    with standalone(tmp_path) as master:
        answers = submit(master, tmp_path)
    assert all("logdex.zip" in path for path in answers["files"]), answers["files"]

    source, local = StoreSource(store, settings=SIZES), tmp_path / "local"
    found = detect(store)
    rebuilt = format_of(found).rebuild(found, dict(SIZES), f"{local}-rebuilt", in_place=False, sync=False).run(None)
    assert answers["rebuild"] == rebuilt.messages == 1500
    assert answers["verify"] == len(format_of(found).verify(found, dict(SIZES), max_findings=100).findings)
    assert answers["dispatch"][:2] == [1500, 1500]
    assert answers["dispatch"][2] > 1, "tasks scan the log"
    assert files_of(tmp_path / "spark-dispatched") == files_of(tmp_path / "local-rebuilt") != {}
    dispatched = pq.read_table(tmp_path / "spark-dispatched-lake", columns=["physicalOffset"])
    export(source, f"{local}-lake", sync=False)
    exported = pq.read_table(f"{local}-lake", columns=["physicalOffset"])
    assert sorted(dispatched["physicalOffset"].to_pylist()) == sorted(exported["physicalOffset"].to_pylist())
    load(f"{local}-lake", f"{local}-loaded", "rocketmq", sync=False)
    convert(source, f"{local}-logs", sync=False)
    logs = detect(f"{local}-logs")
    format_of(logs).rebuild(logs, {}, f"{local}-logs-rebuilt", in_place=False, sync=False).run(None)
    for name in ("rebuilt", "lake", "logs", "logs-rebuilt"):
        assert contents(tmp_path / f"spark-{name}") == contents(tmp_path / f"local-{name}"), name
    left_out = ("engine", "seconds", "tasks")
    one, two = stats(source).to_json(), answers["stats"]
    assert [one[name] for name in one if name not in left_out] == [two[name] for name in two if name not in left_out]

    with logdex.open(store, **SIZES) as snapshot:
        bodies = sorted(body.hex() for body in snapshot.scan().to_arrow().read_all()["body"].to_pylist())
    assert (answers["rows"], answers["bodies"]) == (1500, bodies)
    with logdex.open(tmp_path / "local-logs") as logs_there:
        assert answers["records"] == answers["logs"] == logs_there.scan().to_arrow().read_all().num_rows
    with LogDirSnapshot(tmp_path / "streamed") as streamed:
        assert sorted((record.value or b"").hex() for record in streamed.scan()) == bodies
    for name in ("spark-loaded", "local-loaded", "sunk"):  # without what an engine has yet to deliver
        with logdex.open(tmp_path / name) as snapshot:
            assert snapshot.scan().to_arrow().read_all().num_rows == answers["records"], name
