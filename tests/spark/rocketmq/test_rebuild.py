"""`logdex.spark.rebuild` on a real Spark: the brokers' bytes, two workers at work, typed errors,
progress."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import logdex.spark
from logdex.errors import CorruptError, EnvironmentProblem, MissingFileError, StorageError
from logdex.io.env import Env
from logdex.rocketmq.commit_log.commit_log import CommitLog
from logdex.rocketmq.rebuild import rebuild, rebuild_on
from logdex.spark.tasks import TaskRunner
from logdex.testing.store_builder import write_commit_log
from tests.conformance.rocketmq.test_rebuild import config_of, derived_files, expected_files
from tests.directories import contents
from tests.golden import rocketmq as golden
from tests.unit.rocketmq.rebuild.test_job import CONFIG, facts, messages

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
IN_EVERY_RUN = ("tiny-5.5.0", "tiny-4.7.0", "transactions-delay-batch")
CASES = [name if name in IN_EVERY_RUN else pytest.param(name, marks=pytest.mark.slow) for name in golden.NAMES]


class Wrapping(TaskRunner):
    """Runs `wrap(function)` in place of each function; `wrap` and what it gives must be pickled by
    value."""

    def __init__(self, spark: SparkSession, wrap: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
        super().__init__(spark)
        self._wrap = wrap

    def run(self, name: str, function: Callable[..., Any], tasks: Sequence[Any]) -> list[Any]:
        return super().run(name, self._wrap(function), tasks)


@pytest.mark.parametrize("name", CASES)
def test_stores_of_real_brokers(
    name: str, spark: SparkSession, golden_store: Callable[[str], Path], tmp_path: Path
) -> None:
    store, config = golden_store(name), config_of(name)
    log_size = sum(path.stat().st_size for path in (store / "commitlog").iterdir())
    report = rebuild_on(
        *(TaskRunner(spark), str(store), str(tmp_path / "spark"), config),
        sync=False,
        part_size_bytes=max(log_size // 5, 20_000),
    )
    files = derived_files(tmp_path / "spark")
    local = rebuild(str(store), str(tmp_path / "local"), config, sync=False)
    assert files == derived_files(tmp_path / "local")
    assert facts(report) == facts(local)
    assert report.tasks > 2
    if name in golden.derived_anew():
        assert files == expected_files(name)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small store of several CommitLog files; only read it."""
    root = tmp_path_factory.mktemp("rebuild") / "store"
    write_commit_log(str(root), messages(120), 8192)
    return root


@pytest.fixture(scope="module")
def expected(store: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """What the local rebuild makes of `store`."""
    output = tmp_path_factory.mktemp("expected")
    rebuild(str(store), str(output), CONFIG_8K, sync=False)
    return contents(output)


CONFIG_8K = replace(CONFIG, mapped_file_size_commit_log=8192)


def test_the_public_call(spark: SparkSession, store: Path, expected: dict[str, bytes], tmp_path: Path) -> None:
    said: list[tuple[int, int]] = []
    report = logdex.spark.rebuild(
        spark,
        str(store),
        str(tmp_path / "out"),
        progress=lambda done, size: said.append((done, size)),
        mapped_file_size_commit_log=8192,
        mapped_file_size_consume_queue=200,
        max_hash_slot_num=7,
        max_index_num=8,
        rocketmq_version="5.5.0",
    )
    assert contents(tmp_path / "out") == expected
    assert report.engine == "spark"
    assert said == sorted(said)
    assert said[-1][0] == report.messages == 120
    assert 0 < report.bytes - said[-1][1] < 8192 * 10  # fillers are no messages


def test_two_workers_scan_and_the_driver_reads_little(
    spark: SparkSession, store: Path, expected: dict[str, bytes], tmp_path: Path
) -> None:
    pids = tmp_path / "pids"
    pids.mkdir()
    folder = str(pids)

    def wrap(function: Callable[..., Any]) -> Callable[..., Any]:
        def noted(task: Any, attempt: str, count: Any) -> Any:
            import os as system
            import pathlib
            import time

            time.sleep(0.05)
            name = function.func.__name__  # type: ignore[attr-defined]
            pathlib.Path(folder, f"{name}.{system.getpid()}.{attempt}").touch()
            return function(task, attempt, count)

        return noted

    env = Env()
    rebuild_on(Wrapping(spark, wrap), str(store), str(tmp_path / "out"), CONFIG_8K, env=env, part_size_bytes=8192)
    assert contents(tmp_path / "out") == expected
    seen = [path.name.split(".") for path in pids.iterdir()]
    scanned_by = {int(pid) for kind, pid, _ in seen if kind == "scan_task"}
    assert len(scanned_by) == 2
    assert os.getpid() not in scanned_by
    # The driver looks for the end, and whether the first messages of a file belong there.
    assert env.counters.mapped_bytes == 0
    assert env.counters.read_bytes < CommitLog(str(store / "commitlog")).size_bytes // 2


@pytest.mark.slow
def test_workers_stay_small(spark: SparkSession, tmp_path: Path) -> None:
    """Anonymous memory, mapped files not counted: what a window needs, not what a part is long."""
    write_commit_log(str(tmp_path / "store"), messages(60_000, keys_max=1), 16 << 20)
    folder = str(tmp_path)

    def wrap(function: Callable[..., Any]) -> Callable[..., Any]:
        def measured(task: Any, attempt: str, count: Any) -> Any:
            import pathlib

            result = function(task, attempt, count)
            status = pathlib.Path("/proc/self/status").read_text()
            line = next(line for line in status.splitlines() if line.startswith("RssAnon"))
            pathlib.Path(folder, f"rss.{attempt}").write_text(line.split()[1])
            return result

        return measured

    if not Path("/proc/self/status").exists():
        pytest.skip("needs /proc")
    config = replace(CONFIG, mapped_file_size_commit_log=16 << 20, max_hash_slot_num=5003, max_index_num=1 << 20)
    rebuild_on(Wrapping(spark, wrap), str(tmp_path / "store"), str(tmp_path / "out"), config, sync=False)
    peaks = [int(path.read_text()) for path in tmp_path.glob("rss.*")]
    assert peaks
    assert max(peaks) < 400 << 10


def test_typed_errors_come_back_as_they_are(spark: SparkSession) -> None:
    def corrupt(task: int, attempt: str, count: Any) -> int:
        from logdex.errors import CorruptError

        if task == 1:
            raise CorruptError("no", path="x", position=17, field="size", expected=1, found=2, hint="look")
        return task

    def full(task: int, attempt: str, count: Any) -> int:
        from logdex.errors import StorageError

        raise StorageError("no space left", path="y", errno=28)

    with pytest.raises(CorruptError, match=r"x: byte 17: no \[size\]: expected 1, found 2 \(look\)") as caught:
        TaskRunner(spark).run("test", corrupt, [0, 1, 2])
    assert (caught.value.path, caught.value.position, caught.value.hint) == ("x", 17, "look")
    with pytest.raises(StorageError) as caught_full:
        TaskRunner(spark).run("test", full, [0])
    assert caught_full.value.errno == 28


def test_other_errors_are_one_line(spark: SparkSession) -> None:
    def broken(task: int, attempt: str, count: Any) -> int:
        raise ZeroDivisionError("by zero")

    with pytest.raises(EnvironmentProblem, match="ZeroDivisionError: by zero") as caught:
        TaskRunner(spark).run("test", broken, [0])
    assert "\n" not in str(caught.value)


def test_what_a_task_meets_ends_the_run_and_leaves_nothing(spark: SparkSession, store: Path, tmp_path: Path) -> None:
    def wrap(function: Callable[..., Any]) -> Callable[..., Any]:
        def gone(task: Any, attempt: str, count: Any) -> Any:
            from logdex.errors import MissingFileError

            if hasattr(task, "previous_key"):
                raise MissingFileError("gone", path="z")
            return function(task, attempt, count)

        return gone

    with pytest.raises(MissingFileError, match="z: gone"):
        rebuild_on(Wrapping(spark, wrap), str(store), str(tmp_path / "out"), CONFIG_8K)
    assert list((tmp_path / "out").iterdir()) == []


def test_results_are_in_order_and_no_tasks_are_no_job(spark: SparkSession) -> None:
    def double(task: int, attempt: str, count: Any) -> int:
        return 2 * task

    runner = TaskRunner(spark)
    assert runner.run("test", double, []) == []
    assert runner.run("test", double, list(range(9))) == list(range(0, 18, 2))
    assert (runner.tasks, runner.cores) == (9, 2)
