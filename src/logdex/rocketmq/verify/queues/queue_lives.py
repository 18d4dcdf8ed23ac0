"""What a deleted topic that was created again leaves, beside queues that begin anew.

After a crash, a broker puts the messages into the queues again that lie behind its checkpoint.
Those of a topic's earlier life come back then, and the first message of the new life is put behind
them, wherever it belongs. So a queue may begin anywhere, also where one of its files begins, and
may hold a message that states queue offset 0 at another place. The broker serves both.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from logdex.layout.rocketmq import CONSUME_QUEUE_ENTRY
from logdex.rocketmq.consume_queue.lives import begins_anew
from logdex.rocketmq.files.store_files import queue_folder
from logdex.rocketmq.message.stored_message import StoredMessage
from logdex.rocketmq.verify.queues.queue_disk import QueueDisk, fields_of, is_pre_blank, is_written

APPENDED_MAX = 1000
"""The maximum number of messages of one queue that may have been put behind an earlier life."""


class Appended(NamedTuple):
    """A message with queue offset 0 whose queue holds it at another place."""

    path: str
    position: int
    """The byte position of its queue offset in the CommitLog file at `path`."""
    physical_offset: int
    held_at: int


@dataclass(slots=True)
class QueueLives:
    """The lives of one queue, as the log and its files show them. Not thread-safe."""

    start: int = 0
    """The physical offset of the message with which the life on disk begins. Earlier messages of
    the queue belong to an earlier life of it."""
    earlier: int = 0
    """The number of messages before `start`."""
    appended: list[Appended] = field(default_factory=list)
    lacking_first: int = -1
    """The first queue offset that the log has a message of, if the queue's first file lies behind
    it; else -1."""
    lacking_last_physical: int = -1
    """The physical offset of the last message that belongs before the queue's first file."""
    _anew_at: int = -1
    _next: int = 0
    _zero: tuple[int, int] | None = None

    def see(self, offsets: npt.NDArray[np.int64], physical_offsets: npt.NDArray[np.int64]) -> None:
        """Takes in messages in log order, by their queue offsets and physical offsets."""
        if self._zero is not None:
            self._settle(int(offsets[0]))
        for i in np.flatnonzero(offsets == 0).tolist():
            before = int(offsets[i - 1]) + 1 if i else self._next
            if before <= 0:
                continue
            self._zero = before, int(physical_offsets[i])
            if i + 1 < len(offsets):
                self._settle(int(offsets[i + 1]))
        self._next = int(offsets[-1]) + 1

    def see_span(self, first: int, end: int, first_physical: int) -> None:
        """Takes in messages with the queue offsets [first, end)."""
        self.see(np.arange(first, min(first + 2, end)), np.full(2, first_physical))
        self._next = end

    def _settle(self, following: int) -> None:
        assert self._zero is not None
        before, physical_offset = self._zero
        self._zero = None
        if begins_anew(before, 0, following):
            self._anew_at = physical_offset

    @property
    def created_again_at(self) -> int | None:
        """A physical offset at which the topic had been created again; None if this queue does not
        show that. A last message with queue offset 0 shows nothing: one changed bit may have made
        it."""
        places = [*([self.start] if self.earlier else []), *([self._anew_at] if self._anew_at >= 0 else [])]
        return min(places, default=None)


def life_start(folder: str, disk: QueueDisk, read_message: Callable[[int], StoredMessage | None]) -> int:
    """Returns the physical offset where the queue's life on disk begins, if the message there
    states its queue offset, else 0. It begins with queue offset 0, or behind pre-blank entries: a
    recovery that met a deleted topic made the queue anew from there on."""
    at, entries = disk.start, fields_of(disk.read(disk.start, 1))
    if disk.start == disk.end or not is_written(entries).all():
        return 0
    if is_pre_blank(entries).all():
        rows_max = disk.file_size_bytes // CONSUME_QUEUE_ENTRY.size_bytes
        at, rows = next(disk.chunks(disk.start, disk.end, rows_max))
        entries = fields_of(rows)
        at += int(np.argmin(is_pre_blank(entries)))
        entries = entries[at - disk.start : at - disk.start + 1]
    elif at:
        return 0
    if is_pre_blank(entries).all() or not is_written(entries).all():
        return 0
    message = read_message(int(entries["physical_offset"][0]))
    if message is None:
        return 0  # reported elsewhere
    is_its_own = message.queue_offset == at and queue_folder(message.topic, message.queue_id) == folder
    return message.physical_offset if is_its_own else 0
