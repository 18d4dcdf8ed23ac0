"""A small store and a small Kafka log directory with the same topics, for tests that ask both the
same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from logdex.kafka import Log, Record
from logdex.rocketmq import Message, MessageStore

SIZES: dict[str, Any] = {"mapped_file_size_commit_log": 4096, "max_hash_slot_num": 7, "max_index_num": 8}


def make_places(root: Path) -> Path:
    """Makes `root`/store and `root`/logs: the topics orders and payments with two queues or
    partitions, and, in the store, the topic planned without a message. Returns `root`."""
    with MessageStore.open(root / "store", background=False, default_topic_queue_nums=2, **SIZES) as store:
        for topic in ("orders", "payments"):
            for queue_id in range(2):
                store.put_message(Message(topic, b"paid", keys="k", queue_id=queue_id, born_timestamp_ms=1))
        store.create_topic("planned", 3)
    for topic in ("orders", "payments"):
        for number in range(2):
            with Log.open(root / "logs" / f"{topic}-{number}") as log:
                log.append(Record(b"k", b"paid"))
    return root
