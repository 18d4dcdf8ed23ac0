"""Which topics a broker has deleted, although the CommitLog still has their messages.

Source: ``docs/formats/config-json.md``; TopicConfigManager, TopicValidator,
DefaultMessageStore.cleanUnusedTopic.
"""

from __future__ import annotations

from dataclasses import dataclass

from logdex.errors import CorruptError, UnreadableError, VanishedError
from logdex.io.env import DEFAULT_ENV, Env
from logdex.rocketmq.files.config_files import TopicConfigs
from logdex.rocketmq.files.offset_files import has_offset_files
from logdex.rocketmq.files.store_files import StorePaths, queue_folder

_LIGHT_QUEUE_PREFIX = "%LMQ%"
"""Begins the names of light message queues, which are in no topics.json."""
_SYSTEM_PREFIX = "rmq_sys_"
_SYSTEM_TOPICS = frozenset(
    (
        "TBW102",
        "SCHEDULE_TOPIC_XXXX",
        "BenchmarkTest",
        "RMQ_SYS_TRANS_HALF_TOPIC",
        "RMQ_SYS_TRACE_TOPIC",
        "RMQ_SYS_TRANS_OP_HALF_TOPIC",
        "TRANS_CHECK_MAX_TIME_TOPIC",
        "SELF_TEST_TOPIC",
        "OFFSET_MOVED_EVENT",
        "CHECKPOINT_TOPIC",
    )
)
"""The broker's own topics, which it never deletes and which topics.json may lack."""


@dataclass(frozen=True, slots=True)
class KnownTopics:
    """The topics of a store's ``config/topics.json``; None if there is no such file, or no valid
    one: topics that were made since its ``.bak`` are not deleted."""

    root: str
    topics: frozenset[str] | None
    env: Env = DEFAULT_ENV

    @staticmethod
    def read(root: str, *, every: bool = False, env: Env = DEFAULT_ENV) -> KnownTopics:
        """Reads the file of the store at `root`, which may also be one CommitLog file. With
        `every`, and where the broker keeps its configuration in RocksDB, no topic counts as
        deleted, and the file is not read. Raises `StorageError` if the file cannot be read."""
        if every or _is_in_rocksdb(StorePaths(root).config, env):
            return KnownTopics(root, None, env)
        try:
            read = TopicConfigs.read(StorePaths(root).config, env=env)
            read.file.require_newest()
        except (CorruptError, UnreadableError):
            return KnownTopics(root, None, env)  # verify reports it
        found = read.topics if read.file.is_newest else {}
        return KnownTopics(root, frozenset(name.decode("utf-8", "replace") for name in found) or None, env)

    def is_deleted(self, topic: bytes) -> bool:
        """Whether the broker has deleted a topic: topics.json no longer has it, and there is no
        ConsumeQueue file of it."""
        folder = queue_folder(topic, 0)
        if self.topics is None or folder is None:
            return False
        name = folder.rpartition("/")[0]
        if name in self.topics or name in _SYSTEM_TOPICS or name.startswith((_SYSTEM_PREFIX, _LIGHT_QUEUE_PREFIX)):
            return False
        return not self._has_files(f"{StorePaths(self.root).consume_queue}/{name}")

    def _has_files(self, directory: str) -> bool:
        if not self.env.is_dir(directory):
            return False
        try:
            queues = [f"{directory}/{queue}" for queue in self.env.list_dir(directory)]
            return any(has_offset_files(self.env, queue) for queue in queues)
        except VanishedError:
            return False  # the broker is deleting the topic


def _is_in_rocksdb(config: str, env: Env) -> bool:
    """Whether a folder below ``config/`` is a RocksDB database. The JSON files may be old then."""
    return env.is_dir(config) and any(env.exists(f"{config}/{name}/CURRENT") for name in env.list_dir(config))
