"""A slave that is killed, or loses its power, while it follows its master: its log stays the
beginning of the master's, byte for byte, and has all that it acknowledged."""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from logdex.rocketmq.ha.client import HAClient
from logdex.rocketmq.ha.wire import pack_transfer
from logdex.testing import FaultEnv
from tests.golden.archives import ROOT
from tests.unit.rocketmq.ha.masters import filled_store, follow, log_bytes, read_report, serving
from tests.unit.rocketmq.message_store.open_stores import open_store, require_sound

SEEDS_OF_CUTS = (0, 7, 5)
"""The last one loses all that was not synced."""


def test_what_is_acknowledged_survives_a_power_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = filled_store(tmp_path / "master", 20)
    (tmp_path / "machine").mkdir()
    env, left, reports = FaultEnv(str(tmp_path / "machine")), tmp_path / "left", [1]
    report = HAClient.report

    def check_and_report(client: HAClient, offset: int) -> None:
        if offset > reports[-1]:  # 1 asks for an empty log, and a report may be repeated
            reports.append(offset)
            for seed in SEEDS_OF_CUTS:
                env.survivor(str(left), seed)
                assert log_bytes(left / "slave")[:offset] == log[:offset]
                if len(reports) % len(SEEDS_OF_CUTS) == SEEDS_OF_CUTS.index(seed):
                    with open_store(left / "slave", is_slave=True) as store:
                        assert store.max_phy_offset >= offset
                    require_sound(left / "slave")
                shutil.rmtree(left)
        report(client, offset)

    def behave(own: socket.socket, request: int) -> None:
        """Waits for a report after each part, so that there are several."""
        places = [request, *range(1024, len(log), 1024), len(log)]
        for at, end in pairwise(places):
            own.sendall(pack_transfer(at, log[at:end]))
            read_report(own)
        own.sendall(pack_transfer(len(log)))

    monkeypatch.setattr(HAClient, "report", check_and_report)
    slave = tmp_path / "machine" / "slave"
    with serving(behave) as master, follow(master, slave, env=env, background=False) as follower:
        follower.run(until_caught_up=True)
    assert reports[-1] == len(log)
    assert len(reports) > 4


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_killed_slaves(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.crash.rocketmq.killed_slaves", str(tmp_path), "100", "7"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 0  # something was written
