"""The dispatch of a log directory into another directory: the files of a rebuild, wherever a run
ended."""

from __future__ import annotations

import os
import shutil
import threading
import time
from pathlib import Path

import pytest

from logdex.convert.index_pipeline import IndexPipeline
from logdex.errors import CorruptError, LogInUseError, UsageError
from logdex.jobs.tasks import LocalRunner
from logdex.kafka.directory.recognise import require_kafka
from logdex.kafka.dispatch.job import LogDispatcher
from logdex.kafka.log.log import Log
from tests.unit.kafka.dispatch.growing import derived, dispatch, dispatcher, grow, require_rebuilt


@pytest.mark.parametrize("on_runner", [False, True])
def test_growing_logs(tmp_path: Path, on_runner: bool) -> None:
    """Run after run, in this process or on a runner, a group of one partition at a time. Old
    segments are removed."""
    logs, output = tmp_path / "logs", tmp_path / "out"
    for turn in range(3):
        grow(logs / "a-0", 20, turn)
        grow(logs / "b-0", 25, turn + 9, retention_bytes=4000)
        with dispatcher(logs, output) as job:
            assert job.step(LocalRunner() if on_runner else None, group_bytes=1)
            assert not job.step()
        require_rebuilt(logs, output, tmp_path / "rebuilt")
        assert not job.report.lossy
        assert job.report.partitions == 2
        assert job.report.messages > 0
    before = {path: path.stat().st_mtime_ns for path in output.rglob("0*")}
    job = dispatch(logs, output)
    assert (job.report.messages, job.report.segments) == (0, 0)
    assert {path: path.stat().st_mtime_ns for path in output.rglob("0*")} == before


def test_only_what_has_changed_is_derived(tmp_path: Path) -> None:
    logs, output = tmp_path / "logs", tmp_path / "out"
    grow(logs / "a-0", 40, 1)
    grow(logs / "b-0", 10, 2)
    count = len(list(logs.rglob("*.log")))
    assert dispatch(logs, output).report.segments == count > 5
    grow(logs / "a-0", 1, 3)
    assert dispatch(logs, output).report.segments <= 2


def test_one_partition(tmp_path: Path) -> None:
    logs, output = tmp_path / "logs", tmp_path / "out"
    for turn in range(2):
        grow(logs / "a-0", 20, turn)
        dispatch(logs / "a-0", output)
        require_rebuilt(logs / "a-0", output, tmp_path / "rebuilt")


def test_a_log_that_was_cut_and_written_anew(tmp_path: Path) -> None:
    """Between two runs a log is cut, another is written to the same length, and a topic is deleted
    and made again."""
    logs, output = tmp_path / "logs", tmp_path / "out"
    for name in ("a-0", "b-0", "c-0"):
        grow(logs / name, 20, 1)
    dispatch(logs, output)
    with Log.open(logs / "a-0") as log:
        log.truncate_to(log.log_end_offset // 2)
    last = sorted((logs / "b-0").glob("*.log"))[-1]
    data = bytearray(last.read_bytes())
    data[-1] ^= 1
    last.write_bytes(data)
    shutil.rmtree(logs / "c-0")
    grow(logs / "c-0", 20, 2)
    job = dispatch(logs, output)
    require_rebuilt(logs, output, tmp_path / "rebuilt")
    assert job.report.lossy, "the damaged batch"
    shutil.rmtree(logs / "c-0")
    dispatch(logs, output)
    assert not (output / "c-0").exists()
    require_rebuilt(logs, output, tmp_path / "rebuilt")


def test_the_interval_is_inferred_as_by_a_rebuild(tmp_path: Path) -> None:
    """Also where the logs show another one than before."""
    logs, output, intervals = tmp_path / "logs", tmp_path / "out", []
    for turn in range(2):
        grow(logs / "a-0", 1 + 60 * turn, turn)
        with LogDispatcher(require_kafka(str(logs)), output) as job:
            job.step()
        intervals += [each.interval_bytes for each in job._output.journals.values()]
        require_rebuilt(logs, output, tmp_path / f"rebuilt-{turn}", interval=None)
    assert intervals == [4096, 200]


def test_files_that_are_missing_are_derived_again(tmp_path: Path) -> None:
    logs, output = tmp_path / "logs", tmp_path / "out"
    grow(logs / "a-0", 20, 1)
    dispatch(logs, output)
    for pattern in ("*.keyindex", "*.snapshot"):
        sorted((output / "a-0").glob(pattern))[0].unlink()
        dispatch(logs, output)
        require_rebuilt(logs, output, tmp_path / "rebuilt")


def test_a_segment_that_a_broker_removes_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is removed after the listing; the step looks again."""
    logs, output = tmp_path / "logs", tmp_path / "out"
    grow(logs / "a-0", 40, 1)
    look, removed = LogDispatcher._look_at, list[Path]()

    def then_remove(self: LogDispatcher, source):  # type: ignore[no-untyped-def]
        found = list(look(self, source))
        if not removed and self._intervals:
            removed.append(sorted((logs / "a-0").glob("*.log"))[0])
            removed[0].unlink()
        return iter(found)

    monkeypatch.setattr(LogDispatcher, "_look_at", then_remove)
    dispatch(logs, output)
    assert removed
    require_rebuilt(logs, output, tmp_path / "rebuilt")


def test_follow(tmp_path: Path) -> None:
    logs, output = tmp_path / "logs", tmp_path / "out"
    grow(logs / "a-0", 10, 0)
    with dispatcher(logs, output) as job:
        following = threading.Thread(target=IndexPipeline(job).run, kwargs={"follow": True, "every_s": 0.02})
        following.start()
        grow(logs / "a-0", 20, 1)
        grow(logs / "b-0", 20, 2)
        deadline = time.monotonic() + 100
        while job.report.partitions < 2 and time.monotonic() < deadline:
            time.sleep(0.02)
        job.stop()
        following.join()
    assert job.report.partitions == 2
    dispatch(logs, output)
    require_rebuilt(logs, output, tmp_path / "rebuilt")


def test_what_is_refused(tmp_path: Path) -> None:
    logs, output = tmp_path / "logs", tmp_path / "out"
    grow(logs / "a-0", 5, 0)
    with pytest.raises(UsageError, match="lies in") as refused:
        dispatcher(logs, logs)
    assert refused.value.hint == "choose another --output", "a dispatch has no --in-place"
    with pytest.raises(UsageError, match="whole partitions"):
        dispatcher(next((logs / "a-0").glob("*.log")), output)
    output.mkdir()
    (output / "mine").write_text("x")
    with pytest.raises(UsageError, match="no dispatch of Kafka logs wrote"):
        dispatcher(logs, output)
    (output / "mine").unlink()
    with dispatcher(logs, output), pytest.raises(LogInUseError, match="another dispatch"):
        dispatcher(logs, output)
    dispatch(logs, output)
    before = derived(output)
    journal = output / ".logdex-dispatch" / "a-0" / "journal.json"
    text = journal.read_text()
    journal.write_text("{}")
    with pytest.raises(CorruptError, match="no journal of a dispatch"):
        dispatcher(logs, output)
    journal.write_text(text.replace('"version": 1', '"version": 0'))
    dispatch(logs, output)
    assert derived(output) == before


def test_logs_are_not_touched(tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    grow(logs / "a-0", 20, 0)
    before = {path: (path.stat().st_mtime_ns, os.listdir(path) if path.is_dir() else None) for path in logs.rglob("*")}
    dispatch(logs, tmp_path / "out")
    after = {path: (path.stat().st_mtime_ns, os.listdir(path) if path.is_dir() else None) for path in logs.rglob("*")}
    assert after == before


def test_a_stage_folder_alone_is_no_others_file(tmp_path: Path) -> None:
    """A power cut may leave the folder of a first run, and not that of its journals."""
    logs, output = tmp_path / "logs", tmp_path / "out"
    grow(logs / "a-0", 5, 0)
    (output / ".logdex-dispatch-stage-0123").mkdir(parents=True)
    dispatch(logs, output)
    require_rebuilt(logs, output, tmp_path / "rebuilt")
    assert not list(output.glob(".logdex-dispatch-stage*"))
