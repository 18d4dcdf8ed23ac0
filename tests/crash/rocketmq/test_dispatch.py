"""A dispatch that is killed, or loses power, at any operation: the next run makes its files those
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

import pyarrow.parquet as pq
import pytest

import logdex
from logdex.errors import LogdexError
from logdex.io.env import DEFAULT_ENV
from logdex.rocketmq.dispatch.job import Dispatcher
from logdex.testing.fault_env import CHANGES, Fault, FaultEnv, Killed
from tests.golden.archives import ROOT
from tests.unit.rocketmq.dispatch.growing import CONFIG, SIZES, grow, require_rebuilt


def killed(store: Path, output: Path, at: int, *, cut_to: Path | None = None) -> bool:
    """Runs a dispatch that is killed at its `at`-th operation. Returns whether it was."""
    env = FaultEnv(str(output), Fault(at))
    try:
        with Dispatcher(store, output, CONFIG, env=env) as job:
            job.step()
    except Killed:
        env.release()
        if cut_to is not None:
            env.survivor(str(cut_to), at)
        return True
    env.release()
    return False


@pytest.mark.parametrize(
    ("step", "first", "power_cut"),
    [
        (170, 41, False),
        pytest.param(1, 1, False, marks=[pytest.mark.slow, pytest.mark.timeout(1800)]),
        pytest.param(3, 2, True, marks=[pytest.mark.slow, pytest.mark.timeout(1800)]),
    ],
)
def test_killed(tmp_path: Path, step: int, first: int, power_cut: bool) -> None:
    """The run is killed in a first dispatch and, from what that left, in one after the log has
    grown."""
    store = tmp_path / "store"
    at = first
    was_killed = True
    while was_killed:
        shutil.rmtree(store, ignore_errors=True)
        output = tmp_path / f"out-{at}"
        output.mkdir()
        was_killed = False
        for turn in range(2):
            grow(store, 40, turn)
            survivor = tmp_path / f"cut-{at}-{turn}" if power_cut else None
            if killed(store, output, at, cut_to=survivor):
                was_killed = True
                output = survivor or output
        with Dispatcher(store, output, CONFIG, env=DEFAULT_ENV) as job:
            job.step()
        require_rebuilt(store, output, tmp_path / "rebuilt")
        at += step


@pytest.mark.parametrize(
    ("step", "first"), [(60, 17), pytest.param(1, 1, marks=[pytest.mark.slow, pytest.mark.timeout(1800)])]
)
def test_a_full_disk(tmp_path: Path, step: int, first: int) -> None:
    """The system refuses an operation: an error, after which the next run goes on."""
    store, at, is_refused = tmp_path / "store", first, True
    grow(store, 60, 3)
    while is_refused:
        output = tmp_path / f"out-{at}"
        output.mkdir()
        env = FaultEnv(str(output), Fault(at, errno.ENOSPC, CHANGES))
        try:
            with Dispatcher(store, output, CONFIG, env=env) as job:
                job.step()
        except LogdexError:
            pass
        is_refused = env.hits > 0
        env.release()
        with Dispatcher(store, output, CONFIG) as job:
            job.step()
        require_rebuilt(store, output, tmp_path / "rebuilt")
        at += step


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("kills", [50])
def test_follow_killed_at_random_moments(tmp_path: Path, kills: int) -> None:
    """`logdex dispatch --follow --lake` is killed with SIGKILL, over and over, while the log
    grows."""
    store, output, lake, chance = tmp_path / "store", tmp_path / "out", tmp_path / "lake", random.Random(7)
    flags = [part for name, size in SIZES.items() for part in ("--" + name.replace("_", "-"), str(size))]
    command = [sys.executable, "-m", "logdex", "dispatch", str(store), "--output", str(output), *flags]
    command += ["--lake", str(lake)]
    journal = output / ".logdex-dispatch"
    grow(store, 10, 0)
    for turn in range(kills):
        before = journal.stat().st_mtime_ns if journal.exists() else 0
        running = subprocess.Popen([*command, "--follow", "--every", "0.05"], cwd=ROOT, stdout=subprocess.DEVNULL)
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and (not journal.exists() or journal.stat().st_mtime_ns == before):
            time.sleep(0.01)  # the program is still being loaded
        time.sleep(chance.random() * 0.5)
        grow(store, chance.randrange(30), turn)
        time.sleep(chance.random() * 0.5)
        running.kill()
        assert running.wait() == -signal.SIGKILL
    subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    require_rebuilt(store, output, tmp_path / "rebuilt")
    offsets = pq.read_table(lake, columns=["physicalOffset"])["physicalOffset"].to_pylist()
    with logdex.open(store, **SIZES) as snapshot:
        expected = snapshot.scan().arrow_reader().read_all()["physical_offset"].to_pylist()
    assert sorted(offsets) == expected, "each message once"
