"""Checks and scans beside a real engine that writes as fast as it can: no finding in a hundred
runs, and no scan ends in damage."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from logdex.errors import MissingFileError, NotAStoreError
from logdex.rocketmq.geometry.resolve import resolve_config
from logdex.rocketmq.settings.store_config import StoreConfig
from logdex.rocketmq.snapshot.store_snapshot import StoreSnapshot
from logdex.rocketmq.verify import verify
from tests.interop.rocketmq.scenarios import MARKED_VERSIONS
from tests.java import QUICK

pytestmark = [pytest.mark.needs_java, pytest.mark.slow, pytest.mark.timeout(7200)]

RUNS = 100
SECONDS = 20
"""How long one store grows. The longer it is, the fewer checks of it there are; then comes the
next."""
SIZES = {"--commitlog": 1 << 20, "--cq": 2000, "--slots": 5000, "--max-index": 20_000}


@contextmanager
def live(peers: Path, version: str, store: Path) -> Iterator[subprocess.Popen[bytes]]:
    """An engine that puts messages into `store` for some seconds."""
    command = [str(peers / "run"), "-v", version, "WriteScenario", "--what", "plain", "--dir", str(store)]
    command += ["--live", str(SECONDS), *(text for flag, size in SIZES.items() for text in (flag, str(size)))]
    environ = {**os.environ, "JAVA_OPTS": " ".join(QUICK)}
    process = subprocess.Popen(command, env=environ, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def config_when_there(store: Path, process: subprocess.Popen[bytes]) -> StoreConfig:
    """The store's settings, once the engine has made its first files."""
    while process.poll() is None:
        try:
            if any((store / "index").iterdir()):
                return resolve_config(
                    str(store),
                    mapped_file_size_commit_log=SIZES["--commitlog"],
                    mapped_file_size_consume_queue=20 * SIZES["--cq"],
                    max_hash_slot_num=SIZES["--slots"],
                    max_index_num=SIZES["--max-index"],
                )
        except (FileNotFoundError, MissingFileError, NotAStoreError):
            pass
        time.sleep(0.05)
    raise AssertionError("the engine wrote nothing")


@pytest.mark.parametrize("version", MARKED_VERSIONS)
def test_nothing_is_found_beside_a_writing_engine(version: str, peers_dir: Path, tmp_path: Path) -> None:
    runs = 0
    for number in range(RUNS):
        store = tmp_path / f"store-{number}"
        with live(peers_dir, version, store) as process:
            config = config_when_there(store, process)
            runs += checked_until_ended(process, store, config)
        shutil.rmtree(store)
        if runs >= RUNS:
            return
    raise AssertionError(f"only {runs} runs")


def checked_until_ended(process: subprocess.Popen[bytes], store: Path, config: StoreConfig) -> int:
    """How many runs of verify ended while the engine wrote."""
    runs, before = 0, 0
    while process.poll() is None:
        report = verify(store, config)
        told = [f"{each.check} {each.path} {each.position}: {each.message}, {each.found}" for each in report.findings]
        assert not told, "\n".join([f"run {runs}, {report.messages} messages", *told[:40], *map(str, report.infos)])
        assert report.is_sound
        if runs % 4 == 0:
            before = scanned(store, config, before)
        runs += process.poll() is None
    return runs


def scanned(store: Path, config: StoreConfig, before: int) -> int:
    """The number of messages that a scan finds, at least as many as before."""
    with StoreSnapshot(store, config=config) as snapshot:
        scan = snapshot.scan()
        count = sum(1 for _ in scan.items())
    assert scan.end is not None
    assert scan.end.is_clean, scan.end
    assert count >= before
    return count
