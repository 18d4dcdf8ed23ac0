"""Stores with a history that production knows, written by the real engine (`WriteScenario` of the
peers)."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from logdex.rocketmq.geometry.resolve import resolve_config
from logdex.rocketmq.rebuild import RebuildReport, rebuild, rebuild_on
from logdex.rocketmq.settings.store_config import StoreConfig
from logdex.rocketmq.verify import verify
from tests.directories import contents
from tests.interop.rocketmq.engines import VERSIONS
from tests.java import QUICK
from tests.unit.rocketmq.rebuild.test_job import Serial

GEOMETRY = ("--commitlog", "16384", "--cq", "20", "--slots", "100", "--max-index", "1000")
MARKED_VERSIONS = [VERSIONS[0], *(pytest.param(version, marks=pytest.mark.slow) for version in VERSIONS[1:])]
"""The versions; tests of all but the newest are slow."""


def run_peer(
    peers: Path, version: str, *arguments: str | Path, geometry: tuple[str, ...] = GEOMETRY, java: tuple[str, ...] = ()
) -> str:
    """What a program of the peers prints. `java` are options of the JVM."""
    command = [str(peers / "run"), "-v", version, *map(str, arguments), *geometry]
    environ = {**os.environ, "JAVA_OPTS": " ".join([*QUICK, *java])}
    return subprocess.run(command, env=environ, capture_output=True, timeout=300, check=True).stdout.decode()


def write_scenario(
    peers: Path,
    version: str,
    what: str,
    store: Path,
    *more: str,
    geometry: tuple[str, ...] = GEOMETRY,
    java: tuple[str, ...] = (),
) -> Path:
    """A store of one scenario, as the engine left it."""
    arguments: tuple[str | Path, ...] = ("WriteScenario", "--what", what, "--dir", store, "--messages", "200", *more)
    run_peer(peers, version, *arguments, geometry=geometry, java=java)
    return store


def queue_files(root: Path) -> dict[str, bytes]:
    """The files below consumequeue/, by name."""
    return {name: data for name, data in contents(root).items() if name.startswith("consumequeue/") and data}


def index_contents(root: Path) -> list[bytes]:
    """The IndexFiles in the order of their names, which are a clock's."""
    return [data for name, data in sorted(contents(root).items()) if name.startswith("index/") and data]


def require_same_again(store: Path, output: Path, config: StoreConfig | None = None) -> RebuildReport:
    """Both engines must rebuild what the broker has on its disk, and verify must have no findings.
    Returns the report."""
    config = config or resolve_config(str(store))
    assert [str(finding) for finding in verify(store, config).findings] == []
    report = rebuild(str(store), str(output / "local"), config, sync=False)
    parallel = rebuild_on(Serial(3), str(store), str(output / "tasks"), config, sync=False, part_size_bytes=5000)
    assert (report.losses, parallel.losses) == ([], [])
    assert report.assumed == parallel.assumed
    for rebuilt in (output / "local", output / "tasks"):
        assert queue_files(rebuilt) == queue_files(store)
        assert index_contents(rebuilt) == index_contents(store)
    return report
