"""`logdex.spark.rebuild` of Kafka paths on a real Spark: the real recovery's bytes, damage,
progress."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import logdex.spark
from logdex.errors import UsageError
from logdex.kafka.rebuild import rebuild, rebuild_on, rebuild_settings
from logdex.kafka.rebuild.report import KafkaRebuildReport
from logdex.spark.tasks import TaskRunner
from tests.conformance.kafka.test_rebuild import check_files, facts
from tests.crash.killed import kill_command
from tests.directories import digests, tree_hash
from tests.golden import kafka as golden_kafka

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
NAMES = [name for name in ("tiny-broker", "tiny-legacy", "bit-flip", "transactions") if name in golden_kafka.NAMES]
TASK_SIZES_BYTES = [1, 40_000, 1 << 30]
IN_EVERY_RUN = {("tiny-broker", 1), ("tiny-legacy", 1 << 30), ("transactions", 40_000)}
CASES = [
    pytest.param(name, size_bytes, marks=() if (name, size_bytes) in IN_EVERY_RUN else pytest.mark.slow)
    for name in NAMES
    for size_bytes in TASK_SIZES_BYTES
]

FOR_EVER = """
import sys
from logdex.kafka.rebuild import rebuild_on, rebuild_settings
from logdex.spark.session import session
from logdex.spark.tasks import TaskRunner

store, output = sys.argv[1:]
with session("local[2]") as spark:
    settings = rebuild_settings(256, key_index=False, sync=True)
    while True:
        rebuild_on(TaskRunner(spark), store, output, settings, in_place=store == output, task_size_bytes=40_000)
        print("done", flush=True)
"""


@pytest.mark.parametrize(("name", "task_size_bytes"), CASES)
def test_directories_of_real_brokers(
    name: str, task_size_bytes: int, spark: SparkSession, golden_log: Callable[[str], Path], tmp_path: Path
) -> None:
    store = golden_log(name)
    before = tree_hash(store)
    settings = rebuild_settings(golden_kafka.index_interval_bytes(name), key_index=False, sync=False)
    report = rebuild_on(
        *(TaskRunner(spark), str(store), str(tmp_path / "out"), settings),
        engine="spark",
        task_size_bytes=task_size_bytes,
    )
    check_files(name, tmp_path / "out")
    local = rebuild(str(store), str(tmp_path / "local"), index_interval_bytes=settings.index_interval_bytes, sync=False)
    assert facts(report) == facts(local)
    assert report.engine == "spark"
    assert report.tasks >= 2
    assert tree_hash(store) == before


def test_the_public_call(spark: SparkSession, golden_log: Callable[[str], Path], tmp_path: Path) -> None:
    store = golden_log("tiny-broker")
    said: list[tuple[int, int]] = []
    report = logdex.spark.rebuild(
        spark,
        str(store),
        str(tmp_path / "out"),
        index_interval_bytes=256,
        key_index=True,
        progress=lambda done, size: said.append((done, size)),
    )
    assert isinstance(report, KafkaRebuildReport)
    rebuild(str(store), str(tmp_path / "local"), index_interval_bytes=256, key_index=True, sync=False)
    assert digests(tmp_path / "out") == digests(tmp_path / "local")
    assert any(name.endswith(".keyindex") for name in digests(tmp_path / "out"))
    assert said == sorted(said)
    assert said[-1] == (report.messages, report.bytes)
    with pytest.raises(UsageError, match="max_index_num"):
        logdex.spark.rebuild(spark, str(store), str(tmp_path / "no"), max_index_num=7)


def test_of_a_store_kafkas_arguments_are_refused(
    spark: SparkSession, golden_store: Callable[[str], Path], tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match="key_index"):
        logdex.spark.rebuild(spark, str(golden_store("tiny-5.5.0")), str(tmp_path / "no"), key_index=True)


@pytest.mark.slow
@pytest.mark.parametrize("in_place", [False, True], ids=["elsewhere", "in place"])
def test_killed_at_any_moment_and_run_again(
    in_place: bool, spark: SparkSession, golden_log_copy: Callable[[str], Path], tmp_path: Path
) -> None:
    store, chance = golden_log_copy("transactions"), random.Random()
    rebuild(str(store), str(tmp_path / "local"), index_interval_bytes=256, sync=False)
    expected = digests(tmp_path / "local")
    output = store if in_place else tmp_path / "out"
    for turn in range(3):
        delay_s = kill_command([sys.executable, "-c", FOR_EVER, str(store), str(output)], chance)
        left = sorted(path.name for path in output.iterdir())
        settings = rebuild_settings(256, key_index=False, sync=False)
        rebuild_on(TaskRunner(spark), str(store), str(output), settings, in_place=in_place, task_size_bytes=40_000)
        now = digests(output)
        assert {name: now.get(name) for name in expected} == expected, (turn, delay_s, left)
        assert not [path for path in output.iterdir() if path.name.startswith(".logdex")]
