"""Looks up whether an entry of a store's ConsumeQueues points to a message, which proves that bytes
that look like a message are one of the log."""

from __future__ import annotations

from logdex.errors import StoreError
from logdex.io.env import Env
from logdex.io.open_files import OpenFiles
from logdex.rocketmq.consume_queue.consume_queue import ConsumeQueue
from logdex.rocketmq.files.store_files import StorePaths, queue_folder
from logdex.rocketmq.message.stored_message import StoredMessage
from logdex.rocketmq.settings.store_config import StoreConfig


class NamedMessages:
    """Looks messages up in the ConsumeQueues of the store at `root`, each of which is opened when
    it is first used. Not thread-safe. The owner must call `close`."""

    def __init__(self, root: str, config: StoreConfig, env: Env) -> None:
        self._directory = StorePaths(root).consume_queue
        self._config = config
        self._env = env
        self._open = OpenFiles(env)
        self._queues: dict[tuple[bytes, int], ConsumeQueue | None] = {}

    def __call__(self, physical_offset: int, message: StoredMessage) -> bool | None:
        """Returns whether the entry at the message's queue offset points to this place. Returns
        None if there is no such entry, as for messages that have none and in a gap, which repeats
        the entry behind it."""
        if not message.is_queued:
            return None
        queue, offset = self._queue(message.topic, message.queue_id), message.queue_offset
        if queue is None or not queue.start_offset <= offset < queue.max_offset:
            return None
        try:
            entry = queue.entry(offset)
            fills_gap = offset + 1 < queue.max_offset and queue.entry(offset + 1) == entry
        except StoreError:
            return None
        if fills_gap or not entry.is_message:
            return None
        return (entry.physical_offset, entry.size_bytes) == (physical_offset, message.size_bytes)

    def _queue(self, topic: bytes, queue_id: int) -> ConsumeQueue | None:
        name = topic, queue_id
        if name not in self._queues:
            self._queues[name] = self._opened(topic, queue_id)
        return self._queues[name]

    def _opened(self, topic: bytes, queue_id: int) -> ConsumeQueue | None:
        folder, size = queue_folder(topic, queue_id), self._config.consume_queue_file_size_bytes
        if folder is None:
            return None
        directory = f"{self._directory}/{folder}"
        try:
            return ConsumeQueue(directory, topic, queue_id, file_size_bytes=size, env=self._env, open_files=self._open)
        except StoreError:
            return None

    def close(self) -> None:
        """Closes all files."""
        self._queues.clear()
        self._open.close()
