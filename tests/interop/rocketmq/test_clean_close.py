"""A store that `MessageStore` closed beside the same store that the engine opened and closed: the
same files, the same bytes, but for what is named here; and the engine agrees where a store begins
from which old files were removed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from logdex.rocketmq.files.checkpoint import StoreCheckpoint
from logdex.rocketmq.message_store.message_store import MessageStore
from logdex.rocketmq.message_store.put.message import Message
from tests.directories import contents
from tests.interop.rocketmq.engines import VERSIONS
from tests.interop.rocketmq.scenarios import GEOMETRY, run_peer
from tests.interop.rocketmq.test_ping_pong import SIZES

pytestmark = [pytest.mark.needs_java, pytest.mark.slow, pytest.mark.timeout(600)]

CQ_SIZES = {**SIZES, "mapped_file_size_consume_queue": 400}
ONLY_THEIRS = {"5.5.0": "rocksdbstore", "4.9.7": "-"}
"""5.5.0 makes an empty RocksDB database in this directory when it opens a store."""


def fill(store: MessageStore) -> None:
    for number in range(120):
        assert store.put_message(Message("T", b"x" * 300, tags="a", keys=f"k{number}", queue_id=number % 2)).is_stored
    store.put_message(Message("T", b"later", delay_level=18))


@pytest.mark.parametrize("version", VERSIONS)
def test_a_clean_close_leaves_what_the_engine_leaves(version: str, peers_dir: Path, tmp_path: Path) -> None:
    root, kept = tmp_path / "store", tmp_path / "kept"
    with MessageStore.open(root, rocketmq_version=version, background=False, **CQ_SIZES) as store:
        fill(store)
    ours = contents(root)
    run_peer(peers_dir, version, "DumpStore", "--dir", root, "--keep", kept, "--no-messages")
    theirs = contents(kept)
    assert "abort" not in ours
    assert {name for name in ours.keys() ^ theirs.keys() if not name.startswith(ONLY_THEIRS[version])} == set()
    confirmed = StoreCheckpoint.unpack(theirs["checkpoint"])
    if version == "5.5.0":  # it notes at its start where the last message begins that it found
        assert confirmed.confirm_phy_offset > 0
        theirs["checkpoint"] = confirmed._replace(confirm_phy_offset=0).pack()
    assert {name for name in ours if ours[name] != theirs[name]} == set()


@pytest.mark.parametrize("version", VERSIONS)
def test_the_engine_agrees_where_a_store_begins(version: str, peers_dir: Path, tmp_path: Path) -> None:
    root = tmp_path / "store"
    with MessageStore.open(root, rocketmq_version=version, background=False, **CQ_SIZES) as store:
        fill(store)
        report = store.delete_expired(0, now_ms=1 << 50)
        assert report.min_phy_offset > 0
        begin, end = store.min_phy_offset, store.max_phy_offset
        infos = {(info.topic.decode(), info.queue_id): info for info in store.queues()}
    text = run_peer(peers_dir, version, "DumpStore", "--dir", root, geometry=GEOMETRY)
    lines = [json.loads(line) for line in text.splitlines()]
    [head] = [line for line in lines if line["type"] == "store"]
    assert (head["minPhyOffset"], head["maxPhyOffset"]) == (begin, end)
    queues = {(line["topic"], line["queueId"]): line for line in lines if line["type"] == "queue"}
    for name in (("T", 0), ("T", 1)):
        assert (queues[name]["min"], queues[name]["max"]) == (infos[name].min_offset, infos[name].max_offset)
    assert all(line["read"] for line in lines if line["type"] == "entry")
