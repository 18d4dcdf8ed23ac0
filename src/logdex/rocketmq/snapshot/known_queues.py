"""Which topics and queues a store is known to have, before its log is read, and those that were
opened."""

from __future__ import annotations

from collections.abc import Iterable

from logdex.errors import MissingFileError, StoreError
from logdex.io.env import DEFAULT_ENV, Env
from logdex.io.open_files import OpenFiles
from logdex.primitives.wrong_questions import unknown_part, unknown_topic
from logdex.rocketmq.commit_log.commit_log import CommitLog
from logdex.rocketmq.consume_queue.consume_queue import ConsumeQueue, discover_queues
from logdex.rocketmq.files.config_files import TopicConfigs
from logdex.rocketmq.files.store_files import StorePaths, queue_folder
from logdex.rocketmq.read.scanned_queue import ScannedQueue
from logdex.rocketmq.settings.store_config import StoreConfig

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


class OpenQueues:
    """The queues of `log` that were opened so far, of those below `directory`; for one CommitLog
    file its messages by queue. They share their open files."""

    def __init__(self, directory: str, log: CommitLog, env: Env) -> None:
        self._directory = directory
        self._log = log
        self._env = env
        self._files = OpenFiles(env)
        self._queues: dict[Queue, ConsumeQueue] = {}

    def open(self, topic: bytes, queue_id: int, config: StoreConfig) -> ConsumeQueue:
        """Returns a queue. Raises `MissingFileError` if it does not exist."""
        queue = self._queues.get((topic, queue_id))
        if queue is None:
            queue = self._queues[topic, queue_id] = self._opened(topic, queue_id, config)
        return queue

    def _opened(self, topic: bytes, queue_id: int, config: StoreConfig) -> ConsumeQueue:
        if self._log.is_one_file:
            return ScannedQueue(self._log, topic, queue_id, config=config, env=self._env)
        folder = queue_folder(topic, queue_id)
        if folder is None:
            raise MissingFileError(f"no folder can be named for the topic {topic!r}", path=self._directory)
        return ConsumeQueue(
            f"{self._directory}/{folder}",
            topic,
            queue_id,
            file_size_bytes=config.consume_queue_file_size_bytes,
            env=self._env,
            open_files=self._files,
        )

    def has_folder(self, topic: bytes | None, queue_id: int | None) -> bool:
        """Whether a topic, or one of its queues, has a ConsumeQueue directory."""
        folder = None if topic is None else queue_folder(topic, queue_id or 0)
        if folder is None:
            return False
        return self._env.is_dir(f"{self._directory}/{folder.rpartition('/')[0] if queue_id is None else folder}")

    def refresh(self) -> None:
        """Looks at all queues again. Those that are gone are forgotten."""
        for name, queue in [*self._queues.items()]:
            try:
                queue.refresh()
            except MissingFileError:
                self.forget(*name)

    def forget(self, topic: bytes, queue_id: int) -> None:
        """Opens a queue anew when it is asked for again."""
        self._queues.pop((topic, queue_id), None)

    def close(self) -> None:
        """Closes all files and forgets the queues."""
        for queue in self._queues.values():
            queue.close()
        self._queues = {}


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
