"""Whether the ConsumeQueues of a store lack entries, found cheaply: from the files' sizes, and from
the entries for the end of the log, which must name every message there.

Source: ``docs/formats/consume-queue.md``; ConsumeQueue.recover.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence

import numpy as np
import numpy.typing as npt

from logdex.errors import CorruptError, StorageError, StoreError
from logdex.io.env import Env
from logdex.rocketmq.commit_log.commit_log import CommitLog
from logdex.rocketmq.consume_queue.consume_queue import ConsumeQueue
from logdex.rocketmq.files.config_files import ConsumerOffsets, DelayOffsets, TopicConfigs
from logdex.rocketmq.files.store_files import StorePaths
from logdex.rocketmq.message.stored_message import StoredMessage
from logdex.rocketmq.message.tags_code import SCHEDULE_TOPIC_NAME
from logdex.rocketmq.scan.log_walk import walk
from logdex.rocketmq.settings.store_config import StoreConfig

_TAIL_BYTES = 4 << 20
"""How much of the log's end the entries are held against."""


def is_damaged(queue: ConsumeQueue) -> bool:
    """Whether a queue's files have the wrong size or do not follow each other."""
    return bool(queue.wrong_sizes or queue.gaps())


def has_expired(queue: ConsumeQueue, min_phy_offset: int) -> bool:
    """Whether all messages that a queue's entries name lie before a physical offset, that of the
    log's start. Nothing but the queue's files says then at which queue offset it goes on."""
    if queue.max_offset == queue.start_offset:
        return False
    last = queue.entry(queue.max_offset - 1)
    return last.is_message and last.physical_offset < min_phy_offset


def last_offsets(queues: Iterable[ConsumeQueue], log: CommitLog) -> list[int]:
    """The physical offsets of the last message of each queue that is in the log."""
    found = []
    for queue in queues:
        if queue.max_offset > queue.start_offset:
            entry = queue.entry(queue.max_offset - 1)
            if entry.is_message and log.min_offset <= entry.physical_offset < log.end_offset:
                found.append(entry.physical_offset)
    return found


def lacks_consumed_queues(queues: Iterable[ConsumeQueue], paths: StorePaths, env: Env) -> bool:
    """Whether a queue is missing of which consumers, or the delivery of delayed messages, have read
    messages, as the broker's files in ``config/`` say. Raises `StorageError` if they cannot be
    read."""
    try:
        topics = TopicConfigs.read(paths.config, env=env).topics
        consumed = ConsumerOffsets.read(paths.config, env=env).offsets
        delayed = DelayOffsets.read(paths.config, env=env).offsets
    except CorruptError:
        return False  # verify reports it
    known = {(SCHEDULE_TOPIC_NAME, level - 1) for level, offset in delayed.items() if offset > 0}
    for (topic, _), offsets in consumed.items():
        if topic in topics:
            known |= {(topic, queue_id) for queue_id, offset in offsets.items() if offset > 0}
    return not known <= {(queue.topic, queue.queue_id) for queue in queues}


def lacks_entries(
    queues: Sequence[ConsumeQueue],
    log: CommitLog,
    end_offset: int,
    is_deleted: Callable[[bytes], bool],
    config: StoreConfig,
    env: Env,
) -> bool:
    """Whether a message near the end of the log lacks its entry. Reads the entries for the last few
    MiB of the log, and the messages that they do not name. Messages of deleted topics have no
    entries, nor have those of an earlier life of a queue."""
    if end_offset == log.min_offset:
        return False
    begin = max(end_offset - _TAIL_BYTES, log.min_offset)
    gaps = _Gaps(queues, log, is_deleted, config, env)
    spans = [_tail(queue, begin, end_offset) for queue in queues]
    if begin == log.min_offset:
        spans.append(np.array([[begin, 0]], np.int64))  # a message begins here
    named = np.concatenate(spans) if spans else np.empty((0, 2), np.int64)
    if not len(named):
        return gaps.have_queued(log.file_at_or_before(end_offset - 1).start_offset, end_offset)
    named = named[np.argsort(named[:, 0], kind="stable")]
    ends = np.maximum.accumulate(named[:, 0] + named[:, 1])
    following = np.append(named[1:, 0], end_offset)
    places = np.flatnonzero(following > ends).tolist()
    return any(gaps.have_queued(int(ends[place]), int(following[place])) for place in places)


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


class _Gaps:
    """The parts of the log that no entry names."""

    def __init__(
        self,
        queues: Iterable[ConsumeQueue],
        log: CommitLog,
        is_deleted: Callable[[bytes], bool],
        config: StoreConfig,
        env: Env,
    ) -> None:
        self._queues = {(queue.topic, queue.queue_id): queue for queue in queues}
        self._log, self._is_deleted, self._config, self._env = log, is_deleted, config, env

    def have_queued(self, begin: int, end: int) -> bool:
        """Whether a message begins in [begin, end) that must have an entry."""
        try:
            for offset, message in walk(self._log, begin, self._config, self._env, look_behind=False):
                if offset >= end:
                    return False
                if message.is_queued and not self._is_earlier(offset, message) and not self._is_deleted(message.topic):
                    return True
        except StorageError:
            raise  # the file may be sound
        except StoreError:
            return True
        return False

    def _is_earlier(self, offset: int, message: StoredMessage) -> bool:
        """Whether a message lies before the first one of its queue's life."""
        queue = self._queues.get((message.topic, message.queue_id))
        return (
            queue is not None
            and queue.start_offset == 0
            and queue.max_offset > 0
            and queue.entry(0).physical_offset > offset
        )
