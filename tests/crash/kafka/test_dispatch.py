"""A dispatch of logs that is killed, or loses power, anywhere: the next run makes its files those
of a rebuild."""

from __future__ import annotations

import errno
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from logdex.errors import LogdexError
from logdex.kafka.directory.recognise import require_kafka
from logdex.kafka.dispatch.job import LogDispatcher
from logdex.testing.fault_env import CHANGES, Fault, FaultEnv, Killed
from tests.golden.archives import ROOT
from tests.unit.kafka.dispatch.growing import INTERVAL, dispatch, grow, require_rebuilt

SLOW = [pytest.mark.slow, pytest.mark.timeout(1800)]


def run(logs: Path, output: Path, env: FaultEnv) -> None:
    with LogDispatcher(require_kafka(str(logs)), output, index_interval_bytes=INTERVAL, env=env) as job:
        job.step()


def change(logs: Path, turn: int) -> None:
    """Lets logs grow, a third one go and come again, and old segments be removed."""
    grow(logs / "a-0", 8, turn)
    grow(logs / "b-0", 8, turn + 7, retention_bytes=3000)
    shutil.rmtree(logs / "c-0", ignore_errors=True)
    if turn % 2:
        grow(logs / "c-0", 3, turn)


@pytest.mark.parametrize(
    ("step", "first", "power_cut"),
    [(130, 61, False), (143, 150, True), pytest.param(1, 1, False, marks=SLOW), pytest.param(3, 2, True, marks=SLOW)],
)
def test_killed(tmp_path: Path, step: int, first: int, power_cut: bool) -> None:
    """The run is killed in a first dispatch and, from what that left, in one after the logs have
    changed."""
    at, was_killed = first, True
    states = [tmp_path / "logs-0", tmp_path / "logs-1"]
    for turn, logs in enumerate(states):
        if turn:
            shutil.copytree(states[0], logs)
        change(logs, turn)
    while was_killed:
        output, was_killed = tmp_path / f"out-{at}", False
        output.mkdir()
        for turn, logs in enumerate(states):
            env = FaultEnv(str(output), Fault(at))
            try:
                run(logs, output, env)
            except Killed:
                was_killed = True
            env.release()
            if env.hits and power_cut:
                output = tmp_path / f"cut-{at}-{turn}"
                env.survivor(str(output), at)
        dispatch(states[1], output)
        require_rebuilt(states[1], output, tmp_path / "rebuilt")
        at += step


@pytest.mark.parametrize(("step", "first"), [(150, 37), pytest.param(1, 1, marks=SLOW)])
def test_a_full_disk(tmp_path: Path, step: int, first: int) -> None:
    """The system refuses an operation: an error, after which the next run goes on."""
    logs, at, is_refused = tmp_path / "logs", first, True
    change(logs, 1)
    while is_refused:
        output = tmp_path / f"out-{at}"
        output.mkdir()
        env = FaultEnv(str(output), Fault(at, errno.ENOSPC, CHANGES))
        try:
            run(logs, output, env)
        except LogdexError:
            pass
        is_refused = env.hits > 0
        env.release()
        dispatch(logs, output)
        require_rebuilt(logs, output, tmp_path / "rebuilt")
        at += step


def wait_for_a_write(journal: Path, before: int) -> None:
    """Waits until a program has been loaded and has written a journal anew."""
    deadline = time.monotonic() + 120
    while not journal.exists() or journal.stat().st_mtime_ns == before:
        assert time.monotonic() < deadline, "the program has written nothing"
        time.sleep(0.01)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("kills", [50])
def test_follow_killed_at_random_moments(tmp_path: Path, kills: int) -> None:
    """`logdex dispatch --follow` is killed with SIGKILL, over and over, while the logs change."""
    logs, output, chance = tmp_path / "logs", tmp_path / "out", random.Random(7)
    command = [sys.executable, "-m", "logdex", "dispatch", str(logs), "--output", str(output)]
    command += ["--index-interval-bytes", str(INTERVAL)]
    change(logs, 0)
    journal = output / ".logdex-dispatch" / "a-0" / "journal.json"
    for turn in range(1, kills + 1):
        grow(logs / "a-0", 1, turn)  # so that the first look has something to write
        before = journal.stat().st_mtime_ns if journal.exists() else 0
        running = subprocess.Popen([*command, "--follow", "--every", "0.02"], cwd=ROOT, stdout=subprocess.DEVNULL)
        wait_for_a_write(journal, before)
        for part in range(3):
            time.sleep(chance.random())
            change(logs, turn + part)
        running.kill()
        assert running.wait() == -signal.SIGKILL
    subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    require_rebuilt(logs, output, tmp_path / "rebuilt")
