"""A process that puts with flush="sync", killed with SIGKILL over and over: nothing acknowledged is
lost."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.golden.archives import ROOT


@pytest.mark.parametrize("rounds", [5, pytest.param(200, marks=[pytest.mark.slow, pytest.mark.timeout(2400)])])
def test_killed_writers(tmp_path: Path, rounds: int) -> None:
    command = [sys.executable, "-m", "tests.crash.rocketmq.killed_writers", str(tmp_path / "store"), str(rounds), "7"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 0  # something was written
