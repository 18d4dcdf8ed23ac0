"""The topics of an open store and the numbers of their queues, kept in ``config/topics.json`` as
the broker keeps it.

Source: ``docs/formats/config-json.md``; TopicConfigManager, ConfigManager.persist.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Any

from logdex.errors import UsageError
from logdex.io.atomic_file import write_atomically
from logdex.io.env import Env
from logdex.primitives.java_hash import decode_utf8
from logdex.rocketmq.files.config_files import TopicConfigs, next_data_version
from logdex.rocketmq.files.config_json import format_config_json
from logdex.rocketmq.settings.dialect import Dialect

_LIGHT_QUEUE_PREFIX = b"%LMQ%"
_PERM_READ_WRITE = 6
QUEUE_NUMS_MAX = (1 << 31) - 1
"""The broker's numbers of queues are Java ints."""
_FILE = "topics.json"


class Topics:
    """Thread-safe. A new topic is on disk before its first message."""

    def __init__(self, directory: str, dialect: Dialect, default_queue_nums: int, *, env: Env) -> None:
        configs = TopicConfigs.read(directory, env=env)
        configs.file.require_newest()
        self.remark = configs.file.remark
        """That an older file was read, and why; None if the newest was."""
        self._directory, self._dialect, self._default, self._env = directory, dialect, default_queue_nums, env
        self._raw: dict[Any, Any] = dict(configs.file.raw)
        self._table: dict[Any, Any] = dict(self._raw.get("topicConfigTable") or {})
        self._queues = {topic: config.write_queue_nums for topic, config in configs.topics.items()}
        self.queue_nums: Callable[[bytes], int | None] = self._queues.get
        """Returns the number of a topic's queues; None if the topic is new."""
        self._turns: dict[bytes, int] = {}
        self._lock = threading.Lock()

    def __contains__(self, topic: bytes) -> bool:
        return topic in self._queues

    def choose_queue(self, topic: bytes) -> int:
        """The next queue of a topic, in turn."""
        turn = self._turns.get(topic, 0)
        self._turns[topic] = turn + 1
        return turn % max(self._queues.get(topic, self._default), 1)

    def choose_queues(self, topic: bytes, count: int) -> int:
        """The turn of the first of `count` messages whose queues are chosen in turn."""
        turn = self._turns.get(topic, 0)
        self._turns[topic] = turn + count
        return turn

    def require(self, topic: bytes, queue_id: int | None, now_ms: int) -> None:
        """Creates the topic if it is new. Raises `UsageError` if it has no such queue."""
        count = self._queues.get(topic)
        if count is None:
            self.create(topic, self._default, now_ms)
            count = self._default
        if count < 1:
            raise UsageError(
                f"the topic {decode_utf8(topic)} takes no messages: its writeQueueNums is {count}",
                hint="create the topic with at least one queue first: create_topic",
            )
        if queue_id is not None and not 0 <= queue_id < count:
            raise UsageError(
                f"the topic {decode_utf8(topic)} has the queues 0 to {count - 1}, not {queue_id}",
                hint="create the topic with more queues first: create_topic",
            )

    def require_all(self, queues: Iterable[tuple[bytes, int]], now_ms: int) -> None:
        """Adds those topics of some queues that are not known, with as many queues as they need.
        Light queues belong to no topic."""
        missing: dict[bytes, int] = {}
        for topic, queue_id in queues:
            if topic not in self and not topic.startswith(_LIGHT_QUEUE_PREFIX):
                name = decode_utf8(topic).encode()
                missing[name] = max(missing.get(name, self._default), min(queue_id + 1, QUEUE_NUMS_MAX))
        if missing:
            self.add(list(missing.items()), now_ms)

    def create(self, topic: bytes, queue_nums: int, now_ms: int, *, read_nums: int = 0) -> None:
        """Adds a topic, or sets the number of its queues, durably. Consumers read `read_nums`
        queues, if these are more."""
        self.add([(topic, queue_nums)], now_ms, read_nums)

    def add(self, topics: list[tuple[bytes, int]], now_ms: int, read_nums: int = 0) -> None:
        """Adds topics, or sets the numbers of their queues, durably, with one write."""
        with self._lock:
            table = dict(self._table)
            for topic, queue_nums in topics:
                name = decode_utf8(topic)
                table[name] = {**self._new(name), **table.get(name, {})}
                table[name] |= {"readQueueNums": max(queue_nums, read_nums), "writeQueueNums": queue_nums}
            version = next_data_version(
                self._raw.get("dataVersion"), now_ms, has_state=self._dialect.topics_have_attributes
            )
            self._write({**self._raw, "dataVersion": version, "topicConfigTable": table})
            self._table = table
            self._queues.update(topics)

    def _new(self, name: str) -> dict[str, Any]:
        fields: dict[str, Any] = {"attributes": {}} if self._dialect.topics_have_attributes else {}
        return fields | {
            "order": False,
            "perm": _PERM_READ_WRITE,
            "readQueueNums": 0,
            "topicFilterType": "SINGLE_TAG",
            "topicName": name,
            "topicSysFlag": 0,
            "writeQueueNums": 0,
        }

    def _write(self, raw: dict[Any, Any]) -> None:
        """Replaces the file; its earlier contents are in ``topics.json.bak`` then."""
        path = f"{self._directory}/{_FILE}"
        if self._raw:
            write_atomically(f"{path}.bak", format_config_json(self._raw), env=self._env)
        write_atomically(path, format_config_json(raw), env=self._env)
        self._raw = raw
