"""Logs that lose again what a killed run has derived: the next run removes it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from logdex.kafka.directory.recognise import require_kafka
from logdex.kafka.dispatch.job import LogDispatcher
from logdex.kafka.log.log import Log
from logdex.testing.fault_env import Fault, FaultEnv, Killed
from tests.unit.kafka.dispatch.growing import INTERVAL, dispatch, grow, require_rebuilt


@pytest.mark.parametrize(
    ("first", "step", "power_cut"), [(150, 19, False), pytest.param(150, 3, True, marks=pytest.mark.slow)]
)
def test_segments_that_are_gone_again_after_a_kill(tmp_path: Path, first: int, step: int, power_cut: bool) -> None:
    """New segments, which a killed run has derived, are not there any more, as after a crash of the
    broker; the others are as they were."""
    logs, output = tmp_path / "logs", tmp_path / "out"
    grow(logs / "a-0", 6, 1)
    dispatch(logs, output)
    before = {path: path.stat() for path in (logs / "a-0").glob("*.log")}
    with Log.open(logs / "a-0") as log:
        log.roll()
    grow(logs / "a-0", 6, 2, segment_bytes=100_000)
    assert all(path.stat().st_mtime_ns == stat.st_mtime_ns for path, stat in before.items())
    new = [path for path in (logs / "a-0").glob("*.log") if path not in before]
    (tmp_path / "aside").mkdir()
    at, was_killed = first, True
    while was_killed:
        copy = tmp_path / f"out-{at}"
        shutil.copytree(output, copy)
        env = FaultEnv(str(copy), Fault(at))
        try:
            with LogDispatcher(require_kafka(str(logs)), copy, index_interval_bytes=INTERVAL, env=env) as job:
                job.step()
            was_killed = False
        except Killed:
            pass
        env.release()
        if was_killed and power_cut:
            copy = tmp_path / f"cut-{at}"
            env.survivor(str(copy), at)
        for path in new:
            path.rename(tmp_path / "aside" / path.name)
        dispatch(logs, copy)
        require_rebuilt(logs, copy, tmp_path / "rebuilt")
        for path in new:
            (tmp_path / "aside" / path.name).rename(path)
        at += step
