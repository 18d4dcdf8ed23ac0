"""Run as a program: writers of one `MessageStore`, each killed with SIGKILL at a random moment, the
store checked after each.

    python -m tests.crash.rocketmq.killed_writers DIRECTORY ROUNDS SEED
"""

from __future__ import annotations

import random
import sys
from functools import partial
from typing import Any

import pyarrow as pa

from logdex.rocketmq.message_store.message_store import MessageStore
from logdex.rocketmq.message_store.put.message import Message
from logdex.rocketmq.settings.store_config import StoreConfig
from logdex.rocketmq.verify import verify
from tests.crash.killed import kill_writers, tell

SIZES: dict[str, Any] = {
    "mapped_file_size_commit_log": 16384,
    "mapped_file_size_consume_queue": 1000,
    "max_hash_slot_num": 101,
    "max_index_num": 300,
}


def open_store(path: str) -> MessageStore:
    return MessageStore.open(path, flush="sync", background=False, **SIZES)


def write(path: str, pipe: int, seed: int) -> None:
    """Puts until it is killed; tells the pipe the end of the log that was acknowledged."""
    chance = random.Random(seed)
    store = open_store(path)
    tell(pipe, store.max_phy_offset)
    while True:
        kind, key = chance.random(), str(store.max_phy_offset)
        if kind < 0.1:
            store.put_messages([Message("T", b"x" * chance.randrange(200), keys=key, queue_id=0)] * 3)
        elif kind < 0.2:
            count = chance.randrange(1, 40)
            store.put_columns(pa.table({"topic": ["T"] * count, "keys": [key] * count}))
        elif kind < 0.3:
            store.dispatch()
        elif kind < 0.35:
            store.flush()
        elif kind < 0.38:
            store.put_half(Message("T", b"x" * chance.randrange(200), keys=key, queue_id=0))
        elif kind < 0.41:
            for half in store.pending_transactions()[:1]:
                store.end_transaction(half, commit=chance.random() < 0.5)
        elif kind < 0.415:
            store.delete_expired(disk_ratio=0.0)
        else:
            store.put_message(Message(chance.choice("TU"), b"x" * chance.randrange(900), keys=key))
        tell(pipe, store.max_phy_offset)


def check(path: str, known: int) -> int:
    """Requires what was acknowledged, and no finding. Returns the end of the log."""
    with open_store(path) as store:
        end = store.max_phy_offset
        assert end >= known, (end, known)
        assert store.dispatch_behind_bytes == 0
    report = verify(path, StoreConfig(**SIZES))
    assert [str(finding) for finding in report.findings] == []
    return end


def main(path: str, rounds: int, seed: int) -> None:
    """Raises `AssertionError` where something is missing, wrong or cannot be gone on with."""
    check(f"{path}-warm", 0)  # loads the kernels, which forked writers then have
    with open_store(f"{path}-warm") as store:
        store.put_columns(pa.table({"topic": ["T"], "keys": ["k"]}))
    check(f"{path}-warm", 1)
    print(kill_writers(partial(write, path), partial(check, path), rounds, seed))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
