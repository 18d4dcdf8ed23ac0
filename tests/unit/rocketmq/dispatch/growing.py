"""A store that grows, and what a dispatch of it must write: the files of a rebuild."""

from __future__ import annotations

import random
import shutil
import struct
from pathlib import Path
from typing import Any

import logdex
from logdex.rocketmq.consume_queue.consume_queue import discover_queues
from logdex.rocketmq.index_file.index_file import IndexFile
from logdex.rocketmq.message_store.message_store import MessageStore
from logdex.rocketmq.message_store.put.message import Message
from logdex.rocketmq.rebuild import rebuild
from logdex.rocketmq.settings.dialect import Dialect
from logdex.rocketmq.settings.store_config import StoreConfig

CONFIG = StoreConfig(
    mapped_file_size_commit_log=4096,
    mapped_file_size_consume_queue=20 * 16,
    max_hash_slot_num=7,
    max_index_num=24,
    dialect=Dialect.of("5.5.0"),
)
SIZES: dict[str, Any] = {
    "mapped_file_size_commit_log": 4096,
    "mapped_file_size_consume_queue": 20 * 16,
    "max_hash_slot_num": 7,
    "max_index_num": 24,
    "rocketmq_version": "5.5.0",
}


def grow(path: Path, count: int, seed: int) -> None:
    """Puts messages into a store, some with keys, some with none."""
    chance = random.Random(seed)
    with MessageStore.open(path, background=False, **SIZES) as store:
        for number in range(count):
            keys = tuple(f"k-{chance.randrange(9)}-{place}" for place in range(chance.choice((0, 1, 1, 3))))
            body = bytes(chance.randrange(200))
            topic = chance.choice(("a", "b"))
            assert store.put_message(Message(topic=topic, body=body + b"%d" % number, keys=keys, tags="t")).is_stored


def files_of(directory: Path) -> dict[str, bytes]:
    """The ConsumeQueues and IndexFiles by name."""
    found = [*(directory / "consumequeue").rglob("*"), *(directory / "index").rglob("*")]
    return {str(path.relative_to(directory)): path.read_bytes() for path in found if path.is_file()}


def require_rebuilt(store: Path, output: Path, folder: Path) -> None:
    """What was dispatched is what a rebuild writes, byte for byte."""
    shutil.rmtree(folder, ignore_errors=True)
    rebuild(str(store), str(folder), CONFIG, sync=False)
    expected, found = files_of(folder), files_of(output)
    assert found.keys() == expected.keys()
    assert [name for name in expected if found[name] != expected[name]] == []


def require_found(store: Path, output: Path, folder: Path) -> None:
    """What was dispatched leads to the messages that the log has as a rebuild of this log does,
    whatever else it has of messages that are gone: the same entries, each once and in the same
    order."""
    shutil.rmtree(folder, ignore_errors=True)
    rebuild(str(store), str(folder), CONFIG, sync=False)
    begin = min(int(path.name) for path in (store / "commitlog").iterdir())
    assert queue_entries(output, begin) == queue_entries(folder, begin)
    assert index_entries(output, begin) == index_entries(folder, begin)
    with logdex.open(store, **SIZES) as snapshot:
        messages = snapshot.scan().to_arrow().read_all()["physical_offset"].to_pylist()
    assert sorted(entry[0] for found in queue_entries(output, begin).values() for entry in found.values()) == messages


def queue_entries(directory: Path, begin: int) -> dict[tuple[bytes, int], dict[int, tuple[int, int, int]]]:
    """The ConsumeQueue entries that point behind a physical offset, by queue and queue offset."""
    found = {}
    for topic, queue_id, queue in discover_queues(str(directory)):
        entries = {}
        for path in sorted(Path(queue).iterdir()):
            for at, entry in enumerate(struct.iter_unpack(">qiq", path.read_bytes())):
                if entry[1] not in (0, 0x7FFFFFFF) and entry[0] >= begin:
                    entries[int(path.name) // 20 + at] = entry
        if entries:
            found[topic, queue_id] = entries
    return found


def index_entries(directory: Path, begin: int) -> list[tuple[int, int]]:
    """The (key hash, physical offset) of the IndexFiles' entries that point behind a physical
    offset, in their order."""
    found = []
    for path in sorted((directory / "index").iterdir()):
        with IndexFile(str(path), CONFIG) as file:
            entries = file.entries(1, file.header.index_count - 1)
        found += [
            (key_hash, offset)
            for key_hash, offset in zip(entries.key_hash.tolist(), entries.phy_offset.tolist(), strict=True)
            if offset >= begin
        ]
    return found
