"""The real engine goes on with a store whose newest CommitLog files are gone: the index then
contradicts the log."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from logdex.rocketmq.snapshot.store_snapshot import StoreSnapshot
from tests.interop.rocketmq.engines import VERSIONS
from tests.java import QUICK

pytestmark = [pytest.mark.needs_java, pytest.mark.slow, pytest.mark.timeout(600)]

GEOMETRY = ("--commitlog", "65536", "--cq", "200", "--slots", "101", "--max-index", "100000")


def write(peers: Path, store: Path, messages: int, clock_start_ms: int, version: str) -> None:
    command = [str(peers / "run"), "-v", version, "WriteScenario", "--what", "plain", "--dir", str(store), *GEOMETRY]
    command += ["--messages", str(messages), "--clock-start", str(clock_start_ms)]
    subprocess.run(command, env={**os.environ, "JAVA_OPTS": " ".join(QUICK)}, timeout=500, check=True)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_cut_log_that_grew_again(version: str, peers_dir: Path, tmp_path: Path) -> None:
    store = tmp_path / "store"
    write(peers_dir, store, 2_500, 1_700_000_000_123, version)
    files = sorted((store / "commitlog").iterdir())
    for path in files[-3:]:
        path.unlink()
    write(peers_dir, store, 1_500, 1_700_000_600_123, version)
    with StoreSnapshot(str(store), max_hash_slot_num=101, max_index_num=100_000) as snapshot:
        (missing,) = snapshot.missing_ranges()
        cut_at, old_end = int(files[-3].name), int(files[-1].name)
        assert missing[0] == cut_at
        assert missing[1] > old_end
        for at, message in list(snapshot.scan(topic="T").items())[::25]:
            key = message.unique_key or b""
            seen = snapshot.query_message("T", key)
            assert at in seen.phy_offsets or (missing[0] <= at < missing[1] and not seen.complete)
            every = snapshot.query_message("T", key, scan_missing=True)
            assert at in every.phy_offsets
            assert every.complete
