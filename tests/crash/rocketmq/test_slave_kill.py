"""A slave that is killed with SIGKILL over and over while its master is put into: its log stays the
beginning of the master's, byte for byte, and has all that it acknowledged."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.golden.archives import ROOT


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_killed_slaves(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.crash.rocketmq.killed_slaves", str(tmp_path), "100", "7"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 0  # something was written
