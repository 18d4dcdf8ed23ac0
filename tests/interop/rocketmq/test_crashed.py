"""A crashed store is rebuilt, then the real engine starts on it: it keeps the rebuilt IndexFiles
and answers every query by key. Without the checkpoint that the rebuild writes, it deletes them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from logdex.rocketmq.geometry.resolve import resolve_config
from logdex.rocketmq.rebuild import rebuild, rebuild_on
from logdex.rocketmq.snapshot.store_snapshot import StoreSnapshot
from logdex.rocketmq.verify import verify
from tests.interop.rocketmq.scenarios import MARKED_VERSIONS, index_contents, queue_files, run_peer, write_scenario
from tests.unit.rocketmq.rebuild.test_job import Serial

pytestmark = [pytest.mark.needs_java, pytest.mark.timeout(600), pytest.mark.slow]

NEVER_FULL = 5000
GEOMETRY = ("--commitlog", "4096", "--cq", "20", "--slots", "50", "--max-index")
KEYS = [f"k{number}" for number in range(20)]
HEADER_SIZE, ENTRIES_AT = 40, 40 + 4 * 50


def crashed(peers: Path, version: str, store: Path, max_index: int) -> Path:
    """A store that was shut down cleanly once, and then went on and crashed. The next start begins
    its recovery where the first run ended."""
    geometry = (*GEOMETRY, str(max_index))
    write_scenario(peers, version, "plain", store, geometry=geometry)
    later = ("--clock-start", "1700001000000", "--halt", "--linger", "1500")
    write_scenario(peers, version, "plain", store, *later, geometry=geometry)
    assert (store / "abort").exists()
    return store


def started(peers: Path, version: str, store: Path, work: Path, max_index: int) -> tuple[Path, dict[str, set[int]]]:
    """The store after the engine started on a copy of it and was shut down, and its answers to
    queries by key."""
    work.mkdir()
    (work / "queries").write_text("".join(f"T\t{key}\t64\t0\t{1 << 62}\n" for key in KEYS))
    arguments = ("DumpStore", "--dir", store, "--keep", work / "kept", "--queries", work / "queries")
    lines: list[dict[str, Any]] = [
        json.loads(line)
        for line in run_peer(peers, version, *arguments, geometry=(*GEOMETRY, str(max_index))).splitlines()
    ]
    answers = {line["key"]: set(line["physicalOffsets"]) for line in lines if line["type"] == "query"}
    return work / "kept", answers


@pytest.mark.parametrize("max_index", [100, NEVER_FULL])
@pytest.mark.parametrize("version", MARKED_VERSIONS)
def test_the_next_start_after_a_crash_keeps_the_rebuilt_index(
    version: str, max_index: int, peers_dir: Path, tmp_path: Path
) -> None:
    store = crashed(peers_dir, version, tmp_path / "store", max_index)
    config = resolve_config(str(store))
    shutil.copytree(store, tmp_path / "without")
    shutil.copytree(store, tmp_path / "tasks")
    report = rebuild(store, store, config, in_place=True, sync=False)
    parallel = rebuild_on(Serial(), tmp_path / "tasks", tmp_path / "tasks", config, in_place=True, sync=False)
    assert (report.checkpoint, report.losses, parallel.checkpoint) == (True, [], True)
    assert (tmp_path / "tasks" / "checkpoint").read_bytes() == (store / "checkpoint").read_bytes()
    assert [str(finding) for finding in verify(store, config).findings] == []
    with StoreSnapshot(store, config=config) as snapshot:
        expected = {
            key: {message.physical_offset for message in snapshot.query_message("T", key).messages} for key in KEYS
        }
    assert {len(offsets) for offsets in expected.values()} == {20}
    kept, answers = started(peers_dir, version, store, tmp_path / "with-checkpoint", max_index)
    assert answers == expected
    assert queue_files(kept) == queue_files(store)
    before, after = index_contents(store), index_contents(kept)
    assert after[: len(before) - 1] == before[:-1]
    same = slice(ENTRIES_AT, ENTRIES_AT + 20 * int.from_bytes(before[-1][36:40], "big"))
    assert after[len(before) - 1][same] == before[-1][same]  # the keys of the last message are put again behind it

    if max_index == NEVER_FULL:
        for name in ("consumequeue", "index"):
            shutil.rmtree(tmp_path / "without" / name)
            shutil.copytree(store / name, tmp_path / "without" / name)
        _, answers = started(peers_dir, version, tmp_path / "without", tmp_path / "without-checkpoint", max_index)
        assert all(answers[key] < expected[key] for key in KEYS)  # what the broker does without the checkpoint


@pytest.mark.parametrize("version", MARKED_VERSIONS)
def test_an_output_elsewhere_has_the_checkpoint_too(version: str, peers_dir: Path, tmp_path: Path) -> None:
    store = crashed(peers_dir, version, tmp_path / "store", NEVER_FULL)
    report = rebuild(store, tmp_path / "out", resolve_config(str(store)), sync=False)
    assert report.checkpoint
    for name in ("consumequeue", "index"):
        shutil.rmtree(store / name)
        shutil.move(tmp_path / "out" / name, store / name)
    shutil.move(tmp_path / "out" / "checkpoint", store / "checkpoint")
    _, answers = started(peers_dir, version, store, tmp_path / "started", NEVER_FULL)
    assert {len(offsets) for offsets in answers.values()} == {20}
