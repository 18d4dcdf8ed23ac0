"""Small stores for tests: a CommitLog with the ConsumeQueues and IndexFiles that belong to it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from logdex.rocketmq.message.stored_message import StoredMessage
from logdex.rocketmq.rebuild import rebuild
from logdex.rocketmq.settings.dialect import Dialect
from logdex.rocketmq.settings.store_config import StoreConfig
from logdex.rocketmq.snapshot.store_snapshot import StoreSnapshot
from logdex.testing.store_builder import make_message, write_commit_log

FILE_SIZE = 2048
START_MS = 1_700_000_000_000
CONFIG = StoreConfig(
    mapped_file_size_commit_log=FILE_SIZE,
    mapped_file_size_consume_queue=20 * 16,
    max_hash_slot_num=7,
    max_index_num=12,
    dialect=Dialect.of("5.5.0"),
)


def message(number: int, *, keys: str = "", tag: str = "", queue_id: int = 0, **changes: Any) -> StoredMessage:
    properties = [(b"UNIQ_KEY", b"u-%d" % number)] if changes.pop("unique", True) else []
    properties += [(b"KEYS", keys.encode())] if keys else []
    properties += [(b"TAGS", tag.encode())] if tag else []
    given = {"body": b"body %d" % number, "store_timestamp_ms": START_MS + 1_500 * number, **changes}
    return make_message(queue_id=queue_id, queue_offset=number, properties=properties, **given)


MESSAGES = [message(number, keys="hot" if number % 2 else f"k-{number}", tag="AB"[number % 2]) for number in range(40)]

CUT = MESSAGES[:22]
"""What is left of `MESSAGES` where a broker that recovers cuts the log."""
REGROWN = CUT + [message(number, keys="hot", body=b"other one" * (1 + number % 5)) for number in range(22, 50)]
"""What is in it later."""


def build(root: Path, messages: list[StoredMessage], config: StoreConfig = CONFIG, **placing: Any) -> Path:
    """A store with ConsumeQueues and IndexFiles, as a broker leaves it."""
    write_commit_log(str(root), messages, FILE_SIZE, **placing)
    rebuild(str(root), str(root), config, in_place=True, sync=False)
    return root


def opened(root: Path, config: StoreConfig = CONFIG) -> StoreSnapshot:
    return StoreSnapshot(str(root), config=config)


def numbers(messages: Any) -> list[int]:
    return [message.queue_offset for message in messages]
