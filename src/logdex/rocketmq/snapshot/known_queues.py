"""Which topics and queues a store is known to have, before its log is read."""

from __future__ import annotations

from collections.abc import Iterable

from logdex.errors import MissingFileError, StoreError
from logdex.io.env import DEFAULT_ENV, Env
from logdex.primitives.wrong_questions import unknown_part, unknown_topic
from logdex.rocketmq.consume_queue.consume_queue import discover_queues
from logdex.rocketmq.files.config_files import TopicConfigs
from logdex.rocketmq.files.store_files import StorePaths

QUEUES_MAX = 1 << 16
"""How many queues a topic can have at most."""
Queue = tuple[bytes, int]
"""A topic and a queue id."""


class KnownQueues(frozenset[Queue]):
    """The queues with a ConsumeQueue directory, and those of the topics in topics.json. One
    CommitLog file has none."""

    @staticmethod
    def read(root: str, env: Env = DEFAULT_ENV) -> KnownQueues:
        """Reads the names of the store at `root`, and its topics.json if that can be read."""
        if not env.is_dir(root):
            return KnownQueues()
        on_disk = {(topic, queue_id) for topic, queue_id, _ in discover_queues(root, env=env)}
        try:
            topics = TopicConfigs.read(StorePaths(root).config, env=env).topics
        except StoreError:
            topics = {}  # verify reports it
        stated = {
            (name, queue_id)
            for name, each in topics.items()
            for queue_id in range(min(max(each.read_queue_nums, each.write_queue_nums), QUEUES_MAX))
        }
        return KnownQueues(on_disk | stated)

    def has(self, topic: bytes | None, queue_id: int | None) -> bool:
        """Whether a queue, or any that is asked for if one of the two is None, is known."""
        return any(topic in (None, name) and queue_id in (None, number) for name, number in self)


def no_such_queue(known: Iterable[Queue], topic: bytes | None, queue_id: int | None, path: str) -> MissingFileError:
    """Returns the error for a topic or queue that is not among the known ones."""
    by_topic: dict[str, set[int]] = {}
    for name, number in sorted(known):
        by_topic.setdefault(name.decode("utf-8", "surrogateescape"), set()).add(number)
    asked = None if topic is None else topic.decode("utf-8", "surrogateescape")
    if asked is not None and (asked not in by_topic or queue_id is None):
        return unknown_topic(asked, by_topic, path)
    there = {number for name, numbers in by_topic.items() if asked in (None, name) for number in numbers}
    assert queue_id is not None
    return unknown_part("queue", queue_id, asked, sorted(there), path)
