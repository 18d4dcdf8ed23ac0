"""The dispatch of a store into another directory: the files of a rebuild, wherever a run ended."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from logdex.convert.index_pipeline import IndexPipeline
from logdex.errors import CorruptError, LogInUseError, UsageError
from logdex.jobs.tasks import LocalRunner
from logdex.layout.rocketmq import MESSAGE_MAGIC_V1
from logdex.rocketmq.dispatch.job import Dispatcher
from tests.unit.rocketmq.dispatch.growing import CONFIG, files_of, grow, require_rebuilt


@pytest.mark.parametrize("part_size", [None, 700, 100_000])
def test_a_growing_store(tmp_path: Path, part_size: int | None) -> None:
    """Run after run, in this process or on a runner, with parts that begin in the middle of
    files."""
    store, output = tmp_path / "store", tmp_path / "out"
    for turn in range(4):
        grow(store, 40, turn)
        with Dispatcher(store, output, CONFIG) as job:
            job.step(None if part_size is None else LocalRunner(), part_size_bytes=part_size)
        require_rebuilt(store, output, tmp_path / "rebuilt")
        assert job.report.messages == 40
        assert not job.report.lossy
    with Dispatcher(store, output, CONFIG) as job:
        before = files_of(output)
        assert not job.step()
        assert job.report.messages == 0
    assert files_of(output) == before


def test_follow(tmp_path: Path) -> None:
    store, output = tmp_path / "store", tmp_path / "out"
    grow(store, 10, 0)
    with Dispatcher(store, output, CONFIG) as job:
        following = threading.Thread(target=IndexPipeline(job).run, kwargs={"follow": True, "every_s": 0.02})
        following.start()
        for turn in range(3):
            grow(store, 30, turn)
        deadline = time.monotonic() + 100
        while job.report.messages < 100 and time.monotonic() < deadline:
            time.sleep(0.02)
        job.stop()
        following.join()
    require_rebuilt(store, output, tmp_path / "rebuilt")


def test_a_run_that_was_broken_off(tmp_path: Path) -> None:
    store, output = tmp_path / "store", tmp_path / "out"
    for turn in range(5):
        grow(store, 25, turn)
        job = Dispatcher(store, output, CONFIG)
        job.step()
        job._output.abandon()
    with Dispatcher(store, output, CONFIG) as job:
        job.step()
    require_rebuilt(store, output, tmp_path / "rebuilt")


@pytest.mark.parametrize("on_runner", [False, True])
def test_up_to_an_offset(tmp_path: Path, on_runner: bool) -> None:
    """A step that is asked for a part of the log takes that, and the next ones take the rest."""
    store, output = tmp_path / "store", tmp_path / "out"
    grow(store, 80, 1)
    runner = LocalRunner() if on_runner else None
    with Dispatcher(store, output, CONFIG) as job:
        job._output.scanner.window_messages = 3
        for end in (4096, 9000, 9000, 1 << 40):
            job.step(runner, until={("store", "commitlog"): end})
            assert job.report.end_offset >= min(end, 9000)
            if end == 4096:
                assert job.report.messages < 80
        assert job.report.messages == 80
    require_rebuilt(store, output, tmp_path / "rebuilt")


def test_what_killed_runs_left_is_removed(tmp_path: Path) -> None:
    store, output = tmp_path / "store", tmp_path / "out"
    grow(store, 5, 1)
    (output / ".logdex-dispatch-stage-0123" / "parts").mkdir(parents=True)
    with Dispatcher(store, output, CONFIG) as job:
        job.step(LocalRunner())
    assert not list(output.glob(".logdex-dispatch-stage*"))


def test_a_log_that_is_another_one(tmp_path: Path) -> None:
    """The end of the log was cut off and written anew, as after a broker's crash: the run begins
    from the start."""
    output = tmp_path / "out"
    for number, store in enumerate((tmp_path / "one", tmp_path / "two")):
        grow(store, 50, number)
        with Dispatcher(store, output, CONFIG) as job:
            job.step()
        require_rebuilt(store, output, tmp_path / "rebuilt")


def test_damage(tmp_path: Path) -> None:
    store, output = tmp_path / "store", tmp_path / "out"
    grow(store, 60, 1)
    file = sorted((store / "commitlog").iterdir())[1]
    data = bytearray(file.read_bytes())
    magic = MESSAGE_MAGIC_V1.to_bytes(4, "big", signed=MESSAGE_MAGIC_V1 < 0)
    data[data.index(magic, 2000)] ^= 0xFF
    file.write_bytes(data)
    with Dispatcher(store, output, CONFIG) as job:
        job.step()
    assert job.report.lossy
    require_rebuilt(store, output, tmp_path / "rebuilt")


def test_what_is_refused(tmp_path: Path) -> None:
    store, output = tmp_path / "store", tmp_path / "out"
    grow(store, 5, 0)
    with pytest.raises(UsageError):
        Dispatcher(store, store, CONFIG)
    (output / "index").mkdir(parents=True)
    (output / "index" / "mine").write_text("x")
    with pytest.raises(UsageError, match="no dispatch wrote"):
        Dispatcher(store, output, CONFIG)
    (output / "index" / "mine").unlink()
    with Dispatcher(store, output, CONFIG), pytest.raises(LogInUseError, match="another dispatch"):
        Dispatcher(store, output, CONFIG)
    (output / ".logdex-dispatch").write_text("{}")
    with pytest.raises(CorruptError, match="no journal of a dispatch"):
        Dispatcher(store, output, CONFIG)
