"""The real engine starts on what a killed `rebuild --in-place` or `recover --in-place` left,
without a second run, and loses nothing: every message in the log is served by its queue."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from logdex.io.env import Env
from logdex.jobs.journal import LOCK_NAME
from logdex.rocketmq.geometry.resolve import resolve_config
from logdex.rocketmq.rebuild import rebuild
from logdex.rocketmq.recover import recover
from logdex.testing import Fault, FaultEnv, Killed
from tests.interop.rocketmq.scenarios import MARKED_VERSIONS, run_peer, write_scenario

pytestmark = [pytest.mark.needs_java, pytest.mark.slow, pytest.mark.timeout(1200)]

KILLS = 4
Command = Callable[[Path, Env], object]


def rebuilt(root: Path, env: Env) -> object:
    return rebuild(root, root, resolve_config(str(root)), in_place=True, env=env)


def recovered(root: Path, env: Env) -> object:
    return recover(root, root, resolve_config(str(root)), in_place=True, env=env)


def served(peers: Path, version: str, root: Path) -> set[int]:
    """The physical offsets that the engine's getMessage gives after a start on a copy of a
    store."""
    lines = map(json.loads, run_peer(peers, version, "DumpStore", "--dir", root).splitlines())
    return {line["physicalOffset"] for line in lines if line["type"] == "entry" and line["read"]}


def kill_points(root: Path, command: Command) -> list[int]:
    """Some operations between the journal and the last change of a name, the first and the last
    included."""
    env = FaultEnv(str(root))
    command(root, env)
    begin = max(at for at, (kind, path) in enumerate(env.log, 1) if kind == "sync" and path.endswith(LOCK_NAME))
    changes = ("rename", "link", "exchange", "remove")
    names = [at for at, (kind, _) in enumerate(env.log, 1) if kind in changes and at > begin]
    return [names[number * (len(names) - 1) // (KILLS - 1)] + 1 for number in range(KILLS)]


@pytest.mark.parametrize("crashed", [False, True])
@pytest.mark.parametrize("version", MARKED_VERSIONS)
@pytest.mark.parametrize("command", [rebuilt, recovered])
def test_the_engine_starts_on_what_a_kill_left(
    command: Command, version: str, crashed: bool, peers_dir: Path, tmp_path: Path
) -> None:
    root = write_scenario(peers_dir, version, "plain", tmp_path / "store")
    if crashed:
        later = ("--clock-start", "1700001000000", "--halt")
        write_scenario(peers_dir, version, "plain", root, *later)
        assert (root / "abort").exists()
    wanted = served(peers_dir, version, root)
    assert len(wanted) == 200 * (1 + crashed)
    shutil.copytree(root, tmp_path / "usual")
    for number, at in enumerate(kill_points(tmp_path / "usual", command)):
        left = tmp_path / f"left-{number}"
        shutil.copytree(root, left)
        env = FaultEnv(str(left), Fault(at))
        with pytest.raises(Killed):
            command(left, env)
        env.release()
        assert served(peers_dir, version, left) == wanted, f"killed at {at} {env.log[-1]}"
