"""Sources and jobs on Spark Connect. They run in one process of their own, which runs a server too,
because a process has classic sessions or Connect sessions, not both."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from logdex.spark.java import find_java
from tests.cli.helpers import run
from tests.directories import digests

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(900)]

CODE = """
import json
import sys
from pathlib import Path

import logdex.spark
from logdex.convert.export import export
from logdex.convert.stats import stats
from logdex.errors import EnvironmentProblem, StoreError
from logdex.spark.tasks import runner_of
from pyspark.sql import SparkSession
from tests.unit.convert.export.test_job import store

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

source = store(out / "store")
for name, runner in (("local", None), ("connect", runner_of(spark))):
    export(source, str(out / f"{name}-lake"), runner, sync=False, task_bytes=1000)
one, two = (stats(source, each).to_json() for each in (None, runner_of(spark)))
said["stats"] = [name for name in one if one[name] != two[name] and name not in ("seconds", "tasks")]

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
    command = [sys.executable, "-c", CODE, *map(str, arguments)]
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


def test_other_jobs(said: dict[str, Any], out: Path) -> None:
    assert digests(out / "connect-lake") == digests(out / "local-lake") != {}
    assert said["stats"] == []


def test_errors_of_tasks(said: dict[str, Any]) -> None:
    """A typed error is raised when the other tasks have ended, so that none writes any more."""
    assert said["cores"] == 2
    assert said["typed error"] == ["log", 3]
    assert "ZeroDivisionError" in said["other error"]
    assert said["attempts"] == [3, 8]
