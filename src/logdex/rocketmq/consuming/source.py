"""Where a consumer reads: the `MessageStore` of its own process, or a snapshot that follows the
store of another one."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping

from logdex.errors import MissingFileError, OffsetOutOfRangeError, UsageError
from logdex.io.env import DEFAULT_ENV, Env
from logdex.io.process_lock import lock_is_held
from logdex.primitives.java_hash import decode_utf8
from logdex.rocketmq.consume_queue.consume_queue import discover_queues
from logdex.rocketmq.consuming.cut_watch import CutWatch
from logdex.rocketmq.consuming.membership import Queue
from logdex.rocketmq.files.config_files import TopicConfigs
from logdex.rocketmq.files.store_files import StorePaths, queue_folder
from logdex.rocketmq.message_store.core import Closable
from logdex.rocketmq.message_store.message_store import MessageStore
from logdex.rocketmq.read.results import GetMessageResult
from logdex.rocketmq.settings.store_config import StoreConfig
from logdex.rocketmq.snapshot.store_snapshot import StoreSnapshot

Text = str | bytes
_BEYOND_ANY_QUEUE = 1 << 62
_QUEUES_MAX = 1 << 16
"""The most queues of a topic that are shared among consumers. A topic has some dozens."""


class Source:
    """A store that is read. For one thread at a time."""

    def __init__(self, reads: MessageStore | StoreSnapshot, root: str, config: StoreConfig, env: Env) -> None:
        self.root, self.config, self.env = root, config, env
        self.live = reads if isinstance(reads, MessageStore) else None
        """The store if this process writes it."""
        self._reads = reads

    def require_known(self, topic: bytes) -> None:
        """Raises `MissingFileError`, with the nearest name, if there is no such topic, nor will be
        one with the first message that this process puts."""

    def refresh(self) -> None:
        """Takes in what was put meanwhile."""
        raise NotImplementedError

    def make_durable(self) -> None:
        """Writes to disk what was read, so that no offset is committed for messages that a power
        cut takes."""
        raise NotImplementedError

    def close(self) -> None:
        """Closes what was opened for this consumer."""
        raise NotImplementedError

    def closes(self, consumer: Closable) -> None:
        """Lets the consumer be closed with the store of this process."""

    def begin(self, queue: Queue, position: int) -> None:
        """Takes up a queue that is read from `position` on."""

    def look(self, positions: Mapping[Queue, int]) -> dict[Queue, int]:
        """Takes in what was put meanwhile. Returns where to go on in the queues that were cut
        before the position of their reader, as by a broker that recovers."""
        self.refresh()
        return {}

    def is_cut(self) -> bool:
        """Whether the log was cut since the last look."""
        return False

    def get_message(
        self, topic: bytes, queue_id: int, offset: int, max_count: int, tags: Text | None
    ) -> GetMessageResult:
        """As `MessageStore.get_message`."""
        return self._reads.get_message(topic, queue_id, offset, max_count, tags=tags)

    def offset_by_time(self, topic: bytes, queue_id: int, timestamp_ms: int) -> int:
        """As `MessageStore.get_offset_in_queue_by_time`."""
        return self._reads.get_offset_in_queue_by_time(topic, queue_id, timestamp_ms)


class LiveSource(Source):
    """The `MessageStore` of this process."""

    def __init__(self, store: MessageStore) -> None:
        store.core.require_own()
        super().__init__(store, store.path, store.core.config, store.core.env)
        self._store = store

    def refresh(self) -> None:
        """As `Source.refresh`."""
        self._store.dispatch()

    def make_durable(self) -> None:
        """As `Source.make_durable`."""
        self._store.flush_log()

    def close(self) -> None:
        """Does nothing: the store is the caller's."""

    def closes(self, consumer: Closable) -> None:
        """As `Source.closes`."""
        self._store.core.closes(consumer)


class FollowedSource(Source):
    """A snapshot of its own. Another process may write the store."""

    def __init__(self, snapshot: StoreSnapshot, env: Env) -> None:
        super().__init__(snapshot, snapshot.root, snapshot.config, env)
        self._snapshot = snapshot
        self._watch = CutWatch(snapshot)

    def require_known(self, topic: bytes) -> None:
        """As `Source.require_known`."""
        self._snapshot.require_known(topic)

    def refresh(self) -> None:
        """As `Source.refresh`."""
        self._snapshot.refresh()

    def begin(self, queue: Queue, position: int) -> None:
        """As `Source.begin`."""
        self._watch.begin(queue, position)

    def look(self, positions: Mapping[Queue, int]) -> dict[Queue, int]:
        """As `Source.look`."""
        return self._watch.look(positions)

    def is_cut(self) -> bool:
        """As `Source.is_cut`."""
        return self._watch.is_cut()

    def make_durable(self) -> None:
        """Does nothing: the process that puts messages decides when they are on disk."""

    def close(self) -> None:
        """Closes the snapshot."""
        self._snapshot.close()


def source_of(store: MessageStore | StoreSnapshot | str | os.PathLike[str], env: Env | None) -> Source:
    """Returns where to read a store. A snapshot is opened anew, because its owner may use it
    otherwise."""
    if isinstance(store, MessageStore):
        return LiveSource(store)
    env = env or DEFAULT_ENV
    if isinstance(store, StoreSnapshot):
        snapshot = StoreSnapshot(store.root, config=store.config, env=env)
    else:
        snapshot = StoreSnapshot(store, env=env)
    if snapshot.commit_log.is_one_file:
        snapshot.close()
        raise UsageError(f"{snapshot.root}: one file has no consumers", hint="give the directory of a store")
    return FollowedSource(snapshot, env)


def queue_ids(root: str, topic: bytes, env: Env) -> list[int]:
    """The queues that a topic has for consumers: those of topics.json, which no consumer need agree
    about with another, or those on disk if the topic is not in it. Raises `StorageError` if the
    file cannot be read: its ``.bak`` may lack a new topic."""
    configs = TopicConfigs.read(StorePaths(root).config, env=env)
    configs.file.require_newest()
    config = configs.topics.get(topic)
    if config is not None:
        if config.read_queue_nums > _QUEUES_MAX:
            text = f"{root}: topics.json gives the topic {decode_utf8(topic)} {config.read_queue_nums} queues"
            raise UsageError(f"{text}, and at most {_QUEUES_MAX} can be consumed", hint="correct its readQueueNums")
        return list(range(max(config.read_queue_nums, 0)))
    return [queue_id for each, queue_id, _ in discover_queues(root, env=env) if each == topic]


def require_queues(snapshot: StoreSnapshot, env: Env) -> None:
    """Raises `MissingFileError` if a store that nobody writes has messages and no ConsumeQueue at
    all: consumers would get nothing, and would lag behind by nothing."""
    paths = StorePaths(snapshot.root)
    if any(True for _ in discover_queues(snapshot.root, env=env)) or lock_is_held(paths.lock, env=env):
        return
    if snapshot.valid_end_offset > snapshot.commit_log.min_offset:
        raise MissingFileError(
            "the log has messages, and there are no ConsumeQueues",
            path=paths.consume_queue,
            hint=f"logdex rebuild {shlex.quote(snapshot.root)} --in-place makes them",
        )


def end_of_queue(source: Source, topic: bytes, queue_id: int) -> int:
    """The queue offset after the last message of a queue; 0 if there is no such queue."""
    return source.get_message(topic, queue_id, _BEYOND_ANY_QUEUE, 1, None).max_offset


def require_in_queue(source: Source, queue: Queue, offset: int) -> None:
    """Raises `OffsetOutOfRangeError` for an offset behind the end of a queue: messages that come
    before it would be passed over."""
    topic, queue_id = queue
    found = source.get_message(topic, queue_id, _BEYOND_ANY_QUEUE, 1, None)
    if offset > found.max_offset:
        raise OffsetOutOfRangeError(
            offset,
            path=f"{StorePaths(source.root).consume_queue}/{queue_folder(topic, queue_id)}",
            log_start_offset=found.min_offset,
            log_end_offset=found.max_offset,
        )
