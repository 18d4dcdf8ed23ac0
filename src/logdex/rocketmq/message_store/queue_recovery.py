"""Whether the ConsumeQueues of a store lack entries, found cheaply: from the files' sizes, and from
the entries for the end of the log, which must name every message there.

Source: ``docs/formats/consume-queue.md``; ConsumeQueue.recover.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from logdex.errors import StorageError, StoreError
from logdex.io.env import Env
from logdex.rocketmq.commit_log.commit_log import CommitLog
from logdex.rocketmq.consume_queue.consume_queue import ConsumeQueue
from logdex.rocketmq.scan.log_walk import walk
from logdex.rocketmq.settings.store_config import StoreConfig

_TAIL_BYTES = 4 << 20
"""How much of the log's end the entries are held against."""


def is_damaged(queue: ConsumeQueue) -> bool:
    """Whether a queue's files have the wrong size or do not follow each other."""
    return bool(queue.wrong_sizes or queue.gaps())


def last_offsets(queues: Iterable[ConsumeQueue], log: CommitLog) -> list[int]:
    """The physical offsets of the last message of each queue that is in the log."""
    found = []
    for queue in queues:
        if queue.max_offset > queue.start_offset:
            entry = queue.entry(queue.max_offset - 1)
            if entry.is_message and log.min_offset <= entry.physical_offset < log.end_offset:
                found.append(entry.physical_offset)
    return found


def lacks_entries(
    queues: Iterable[ConsumeQueue], log: CommitLog, end_offset: int, config: StoreConfig, env: Env
) -> bool:
    """Whether a message near the end of the log has no entry. Reads the entries for the last few
    MiB of the log, and the messages that they do not name."""
    if end_offset == log.min_offset:
        return False
    spans = [_tail(queue, max(end_offset - _TAIL_BYTES, log.min_offset), end_offset) for queue in queues]
    named = np.concatenate(spans) if spans else np.empty((0, 2), np.int64)
    if not len(named):
        return _has_queued(log, log.file_at_or_before(end_offset - 1).start_offset, end_offset, config, env)
    named = named[np.argsort(named[:, 0], kind="stable")]
    ends = np.maximum.accumulate(named[:, 0] + named[:, 1])
    following = np.append(named[1:, 0], end_offset)
    for place in np.flatnonzero(following > ends).tolist():
        if _has_queued(log, int(ends[place]), int(following[place]), config, env):
            return True
    return False


def _tail(queue: ConsumeQueue, begin: int, end: int) -> npt.NDArray[np.int64]:
    """(physical offset, size) of a queue's entries for messages in [begin, end)."""
    low = queue.start_offset

    def is_before(at: int) -> bool:
        entry = queue.entry(at)
        return entry.is_pre_blank or entry.physical_offset < begin

    first = low + bisect_left(range(low, queue.max_offset), True, key=lambda at: not is_before(at))
    entries = queue.entries(first, queue.max_offset - first)
    rows = np.stack([entries["physical_offset"], entries["size"].astype(np.int64)], axis=1)
    return rows[(rows[:, 0] >= begin) & (rows[:, 0] < end)]


def _has_queued(log: CommitLog, begin: int, end: int, config: StoreConfig, env: Env) -> bool:
    """Whether a message that belongs into a queue begins in [begin, end)."""
    try:
        for offset, message in walk(log, begin, config, env, look_behind=False):
            if offset >= end:
                return False
            if message.is_queued:
                return True
    except StorageError:
        raise  # the file may be sound
    except StoreError:
        return True
    return False
