"""The stores that the crash tests rebuild and read."""

from __future__ import annotations

from pathlib import Path

from logdex.rocketmq.rebuild import rebuild
from logdex.rocketmq.settings.dialect import Dialect
from logdex.rocketmq.settings.store_config import StoreConfig
from logdex.testing.store_builder import write_commit_log
from tests.crash.trees import Outputs, tree
from tests.unit.rocketmq.small_stores import FILE_SIZE, message

CONFIG = StoreConfig(
    mapped_file_size_commit_log=FILE_SIZE,
    mapped_file_size_consume_queue=20 * 8,
    max_hash_slot_num=7,
    max_index_num=60,
    dialect=Dialect.of("5.5.0"),
)
NAMES = ("consumequeue", "index")


def write_log(root: Path, count: int = 40, config: StoreConfig = CONFIG) -> Path:
    """A store that is a CommitLog alone: two topics, three queues."""
    queues = ((b"TopicA", 0), (b"TopicA", 1), (b"TopicB", 0))
    messages = [
        message(number // 3, keys=f"k-{number}", tag="AB"[number % 2], topic=topic, queue_id=queue_id)
        for number in range(count)
        for topic, queue_id in [queues[number % 3]]
    ]
    write_commit_log(str(root), messages, config.mapped_file_size_commit_log)
    return root


def make_outputs(folder: Path, count: int = 40, config: StoreConfig = CONFIG) -> Outputs:
    """A store below `folder`, with what belongs to it; the old output is that of a shorter log."""
    trees = []
    for name, messages in (("old", count // 3), ("store", count)):
        root = write_log(folder / name, messages, config)
        rebuild(str(root), str(folder / f"{name}-out"), config, sync=False)
        trees.append({part: tree(folder / f"{name}-out" / part) for part in NAMES})
    return Outputs(folder / "store", trees[1], trees[0])
