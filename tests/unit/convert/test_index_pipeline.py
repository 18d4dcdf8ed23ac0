"""The steps of a dispatch with a lake: each message once in each of them, wherever a run ended."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from logdex.convert.export import job as export_job
from logdex.convert.index_pipeline import IndexPipeline, Lake
from logdex.convert.sources.rocketmq import StoreSource
from logdex.errors import StorageError, UsageError
from logdex.jobs.tasks import LocalRunner
from logdex.rocketmq.dispatch.job import Dispatcher
from tests.unit.rocketmq.dispatch.growing import CONFIG, SIZES, grow, require_rebuilt


def lake_of(folder: Path) -> Lake:
    return Lake(StoreSource(str(folder / "store"), settings=SIZES), str(folder / "lake"), sync=False)


def exported(folder: Path) -> list[int]:
    offsets: list[int] = pq.read_table(folder / "lake", columns=["physicalOffset"])["physicalOffset"].to_pylist()
    return offsets


@pytest.mark.parametrize("on_runner", [False, True])
def test_steps(tmp_path: Path, on_runner: bool) -> None:
    """Each step adds to both what has come, and nothing if nothing has."""
    grow(tmp_path / "store", 10, 0)
    with Dispatcher(tmp_path / "store", tmp_path / "out", CONFIG) as job:
        pipeline = IndexPipeline(job, lake_of(tmp_path), runner=LocalRunner() if on_runner else None)
        for turn in range(3):
            pipeline.step()
            pipeline.step()
            assert job.report.messages == job.report.lake_messages == 10 * (turn + 1)
            grow(tmp_path / "store", 10, turn + 1)
        pipeline.run(follow=False, every_s=9)
    require_rebuilt(tmp_path / "store", tmp_path / "out", tmp_path / "rebuilt")
    assert len(exported(tmp_path)) == len(set(exported(tmp_path))) == 40
    assert len(list((tmp_path / "lake" / "_logdex").iterdir())) == 4


def test_a_lake_that_was_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The indexes were written and the lake was not: the next run exports it, though the log has
    not grown."""
    grow(tmp_path / "store", 10, 0)

    def full(*_: object) -> None:
        raise StorageError("no space left on device", path="x")

    with monkeypatch.context() as patch:
        patch.setattr(export_job._Export, "publish", full)
        with pytest.raises(StorageError), Dispatcher(tmp_path / "store", tmp_path / "out", CONFIG) as job:
            IndexPipeline(job, lake_of(tmp_path)).step()
    with Dispatcher(tmp_path / "store", tmp_path / "out", CONFIG) as job:
        IndexPipeline(job, lake_of(tmp_path)).step()
        assert (job.report.messages, job.report.lake_messages) == (0, 10)
    assert len(exported(tmp_path)) == 10


def test_a_log_that_was_cut_behind_the_lake(tmp_path: Path) -> None:
    """The indexes go on, and the lake, whose rows cannot be taken back, is an error."""
    grow(tmp_path / "store", 60, 0)
    with Dispatcher(tmp_path / "store", tmp_path / "out", CONFIG) as job:
        IndexPipeline(job, lake_of(tmp_path)).step()
    (tmp_path / "store").rename(tmp_path / "before")
    grow(tmp_path / "store", 10, 1)
    with (
        pytest.raises(UsageError, match="was cut, or is another log"),
        Dispatcher(tmp_path / "store", tmp_path / "out", CONFIG) as job,
    ):
        IndexPipeline(job, lake_of(tmp_path)).step()
    with Dispatcher(tmp_path / "store", tmp_path / "out", CONFIG) as job:
        IndexPipeline(job).step()
    require_rebuilt(tmp_path / "store", tmp_path / "out", tmp_path / "rebuilt")


def test_nothing_is_done_once_it_is_stopped(tmp_path: Path) -> None:
    grow(tmp_path / "store", 10, 0)
    with Dispatcher(tmp_path / "store", tmp_path / "out", CONFIG) as job:
        pipeline = IndexPipeline(job, lake_of(tmp_path))
        job.stop()
        pipeline.run(follow=True, every_s=99)
        pipeline.wait_for_step()
    assert not (tmp_path / "lake").exists()
    assert job.report.messages == 0
