"""`logdex.spark.rebuild` goes through the registry of formats; the tasks run here, without a
Spark."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import logdex.spark
from logdex.errors import UsageError
from logdex.jobs.tasks import LocalRunner
from tests.directories import digests, tree_hash

NO_SPARK: Any = None


@pytest.fixture(autouse=True)
def tasks_run_here(monkeypatch: pytest.MonkeyPatch) -> None:
    def runner(spark: None, progress: Any) -> LocalRunner:
        return LocalRunner(progress)

    monkeypatch.setattr("logdex.spark.rebuild_job.runner_of", runner)


def test_both_formats(golden_store: Callable[[str], Path], golden_log: Callable[[str], Path], tmp_path: Path) -> None:
    for root, derived in ((golden_store("tiny-5.5.0"), "index"), (golden_log("tiny-broker"), "orders-0")):
        before = tree_hash(root)
        seen: list[int] = []
        output = tmp_path / derived

        def note(done: int, size_bytes: int, seen: list[int] = seen) -> None:
            seen.append(done)

        report = logdex.spark.rebuild(NO_SPARK, root, output, sync=False, progress=note)
        assert (report.engine, report.lossy, seen[-1]) == ("spark", False, report.messages)
        assert (output / derived).is_dir()
        assert tree_hash(root) == before


def test_settings_and_the_default_output(golden_log_copy: Callable[[str], Path], tmp_path: Path) -> None:
    partition = golden_log_copy("tiny-broker") / "orders-0"
    logdex.spark.rebuild(NO_SPARK, partition, tmp_path / "coarse", sync=False, index_interval_bytes=1 << 20)
    logdex.spark.rebuild(NO_SPARK, f"{partition}/", tmp_path / "keys", sync=False, key_index=True)
    coarse, keys = digests(tmp_path / "coarse"), digests(tmp_path / "keys")
    assert {name for name in keys if name not in coarse} == {
        name.replace(".index", ".keyindex") for name in coarse if name.endswith(".index")
    }
    assert any(coarse[name] != keys[name] for name in coarse)
    logdex.spark.rebuild(NO_SPARK, f"{partition}/{0:020d}.log", in_place=True, sync=False)
    with pytest.raises(UsageError, match="lies in"):  # beside it: in the log directory that is read
        logdex.spark.rebuild(NO_SPARK, partition, sync=False)
    logdex.spark.rebuild(NO_SPARK, partition.parent, sync=False)
    assert Path(f"{partition.parent}-rebuilt").is_dir()


def test_settings_of_the_other_format_are_refused(
    golden_store: Callable[[str], Path], golden_log: Callable[[str], Path], tmp_path: Path
) -> None:
    for root, setting in ((golden_store("tiny-5.5.0"), "key_index"), (golden_log("tiny-broker"), "max_index_num")):
        wrong: dict[str, Any] = {setting: True}
        with pytest.raises(UsageError, match=f"{setting} a setting of"):
            logdex.spark.rebuild(NO_SPARK, root, tmp_path / "no", progress=None, **wrong)
    with pytest.raises(UsageError, match="did you mean key_index"):
        logdex.spark.rebuild(NO_SPARK, root, tmp_path / "no", key_indx=True)  # type: ignore[call-arg]
