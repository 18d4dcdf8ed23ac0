"""A store that grows, and what a dispatch of it must write: the files of a rebuild."""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from typing import Any

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
