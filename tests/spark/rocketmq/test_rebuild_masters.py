"""The rebuild on other masters, with attempts that fail, and killed: each in a process of its
own."""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from logdex.rocketmq.rebuild import rebuild, rebuild_on
from logdex.spark.tasks import TaskRunner
from logdex.testing.store_builder import write_commit_log
from tests.crash.killed import kill_command
from tests.directories import contents
from tests.spark.cluster import spark_home, standalone
from tests.unit.rocketmq.rebuild.test_job import CONFIG, messages

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(280)]

FILE_SIZE = 64 << 10
CONFIG_64K = replace(
    CONFIG,
    mapped_file_size_commit_log=FILE_SIZE,
    mapped_file_size_consume_queue=8000,
    max_hash_slot_num=101,
    max_index_num=300,
)

PROGRAM = """
import json, sys
from logdex.rocketmq.settings.store_config import StoreConfig
from logdex.rocketmq.rebuild import rebuild_on
from logdex.spark.session import session
from logdex.spark.tasks import TaskRunner

master, store, output, notes, mode, sizes = sys.argv[1:]

def wrap(function):
    def noted(task, attempt, count):
        import os, pathlib, signal, time
        from pyspark import TaskContext
        number = TaskContext.get().attemptNumber()
        pathlib.Path(notes, f"{os.getpid()}.{attempt}.{number}").touch()
        time.sleep(0.05)
        result = function(task, attempt, count)
        first = number == 0 and TaskContext.get().partitionId() < 3
        if mode == "fail-first" and first:
            raise ValueError("the first attempt fails when all is written")
        if mode == "storage-first" and first:
            from logdex.errors import StorageError
            raise StorageError("stale file handle", path="x", errno=116)
        if mode == "kill-first" and first:
            os.kill(os.getpid(), signal.SIGKILL)
        return result
    return noted

class Wrapping(TaskRunner):
    def run(self, name, function, tasks):
        return super().run(name, wrap(function), tasks)

with session(master) as spark:
    config = StoreConfig(**json.loads(sizes))
    while True:
        report = rebuild_on(Wrapping(spark), store, output, config, part_size_bytes=40_000)
        print(json.dumps(report.to_json()), flush=True)
        if mode != "for-ever":
            break
"""


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of several CommitLog files; only read it."""
    root = tmp_path_factory.mktemp("masters") / "store"
    write_commit_log(str(root), messages(1500), FILE_SIZE)
    return root


@pytest.fixture(scope="module")
def expected(store: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """What the local rebuild makes of `store`."""
    output = tmp_path_factory.mktemp("expected")
    rebuild(str(store), str(output), CONFIG_64K, sync=False)
    return contents(output)


def command(master: str, store: Path, output: Path, notes: Path, mode: str) -> list[str]:
    notes.mkdir(exist_ok=True)
    sizes = {
        name: getattr(CONFIG_64K, name)
        for name in (
            "mapped_file_size_commit_log",
            "mapped_file_size_consume_queue",
            "max_hash_slot_num",
            "max_index_num",
        )
    }
    return [sys.executable, "-c", PROGRAM, master, str(store), str(output), str(notes), mode, json.dumps(sizes)]


def run(
    master: str, store: Path, tmp_path: Path, *, mode: str = "plain", environ: dict[str, str] | None = None
) -> tuple[dict[str, Any], list[list[str]]]:
    """The report, and (pid, attempt, number) of every attempt, of a rebuild into
    ``tmp_path/out``."""
    done = subprocess.run(
        command(master, store, tmp_path / "out", tmp_path / "notes", mode),
        env={**os.environ, **(environ or {})},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout), [path.name.split(".") for path in (tmp_path / "notes").iterdir()]


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["fail-first", "storage-first", "kill-first"])
def test_failed_attempts_write_no_wrong_byte(
    mode: str, store: Path, expected: dict[str, bytes], tmp_path: Path
) -> None:
    report, attempts = run("local[2,3]", store, tmp_path, mode=mode)
    assert contents(tmp_path / "out") == expected
    assert len(attempts) > report["tasks"]
    assert any(number != "0" for _, _, number in attempts)


@pytest.mark.slow
def test_killed_at_any_moment_and_run_again(
    spark: SparkSession, store: Path, expected: dict[str, bytes], tmp_path: Path
) -> None:
    chance = random.Random()
    output = tmp_path / "out"
    for turn in range(3):
        delay_s = kill_command(command("local[2]", store, output, tmp_path / "notes", "for-ever"), chance)
        left = sorted(path.name for path in output.iterdir())
        report = rebuild_on(TaskRunner(spark), str(store), str(output), CONFIG_64K, part_size_bytes=40_000)
        now = {name: data for name, data in contents(output).items() if re.match(r"(consumequeue|index)/", name)}
        assert now == expected, (turn, delay_s, left)
        assert report.messages == 1500
        assert not [path for path in output.iterdir() if path.name.startswith(".logdex")]


@pytest.mark.slow
def test_local_cluster(store: Path, expected: dict[str, bytes], tmp_path: Path) -> None:
    """Its workers write to SPARK_HOME/work, so SPARK_HOME is a folder of links to the installed
    one."""
    home = tmp_path / "home"
    home.mkdir()
    for path in spark_home().iterdir():
        if path.name != "work":
            (home / path.name).symlink_to(path)
    report, attempts = run("local-cluster[2,1,1024]", store, tmp_path, environ={"SPARK_HOME": str(home)})
    assert contents(tmp_path / "out") == expected
    assert report["tasks"] == len(attempts)
    assert len({pid for pid, _, _ in attempts}) == 2
    assert (home / "work").is_dir()


@pytest.mark.slow
def test_standalone_master_with_two_workers(store: Path, expected: dict[str, bytes], tmp_path: Path) -> None:
    with standalone(tmp_path) as master:
        report, attempts = run(master, store, tmp_path)
    assert contents(tmp_path / "out") == expected
    assert report["tasks"] == len(attempts)
    assert len({pid for pid, _, _ in attempts}) == 2
