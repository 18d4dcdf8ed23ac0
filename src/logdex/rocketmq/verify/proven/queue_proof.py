"""Holds the ConsumeQueue entries of windows against those on disk."""

from __future__ import annotations

import numpy as np

from logdex.errors import MissingFileError, StorageError, UnreadableError
from logdex.io.env import Env
from logdex.io.open_files import OpenFiles
from logdex.rocketmq.consume_queue.derive import ConsumeQueueDeriver
from logdex.rocketmq.files.store_files import StorePaths, queue_folder
from logdex.rocketmq.scan.topic_table import QueueName, TopicTable
from logdex.rocketmq.scan.window import Window
from logdex.rocketmq.settings.store_config import StoreConfig
from logdex.rocketmq.verify.proven.runs import QueueSpan
from logdex.rocketmq.verify.queues.queue_disk import ENTRY_SIZE, QueueDisk, fields_of

_OPEN_FILES_MAX = 24
"""Of each task; many of them may run in one process."""


class QueueProof:
    """Compares queues for one task. The owner must call `close`."""

    def __init__(self, root: str, config: StoreConfig, env: Env) -> None:
        self._directory = StorePaths(root).consume_queue
        self._config = config
        self._env = env
        self._open = OpenFiles(env, _OPEN_FILES_MAX)
        self._deriver = ConsumeQueueDeriver()
        self._disks: dict[str, QueueDisk | None] = {}
        self._names: dict[str, QueueName] = {}
        self._has_any = env.is_dir(self._directory)

    def spans(self, window: Window, table: TopicTable) -> dict[QueueName, QueueSpan] | None:
        """Returns the spans of a window, None if its entries are not those on disk. Queues with
        names for one folder are not compared here."""
        found: dict[QueueName, QueueSpan] = {}
        if not self._has_any:
            return found
        for number, offsets, entries in self._deriver.derive(window, table):
            name, rows = table.queues[number], entries.reshape(len(offsets), ENTRY_SIZE)
            folder, first = queue_folder(name.topic, name.queue_id), int(offsets[0])
            disk = None if folder is None else self._disk(folder)
            if folder is not None and self._names.setdefault(folder, name) != name:
                return None
            if name in found or (np.diff(offsets) != 1).any():
                return None
            if disk is not None and not np.array_equal(disk.read(first, len(rows)), rows):
                return None
            places = fields_of(rows)["physical_offset"]
            found[name] = QueueSpan(
                first, first + len(rows), int(places[0]), int(places[-1]), has_files=disk is not None
            )
        return found

    def _disk(self, folder: str) -> QueueDisk | None:
        if folder not in self._disks:
            directory, size = f"{self._directory}/{folder}", self._config.consume_queue_file_size_bytes
            disk = None
            try:
                if self._env.is_dir(directory):
                    disk = QueueDisk(directory, size, self._env, self._open, _pass_over)
            except (MissingFileError, StorageError):
                pass  # the pass itself reports it
            self._disks[folder] = disk if disk is not None and disk.files else None
        return self._disks[folder]

    def close(self) -> None:
        """Closes the open files."""
        self._open.close()


def _pass_over(error: UnreadableError) -> None:
    """What cannot be read reads as zeros, which are no entry."""
