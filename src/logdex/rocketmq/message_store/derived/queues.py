"""The ConsumeQueues of an open store: found at opening, cut back to a physical offset, appended to
by the dispatch, read by consumers.

Source: ConsumeQueue, ConsumeQueueStore.
"""

from __future__ import annotations

import posixpath
from bisect import bisect_left

import numpy as np
import numpy.typing as npt

from logdex.io.env import Env
from logdex.io.mapped.byte_array import ByteArray
from logdex.io.open_files import OpenFiles
from logdex.io.output_files import OutputFiles
from logdex.io.zeros import write_zeros_from
from logdex.layout.rocketmq import CONSUME_QUEUE_ENTRY, FILE_NAME_DIGITS
from logdex.rocketmq.consume_queue.consume_queue import ConsumeQueue, discover_queues
from logdex.rocketmq.consume_queue.writer import ConsumeQueueSet, ConsumeQueueWriter
from logdex.rocketmq.files.offset_files import OffsetFile
from logdex.rocketmq.files.store_files import StorePaths, queue_folder
from logdex.rocketmq.settings.store_config import StoreConfig

_ENTRY_SIZE = CONSUME_QUEUE_ENTRY.size_bytes
_OPEN_MAX = 48
"""Files of queues that are open for writing: together with the readers of the log, the queues and
the IndexFiles (160 at most), a store needs fewer than 256 descriptors, the limit of macOS."""


class QueueFiles(OutputFiles):
    """Files that are written for as long as the store is open, and synced now and then."""

    def __init__(self, env: Env) -> None:
        super().__init__(env, sync=False, open_max=_OPEN_MAX)
        self._dirty: dict[str, None] = {}
        self._named: set[str] = set()
        """Directories with names that may not be on disk yet: an earlier process may have been
        killed before it synced them."""
        self._known: set[str] = set()
        """Files whose names this process has synced, or will."""

    def write_at(self, path: str, file_size_bytes: int, position: int, data: ByteArray | bytes) -> None:
        """As `OutputFiles.write_at`; the file is dirty until `flush`."""
        self._touch(path)
        super().write_at(path, file_size_bytes, position, data)

    def cut(self, path: str, keep_bytes: int) -> None:
        """Replaces the bytes of a file from `keep_bytes` on by zeros."""
        with self._env.open_write(path) as file:
            write_zeros_from(file, keep_bytes, self._env)
        self._touch(path)

    def _touch(self, path: str) -> None:
        """Notes that a file, and perhaps its name, is to be synced."""
        if path not in self._dirty:
            self._dirty[path] = None
            if path not in self._known:
                self._known.add(path)
                folder = posixpath.dirname(path)
                self._named |= {folder, posixpath.dirname(folder), posixpath.dirname(posixpath.dirname(folder))}

    def remove_dir(self, directory: str) -> None:
        """As `OutputFiles.remove_dir`."""
        super().remove_dir(directory)
        self._dirty = {path: None for path in self._dirty if posixpath.dirname(path) != directory}
        self._known = {path for path in self._known if posixpath.dirname(path) != directory}
        self._named.discard(directory)
        self._named.add(posixpath.dirname(directory))

    def remove(self, path: str) -> None:
        """Removes a file that `flush` has written."""
        file = self._open.pop(path, None)
        if file is not None:
            file.close()
        self._known.discard(path)
        self._env.remove(path)

    def flush(self) -> None:
        """Writes everything so far to disk."""
        for path in list(self._dirty):
            file = self._open.get(path)
            if file is not None:
                file.sync()
            else:
                with self._env.open_write(path) as reopened:
                    reopened.sync()
            del self._dirty[path]
        for directory in sorted(self._named, reverse=True):
            self._env.sync_dir(directory)
            self._named.discard(directory)


class LiveQueue(ConsumeQueue):
    """A queue whose end its writer knows. Safe to share between threads."""

    def __init__(
        self, directory: str, topic: bytes, queue_id: int, file_size_bytes: int, env: Env, files: OpenFiles
    ) -> None:
        self.directory, self.topic, self.queue_id = directory, topic, queue_id
        self.foreign, self.files, self.max_offset = (), (), 0
        self.file_size_bytes = file_size_bytes
        self._env, self._open = env, files
        self._given_file_size = file_size_bytes
        self._whole = (-1, -1)
        """The log's and the queue's first offset for which the queue's first entry is its
        minimum."""

    def min_offset(self, commit_log_min_offset: int) -> int:
        """As `ConsumeQueue.min_offset`. It is found once while no file has been removed: the first
        entry stays the first then."""
        key = commit_log_min_offset, self.start_offset
        if self._whole == key:
            return self.start_offset
        found = super().min_offset(commit_log_min_offset)
        if found == self.start_offset < self.max_offset and self.entry(found).physical_offset >= commit_log_min_offset:
            self._whole = key
        return found

    def advance(self, first: int, end: int) -> None:
        """Takes in that the queue has the files from that of queue offset `first` on, and ends
        before `end`."""
        size = self.file_size_bytes
        start, stop = first * _ENTRY_SIZE // size * size, max(end * _ENTRY_SIZE, first * _ENTRY_SIZE + 1)
        if not self.files or self.files[0].start_offset != start or self.files[-1].end_offset < stop:
            starts = range(start, stop, size)
            self.files = tuple(OffsetFile(f"{self.directory}/{at:0{FILE_NAME_DIGITS}d}", at, size) for at in starts)
        self.max_offset = end


class LiveQueues(ConsumeQueueSet):
    """All queues of the store. Appending is for one thread at a time, reading for any."""

    def __init__(self, paths: StorePaths, config: StoreConfig, env: Env) -> None:
        log_file_end = config.mapped_file_size_commit_log
        file_size_bytes = config.consume_queue_file_size_bytes
        super().__init__(paths.consume_queue, file_size_bytes, env, sync=False, first_log_file_end=log_file_end)
        self.output: QueueFiles = QueueFiles(env)
        self.names: dict[str, tuple[bytes, int]] = {}
        """Topic and queue id by folder."""
        self._paths = paths
        self._env = env
        self._readers = OpenFiles(env)
        self._views: dict[str, LiveQueue] = {}

    # -- opening ----------------------------------------------------------------------------------
    def discover(self) -> list[ConsumeQueue]:
        """All queues on disk, with their ends as the files show them."""
        size = self._file_size
        return [
            ConsumeQueue(directory, topic, queue_id, file_size_bytes=size, env=self._env, open_files=self._readers)
            for topic, queue_id, directory in discover_queues(self._paths.root, env=self._env)
        ]

    def take_in(self, queue: ConsumeQueue, before: int, *, thorough: bool) -> None:
        """Goes on with a queue after its last entry for a message before the physical offset
        `before`, and removes what follows. Without `thorough`, zeros after an entry are taken for
        the end of what was written."""
        low = queue.start_offset
        high = queue.files[-1].end_offset // _ENTRY_SIZE if thorough and queue.files else queue.max_offset
        end = low + bisect_left(range(low, high), True, key=lambda at: not _points_before(queue, at, before))
        if thorough or end < queue.max_offset:
            self._cut(queue, end)
        folder = posixpath.relpath(queue.directory, self._paths.consume_queue)
        writer = ConsumeQueueWriter(queue.directory, self._file_size, self.output, self._first_log_file_end)
        if end > low:
            writer.report.first_offset, writer.report.next_offset = low, end
        self.writers[folder] = writer
        self._owners[folder] = queue.topic
        self.names[folder] = (queue.topic, queue.queue_id)

    def _cut(self, queue: ConsumeQueue, end: int) -> None:
        """Removes the entries of a queue from `end` on."""
        for file in reversed(queue.files):
            keep = end * _ENTRY_SIZE - file.start_offset
            if keep >= self._file_size:
                break
            if keep <= 0 and file is not queue.files[0]:
                self._env.remove(file.path)
            else:
                self.output.cut(file.path, max(keep, 0))
        self._readers.close()

    def forget(self) -> None:
        """Forgets all queues, so that they can be taken in again."""
        self.writers.clear()
        self.names.clear()
        self._owners.clear()
        self.output.abandon()

    def mend(self, queue: ConsumeQueue) -> None:
        """Keeps the file with the last entry of a damaged queue, and gives it its size."""
        at = (queue.max_offset - 1) * _ENTRY_SIZE
        for file in queue.files:
            if not file.start_offset <= at < file.end_offset:
                self.output.remove(file.path)
                continue
            with self._env.open_write(file.path) as written:
                write_zeros_from(written, at + _ENTRY_SIZE - file.start_offset, self._env)
                written.truncate(self._file_size)
                written.sync()
        self._env.sync_dir(queue.directory)
        queue.refresh()

    def drop(self, queue: ConsumeQueue) -> None:
        """Removes a queue that cannot be gone on with."""
        self.output.remove_dir(queue.directory)

    # -- going on ---------------------------------------------------------------------------------
    def put(
        self, topic: bytes, queue_id: int, queue_offset: npt.NDArray[np.int64], entries: npt.NDArray[np.uint8]
    ) -> None:
        """Writes consecutive entries of one queue."""
        super().put(topic, queue_id, queue_offset, entries)
        folder = queue_folder(topic, queue_id)
        if folder is not None:
            self.names.setdefault(folder, (topic, queue_id))

    def settle(self) -> None:
        """Ends the opening: decides about entries that wait for the next one of their queue, and
        forgets files that were replaced."""
        for writer in self.writers.values():
            writer.finish()
        self._readers.close()

    def next_offsets(self) -> dict[tuple[bytes, int], int]:
        """The next queue offset of each queue."""
        ends = ((self.names[folder], writer.report.next_offset) for folder, writer in self.writers.items())
        return {name: end for name, end in ends if end >= 0}

    def extents(self) -> dict[str, tuple[int, int]]:
        """The first and the next queue offset of each queue that has entries, by folder."""
        reports = ((folder, writer.report) for folder, writer in self.writers.items())
        return {
            folder: (max(report.first_offset, 0), report.next_offset)
            for folder, report in reports
            if report.next_offset > 0
        }

    def flush(self) -> None:
        """Writes everything so far to disk."""
        self.output.flush()

    # -- retention --------------------------------------------------------------------------------
    def remove_expired(self, min_phy_offset: int) -> list[str]:
        """Removes durably, oldest first, files whose last entry points before a physical offset,
        and never a queue's last file. Returns their paths. Call it after `flush`, and while nobody
        reads."""
        gone = []
        self._readers.close()
        for folder, writer in self.writers.items():
            view = self.view(*self.names[folder]) if folder in self.names else None
            if view is None:
                continue
            for file in view.files[:-1]:
                if view.entry(file.end_offset // _ENTRY_SIZE - 1).physical_offset >= min_phy_offset:
                    break
                self._readers.forget(file.path)
                self.output.remove(file.path)
                writer.report.first_offset = file.end_offset // _ENTRY_SIZE
                gone.append(file.path)
                self._env.sync_dir(posixpath.dirname(file.path))
        return gone

    # -- reading ----------------------------------------------------------------------------------
    def view(self, topic: bytes, queue_id: int) -> LiveQueue | None:
        """A queue as it is now, or None if there is no such queue."""
        folder = queue_folder(topic, queue_id)
        writer = None if folder is None else self.writers.get(folder)
        if folder is None or writer is None:
            return None
        view = self._views.get(folder)
        if view is None:
            directory = f"{self._paths.consume_queue}/{folder}"
            view = LiveQueue(directory, topic, queue_id, self._file_size, self._env, self._readers)
            view = self._views.setdefault(folder, view)
        report = writer.report
        if report.next_offset >= 0:
            view.advance(report.first_offset, report.next_offset)
        return view

    def close_files(self) -> None:
        """Closes all files without syncing them."""
        self.output.abandon()
        self._readers.close()


def _points_before(queue: ConsumeQueue, at: int, before: int) -> bool:
    """Whether a position has an entry for a message before a physical offset, or a pre-blank
    one."""
    entry = queue.entry(at)
    return entry.is_written and entry.physical_offset < before
