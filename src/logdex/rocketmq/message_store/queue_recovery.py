"""Whether the ConsumeQueues of a store lack entries, found cheaply: from the files' sizes, and from
the entries, which must name every message. They are a small part of the log's size.

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
"""How much of the log's end the entries are held against, if a closed state says what was there
before."""
_PART_ENTRIES = 1 << 18
"""About how many entries are read at once."""
_PARTS_MAX = 16
"""A log of which the entries are in more parts is held against so many of them, evenly spread, so
that a large store still opens within a quarter of a second of work."""
_WALKED_MAX = 10_000
"""So many messages without an entry, be it of deleted topics, are read one by one. If there are
more, a scan is quicker."""


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
    whole: bool,
) -> bool:
    """Whether a message before `end_offset` lacks its entry: one in the last few MiB, or with
    `whole` one anywhere. Reads the entries, and the messages that they do not name. Messages of
    deleted topics have no entries, nor have those of an earlier life of a topic or queue."""
    begin = log.min_offset if whole else max(end_offset - _TAIL_BYTES, log.min_offset)
    gaps = _Gaps(queues, log, is_deleted, config, env)
    before, last = (begin if begin == log.min_offset else None), begin
    for low, high in _parts(queues, begin, end_offset) if whole else [(begin, end_offset)]:
        if low != last:
            before = None  # what lies between two parts is not looked at
        last = high
        starts, ends = np.concatenate([np.empty((2, 0), np.int64), *(_named(queue, low, high) for queue in queues)], 1)
        if not len(starts):
            continue
        order = np.argsort(starts, kind="stable")
        starts = starts[order]
        ends = np.maximum.accumulate(np.append(starts[0] if before is None else before, ends[order]))
        for place in np.flatnonzero(starts > ends[:-1]).tolist():
            if gaps.have_queued(int(ends[place]), int(starts[place])):
                return True
        before = int(ends[-1])
    if before is None:
        before = log.file_at_or_before(end_offset - 1).start_offset
    return (before < end_offset and gaps.have_queued(before, end_offset)) or gaps.have_suspects


def _parts(queues: Iterable[ConsumeQueue], begin: int, end: int) -> list[tuple[int, int]]:
    """The parts of the log in [begin, end) that are looked at."""
    count = sum(queue.max_offset - queue.start_offset for queue in queues) // _PART_ENTRIES + 1
    size = -(-(end - begin) // count)
    lows = [begin + size * place for place in range(count)]
    if count > _PARTS_MAX:
        lows = [lows[place * (count - 1) // (_PARTS_MAX - 1)] for place in range(_PARTS_MAX)]
    return [(low, min(low + size, end)) for low in lows if low < end]


def _named(queue: ConsumeQueue, begin: int, end: int) -> npt.NDArray[np.int64]:
    """Where the messages in [begin, end) start and end that a queue's entries name: two rows."""
    places = range(queue.start_offset, queue.max_offset)

    def first_from(offset: int) -> int:
        return queue.start_offset + bisect_left(places, True, key=lambda at: _is_from(queue, at, offset))

    first = first_from(begin)
    following = queue.max_offset
    if following > first and _is_from(queue, following - 1, end):
        following = first_from(end)
    entries = queue.entries(first, following - first)
    starts = entries["physical_offset"].astype(np.int64)
    spans = np.stack([starts, starts + entries["size"]])
    is_inside = (starts >= begin) & (starts < end)
    return spans if is_inside.all() else spans[:, is_inside]


def _is_from(queue: ConsumeQueue, at: int, offset: int) -> bool:
    """Whether the entry at a queue offset is for a message from a physical offset on."""
    entry = queue.entry(at)
    return not entry.is_pre_blank and entry.physical_offset >= offset


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
        self._topics: dict[bytes, dict[int, ConsumeQueue]] = {}
        for queue in queues:
            if queue.max_offset > 0:
                self._topics.setdefault(queue.topic, {})[queue.queue_id] = queue
        self._log, self._is_deleted, self._config, self._env = log, is_deleted, config, env
        self._steps = _WALKED_MAX
        self._made_again: set[bytes] = set()
        """The topics of which a queue has begun anew: they were deleted and made again."""
        self._suspects: set[bytes] = set()
        """The topics that have a message, before those of all of their queues, whose queue is
        missing. Either the queue is lost, or the topic was made again."""

    @property
    def have_suspects(self) -> bool:
        """Whether a message that must have an entry was among those that `have_queued` could not
        decide about."""
        return bool(self._suspects - self._made_again)

    def have_queued(self, begin: int, end: int) -> bool:
        """Whether a message begins in [begin, end) that must have an entry, or so many were read
        that a scan is to decide. Call it for one gap after the other."""
        try:
            for offset, message in walk(self._log, begin, self._config, self._env, look_behind=False):
                if offset >= end:
                    return False
                self._steps -= 1
                if not self._steps or self._must_be_named(offset, message):
                    return True
        except StorageError:
            raise  # the file may be sound
        except StoreError:
            return True
        return False

    def _must_be_named(self, offset: int, message: StoredMessage) -> bool:
        if not message.is_queued or self._is_deleted(message.topic):
            return False
        queues = self._topics.get(message.topic, {})
        if message.queue_id in queues:
            if not _begins_behind(queues[message.queue_id], offset):
                return True
            self._made_again.add(message.topic)
            return False
        if not queues or not all(_begins_behind(queue, offset) for queue in queues.values()):
            return True
        self._suspects.add(message.topic)
        return False


def _begins_behind(queue: ConsumeQueue, offset: int) -> bool:
    """Whether a queue's first message of all lies behind a physical offset."""
    return queue.start_offset == 0 and queue.entry(0).physical_offset > offset
