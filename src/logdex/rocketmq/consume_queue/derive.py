"""The bytes of ConsumeQueue files as a function of the messages: the one definition that rebuild,
Spark and verify use.

Source: ``docs/formats/consume-queue.md``; CommitLogDispatcherBuildConsumeQueue,
ConsumeQueue.putMessagePositionInfo.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from logdex.layout.rocketmq import (
    CONSUME_QUEUE_ENTRY,
    PRE_BLANK_SIZE,
    SYS_FLAG_PREPARED,
    SYS_FLAG_ROLLBACK,
    SYS_FLAG_TRANSACTION_MASK,
)
from logdex.rocketmq.consume_queue.light_queues import LightRun, light_queue_id, light_runs, named_queues, properties_of
from logdex.rocketmq.scan.topic_table import TopicTable
from logdex.rocketmq.scan.window import Window

_ENTRY_SIZE = CONSUME_QUEUE_ENTRY.size_bytes
PRE_BLANK_ENTRY = CONSUME_QUEUE_ENTRY.pack(0, PRE_BLANK_SIZE, 0)
"""The entry that fills the positions before a queue's first message. The broker's recovery treats
it as written."""


class QueueRuns(NamedTuple):
    """The ConsumeQueue entries of a window, grouped into runs of one queue each.

    Run r belongs to queue `queue[r]` (its number in the table of topics) and ends before entry
    `end[r]`. Entry i has the queue offset `queue_offset[i]` (int64[n]) and the bytes `entries[20 *
    i : 20 * (i + 1)]` (uint8[20 n]), as they are stored in the file.
    """

    queue: npt.NDArray[np.int32]
    end: npt.NDArray[np.int32]
    queue_offset: npt.NDArray[np.int64]
    entries: npt.NDArray[np.uint8]

    def __iter__(self) -> Iterator[tuple[int, npt.NDArray[np.int64], npt.NDArray[np.uint8]]]:  # type: ignore[override]
        """Yields (queue number, queue offsets, entries) per run."""
        start = 0
        for queue, end in zip(self.queue.tolist(), self.end.tolist(), strict=True):
            yield queue, self.queue_offset[start:end], self.entries[_ENTRY_SIZE * start : _ENTRY_SIZE * end]
            start = end


class ConsumeQueueDeriver:
    """`derive_consume_queue` with buffers that are reused. For one thread; a result is valid until
    the next call."""

    def __init__(self) -> None:
        self._places = np.zeros(0, np.int32)
        self._size = 0

    def derive(self, window: Window, table: TopicTable) -> QueueRuns:
        """Returns the entries of the window. `table` is that of its scan; light queues are added to
        it."""
        runs = self._own_runs(window, len(table.queues))
        light = light_runs(window, table)
        return _with_light(runs, light) if light else runs

    def _own_runs(self, window: Window, queue_count: int) -> QueueRuns:
        """Returns the entries of the messages in their own queues."""
        from logdex.kernels.rocketmq.queue_runs import queue_runs

        if self._size < window.count:
            self._size = window.count
            self._run_queue, self._run_end = np.zeros(self._size, np.int32), np.zeros(self._size, np.int32)
            self._queue_offset = np.zeros(self._size, np.int64)
            self._entries = np.zeros(self._size * _ENTRY_SIZE, np.uint8)
        if self._places.size < queue_count:
            self._places = np.zeros(2 * queue_count, np.int32)
        runs = queue_runs(
            window.count,
            window.columns,
            self._places,
            self._run_queue,
            self._run_end,
            self._queue_offset,
            self._entries.ctypes.data,
        )
        entries = int(self._run_end[runs - 1]) if runs else 0
        return QueueRuns(
            self._run_queue[:runs],
            self._run_end[:runs],
            self._queue_offset[:entries],
            self._entries[: entries * _ENTRY_SIZE],
        )


def _with_light(runs: QueueRuns, light: list[LightRun]) -> QueueRuns:
    sizes = [len(offsets) for _, offsets, _ in light]
    return QueueRuns(
        np.concatenate([runs.queue, np.array([number for number, _, _ in light], np.int32)]),
        np.concatenate([runs.end, (len(runs.queue_offset) + np.cumsum(sizes)).astype(np.int32)]),
        np.concatenate([runs.queue_offset, *(offsets for _, offsets, _ in light)]),
        np.concatenate([runs.entries, *(entries for _, _, entries in light)]),
    )


def derive_consume_queue(window: Window, table: TopicTable) -> QueueRuns:
    """Returns the ConsumeQueue entries of a window's messages, grouped by queue, in log order
    within each queue: those in their own queues, then those in light queues, which are added to
    `table`, the table of the scan.

    PREPARED and ROLLBACK messages have no entries.
    """
    return ConsumeQueueDeriver().derive(window, table)


def queue_runs_plain(window: Window, table: TopicTable) -> dict[int, list[tuple[int, bytes]]]:
    """The plain twin: returns queue number → (queue offset, entry) pairs in log order."""
    runs: dict[int, list[tuple[int, bytes]]] = {}
    c = window.columns
    for i in range(window.count):
        if int(c.sys_flag[i]) & SYS_FLAG_TRANSACTION_MASK in (SYS_FLAG_PREPARED, SYS_FLAG_ROLLBACK):
            continue
        entry = CONSUME_QUEUE_ENTRY.pack(int(c.position[i]), int(c.size[i]), int(c.tags_code[i]))
        queue = int(c.queue[i])
        runs.setdefault(queue, []).append((int(c.queue_offset[i]), entry))
        topic, queue_id = table.queues[queue]
        for name, offset in named_queues(topic, properties_of(window, i)):
            light = table.number_of(name, light_queue_id(name, queue_id))
            runs.setdefault(light, []).append((offset, entry))
    return runs
