"""A broker west of UTC goes on with a store that was rebuilt on a machine in UTC, and its queries
by time find all."""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path

import pytest

from logdex.rocketmq.geometry.resolve import resolve_config
from logdex.rocketmq.rebuild import rebuild
from logdex.rocketmq.snapshot.store_snapshot import StoreSnapshot
from logdex.rocketmq.verify import verify
from tests.interop.rocketmq.scenarios import MARKED_VERSIONS, run_peer, write_scenario

pytestmark = [pytest.mark.needs_java, pytest.mark.timeout(600), pytest.mark.slow]

GEOMETRY = ("--commitlog", "16384", "--cq", "20", "--slots", "50", "--max-index", "100")
LOS_ANGELES = ("-Duser.timezone=America/Los_Angeles",)
KEYS = [f"k{number}" for number in range(20)]
RUN_MS = 80_000
"""More than the broker's clock moves in one run."""


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def index_names(store: Path) -> list[str]:
    return sorted(path.name for path in (store / "index").iterdir())


def go_on(peers: Path, version: str, store: Path, after_ms: int = 0) -> int:
    """A broker in Los Angeles writes 200 messages. Its files are named soon after their first
    message's store time. Returns a time before the first of them, and after `after_ms`."""
    start_ms = max(now_ms() - 45_000, after_ms)
    write_scenario(peers, version, "plain", store, "--clock-start", str(start_ms), geometry=GEOMETRY, java=LOS_ANGELES)
    return start_ms - 1_000  # an IndexFile has times in seconds


def answers(peers: Path, version: str, store: Path, begin_ms: int, end_ms: int) -> dict[str, set[int]]:
    """The broker's answers to queries by key and time."""
    queries = store.with_name(store.name + "-queries")
    queries.write_text("".join(f"T\t{key}\t64\t{begin_ms}\t{end_ms}\n" for key in KEYS))
    arguments = ("DumpStore", "--dir", store, "--queries", queries, "--no-messages")
    lines = map(json.loads, run_peer(peers, version, *arguments, geometry=GEOMETRY, java=LOS_ANGELES).splitlines())
    return {line["key"]: set(line["physicalOffsets"]) for line in lines if line["type"] == "query"}


def in_the_log(store: Path, begin_ms: int, end_ms: int) -> dict[str, set[int]]:
    found: dict[str, set[int]] = {key: set() for key in KEYS}
    with StoreSnapshot(store, config=resolve_config(str(store))) as snapshot:
        for message in snapshot.scan():
            if begin_ms <= message.store_timestamp_ms <= end_ms:
                found[message.keys[0].decode()].add(message.physical_offset)
    return found


@pytest.mark.parametrize("version", MARKED_VERSIONS)
def test_a_broker_goes_on_with_the_rebuilt_names(version: str, peers_dir: Path, tmp_path: Path) -> None:
    store = tmp_path / "store"
    first_ms = go_on(peers_dir, version, store)
    named = index_names(store)
    assert named[-1] < time.strftime("%Y%m%d%H%M%S", time.gmtime(time.time() - 6 * 3600))
    in_utc = shutil.copytree(store, tmp_path / "utc")
    report = rebuild(store, store, resolve_config(str(store)), in_place=True, sync=False)
    assert report.time_zone in (f"-0{hours}:00, as the IndexFiles are named" for hours in (7, 8))
    rebuild(in_utc, in_utc, resolve_config(str(in_utc)), in_place=True, sync=False, time_zone="UTC")

    for root in (store, in_utc):
        before = index_names(root)
        assert len(before) == len(named) >= 4
        begin_ms = go_on(peers_dir, version, root, first_ms + RUN_MS)
        new = set(index_names(root)) - set(before)
        assert len(new) >= 3
        expected = in_the_log(root, begin_ms, begin_ms + RUN_MS)
        assert sum(map(len, expected.values())) >= 100
        found = answers(peers_dir, version, root, begin_ms, begin_ms + RUN_MS)
        if root is store:
            assert min(new) > max(before)
            assert found == expected
            assert [str(finding) for finding in verify(root, resolve_config(str(root))).findings] == []
        else:  # why the zone matters
            assert max(new) < min(before)
            assert any(found[key] < expected[key] for key in KEYS)
