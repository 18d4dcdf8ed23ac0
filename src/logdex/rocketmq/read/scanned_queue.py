"""A queue without ConsumeQueue files: its entries come from a scan of the log. It has the methods
of a `ConsumeQueue`.

It is used for a CommitLog file without its store. The entries are those that `derive_consume_queue`
computes.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from logdex import limits
from logdex.errors import MissingFileError
from logdex.io.env import DEFAULT_ENV, Env
from logdex.rocketmq.commit_log.commit_log import CommitLog
from logdex.rocketmq.consume_queue.consume_queue import ENTRY_SIZE_BYTES, STORED_DTYPE, ConsumeQueue
from logdex.rocketmq.consume_queue.lives import begins_anew
from logdex.rocketmq.files.offset_files import OffsetFile
from logdex.rocketmq.settings.store_config import StoreConfig


class ScannedQueue(ConsumeQueue):
    """The queue of the messages of `log` with `topic` and `queue_id`. The log is scanned at
    construction and by `refresh`.

    Places without a message read as repetitions of the next entry. As in a written queue, messages
    are left out whose queue offset was passed already or is impossible, and those of an earlier
    life of the queue. Takes 28 bytes of memory per message. Raises `MissingFileError` if the log
    has no message of the queue.
    """

    def __init__(
        self, log: CommitLog, topic: bytes, queue_id: int, *, config: StoreConfig, env: Env = DEFAULT_ENV
    ) -> None:
        self._log = log
        self._config = config
        super().__init__(log.directory, topic, queue_id, file_size_bytes=config.consume_queue_file_size_bytes, env=env)

    def refresh(self) -> None:
        """Scans the log again. Raises `MissingFileError` if it has no message of the queue."""
        self._offsets, self._entries = self._scan()
        if not len(self._offsets):
            raise MissingFileError("no message of this queue", path=self.directory)
        start, self.max_offset = int(self._offsets[0]), int(self._offsets[-1]) + 1
        self.file_size_bytes = self._config.consume_queue_file_size_bytes
        size = (self.max_offset - start) * ENTRY_SIZE_BYTES
        self.files = (OffsetFile(self._log.files[0].path, start * ENTRY_SIZE_BYTES, size),)

    def _scan(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.void]]:
        from logdex.rocketmq.consume_queue.derive import ConsumeQueueDeriver
        from logdex.rocketmq.scan.scanner import Scanner

        scanner, deriver = Scanner(self._config, env=self._env), ConsumeQueueDeriver()
        found_offsets, found_entries = [np.empty(0, np.int64)], [np.empty(0, STORED_DTYPE)]
        for window in scanner.scan(self._log):
            names = scanner.table.queues
            for number, offsets, entries in deriver.derive(window, scanner.table):
                if tuple(names[number]) == (self.topic, self.queue_id):
                    found_offsets.append(offsets.copy())
                    found_entries.append(entries.view(STORED_DTYPE).copy())
        all_offsets, all_entries = np.concatenate(found_offsets), np.concatenate(found_entries)
        kept = _newest_life(all_offsets)
        return all_offsets[kept], all_entries[kept]

    def _read(self, file: OffsetFile, position: int, size_bytes: int) -> bytes:
        first, count = (file.start_offset + position) // ENTRY_SIZE_BYTES, size_bytes // ENTRY_SIZE_BYTES
        next_places = np.searchsorted(self._offsets, np.arange(first, first + count))
        return self._entries[np.minimum(next_places, len(self._entries) - 1)].astype(STORED_DTYPE).tobytes()


def _newest_life(offsets: npt.NDArray[np.int64]) -> npt.NDArray[np.intp]:
    """Returns the places of the offsets that a ConsumeQueue keeps, of those that a queue's messages
    have in log order."""
    start = 0
    for place in np.flatnonzero(offsets == 0).tolist():
        before = _rising(offsets[start:place])
        following = int(offsets[place + 1]) if place + 1 < len(offsets) else None
        if len(before) and begins_anew(int(offsets[start + before[-1]]) + 1, 0, following):
            start = place
    return start + _rising(offsets[start:])


def _rising(offsets: npt.NDArray[np.int64]) -> npt.NDArray[np.intp]:
    """Returns the places of the offsets that rise. Offsets that go back or are implausibly far
    above the previous one are left out."""
    if not len(offsets):
        return np.empty(0, np.intp)
    next_offset, steps = -1, np.diff(offsets, prepend=offsets[0] - 1)
    if 0 <= offsets[0] <= limits.QUEUE_OFFSET_MAX and bool((steps == 1).all()):
        return np.arange(len(offsets))
    kept = []
    for place, offset in enumerate(offsets.tolist()):
        begins = next_offset < 0 and 0 <= offset <= limits.QUEUE_OFFSET_MAX
        if begins or (next_offset >= 0 and 0 <= offset - next_offset <= limits.QUEUE_GAP_MAX):
            kept.append(place)
            next_offset = offset + 1
    return np.array(kept, np.intp)
