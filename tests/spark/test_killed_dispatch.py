"""`logdex dispatch --engine spark --follow` whose driver is killed, over and over, beside a log
that grows: in the end the files are those of a rebuild, and the lake has each message once.

Each run starts a Spark of its own, so each test kills 6 of them; with LOGDEX_TEST_SEEDS=all it
kills 50, at other random moments each."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import logdex
from tests.examples import every
from tests.golden.archives import ROOT
from tests.unit.kafka.dispatch import growing as kafka
from tests.unit.rocketmq.dispatch import growing as rocketmq

KILLS = every(9, range(50))
pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(600 * len(KILLS))]
START_S = 240
"""How long a run may take until it has taken in something, on a busy machine."""


class Dispatch:
    """The command, with a directory of output and a lake, and a log that `grow` adds to."""

    def __init__(self, log: Path, folder: Path, flags: list[str], grow: Callable[[int], None]) -> None:
        self.output, self.lake = folder / "out", folder / "lake"
        self._grow = grow
        self._command = [sys.executable, "-m", "logdex", "dispatch", str(log), "--output", str(self.output), *flags]
        self._command += ["--lake", str(self.lake), "--engine", "spark", "--master", "local[2]"]
        self._said = folder / "said"
        self.turns = 0

    def _progress(self) -> int:
        """When the journal was last written."""
        home = self.output / ".logdex-dispatch"
        times = []
        for path in [home, *home.rglob("*")]:
            try:
                times.append(path.stat().st_mtime_ns)
            except FileNotFoundError:  # replaced, or not there yet
                times.append(0)
        return max(times)

    def _grow_once(self) -> None:
        self._grow(self.turns)
        self.turns += 1

    def kill_again_and_again(self, chance: random.Random) -> None:
        """Kills it behind progress: in turn the driver alone, whose executors notice it a little
        later, and all its processes at once."""
        for number in KILLS:
            before = self._progress()
            with self._said.open("wb") as said:
                running = subprocess.Popen(
                    [*self._command, "--follow", "--every", "0.1"],
                    cwd=ROOT,
                    stdout=said,
                    stderr=said,
                    start_new_session=True,
                )
            try:
                self._follow(running, before, chance)
                if number % 2:
                    running.kill()
                else:
                    os.killpg(running.pid, signal.SIGKILL)
                assert running.wait() == -signal.SIGKILL
            except BaseException:
                os.killpg(running.pid, signal.SIGKILL)
                running.wait()
                raise

    def _follow(self, running: subprocess.Popen[bytes], before: int, chance: random.Random) -> None:
        """Lets the log grow until the run has taken in something, and for a moment more."""
        self._grow_once()
        deadline = time.monotonic() + START_S
        while self._progress() == before:
            assert running.poll() is None, self._said.read_text()
            assert time.monotonic() < deadline, self._said.read_text()
            time.sleep(0.05)
        for _ in range(2):
            time.sleep(chance.uniform(0, 1.5))
            self._grow_once()

    def finish(self) -> None:
        """One run until the end of the log."""
        done = subprocess.run(self._command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=600)
        assert done.returncode == 0, done.stderr

    def rows_of_lake(self, *columns: str) -> list[tuple[object, ...]]:
        return sorted(tuple(row.values()) for row in pq.read_table(self.lake, columns=[*columns]).to_pylist())


def test_a_store_of_rocketmq(tmp_path: Path) -> None:
    store, chance = tmp_path / "store", random.Random(3)
    flags = [part for name, size in rocketmq.SIZES.items() for part in ("--" + name.replace("_", "-"), str(size))]
    run = Dispatch(store, tmp_path, flags, lambda turn: rocketmq.grow(store, 10 + chance.randrange(60), turn))
    rocketmq.grow(store, 40, 99)
    run.kill_again_and_again(chance)
    run.finish()
    rocketmq.require_rebuilt(store, run.output, tmp_path / "rebuilt")
    with logdex.open(store, **rocketmq.SIZES) as snapshot:
        offsets = snapshot.scan().arrow_reader().read_all()["physical_offset"].to_pylist()
    assert run.rows_of_lake("physicalOffset") == [(offset,) for offset in offsets]
    assert run.turns >= 3 * len(KILLS)


def test_log_directories_of_kafka(tmp_path: Path) -> None:
    logs, chance = tmp_path / "logs", random.Random(4)

    def grow(turn: int) -> None:
        for partition in range(2):
            kafka.grow(logs / f"a-{partition}", 5 + chance.randrange(20), 2 * turn + partition)

    run = Dispatch(logs, tmp_path, ["--index-interval-bytes", str(kafka.INTERVAL)], grow)
    grow(99)
    run.kill_again_and_again(chance)
    run.finish()
    kafka.require_rebuilt(logs, run.output, tmp_path / "rebuilt")
    with logdex.open(logs) as snapshot:
        records = snapshot.scan().arrow_reader().read_all().select(["partition", "offset"]).to_pylist()
    assert run.rows_of_lake("partition", "offset") == sorted(tuple(row.values()) for row in records)
    assert run.turns >= 3 * len(KILLS)
