"""The real engine starts on what a killed `rebuild --in-place` or `recover --in-place` left,
without a second run, and loses nothing: every message in the log is served by its queue, and found
by its keys."""

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
from logdex.rocketmq.snapshot.store_snapshot import StoreSnapshot
from logdex.testing import Fault, FaultEnv, Killed
from tests.interop.rocketmq.scenarios import MARKED_VERSIONS, run_peer, write_scenario

pytestmark = [pytest.mark.needs_java, pytest.mark.slow, pytest.mark.timeout(1200)]

KILLS = 4
KEYS = [f"k{number}" for number in range(20)]
Command = Callable[[Path, Env], object]


def rebuilt(root: Path, env: Env) -> object:
    return rebuild(root, root, resolve_config(str(root)), in_place=True, env=env)


def recovered(root: Path, env: Env) -> object:
    return recover(root, root, resolve_config(str(root)), in_place=True, env=env)


def served(peers: Path, version: str, root: Path) -> tuple[set[int], dict[str, set[int]]]:
    """The physical offsets that the engine's getMessage gives after a start on a copy of a store,
    and those that its queryMessage gives for each key."""
    queries = root.with_name("queries")
    queries.write_text("".join(f"T\t{key}\t64\t0\t{1 << 62}\n" for key in KEYS))
    arguments = ("DumpStore", "--dir", root, "--queries", queries)
    lines = [json.loads(line) for line in run_peer(peers, version, *arguments).splitlines()]
    queued = {line["physicalOffset"] for line in lines if line["type"] == "entry" and line["read"]}
    return queued, {line["key"]: set(line["physicalOffsets"]) for line in lines if line["type"] == "query"}


def in_the_log(root: Path) -> dict[str, set[int]]:
    """The physical offsets of the messages with each key, found without the index."""
    with StoreSnapshot(root) as snapshot:
        found = [(offset, message.keys) for offset, message in snapshot.scan().items()]
    return {key: {offset for offset, keys in found if key.encode() in keys} for key in KEYS}


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
    queued, _ = served(peers_dir, version, root)
    assert len(queued) == 200 * (1 + crashed)
    keyed = in_the_log(root)
    assert {len(offsets) for offsets in keyed.values()} == {10 * (1 + crashed)}
    shutil.copytree(root, tmp_path / "usual")
    for number, at in enumerate(kill_points(tmp_path / "usual", command)):
        left = tmp_path / f"left-{number}"
        shutil.copytree(root, left)
        env = FaultEnv(str(left), Fault(at))
        with pytest.raises(Killed):
            command(left, env)
        env.release()
        assert served(peers_dir, version, left) == (queued, keyed), f"killed at {at} {env.log[-1]}"
