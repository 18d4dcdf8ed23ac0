"""Infers messageDelayLevel from the ConsumeQueues of delayed messages: an entry there holds its
message's delivery time, so the entry and the message show the delay of one level.

Source: ``docs/formats/consume-queue.md``; ScheduleMessageService.parseDelayLevel,
CommitLog.checkMessageAndReturnSize.
"""

from __future__ import annotations

from typing import NamedTuple

from logdex.errors import StoreError
from logdex.io.env import Env
from logdex.rocketmq.commit_log.commit_log import CommitLog
from logdex.rocketmq.consume_queue.consume_queue import ConsumeQueue, queues_of_topic
from logdex.rocketmq.message import properties as props
from logdex.rocketmq.message.tags_code import SCHEDULE_TOPIC_NAME
from logdex.rocketmq.settings.store_config import DEFAULT_DELAY_LEVELS, delay_text, is_delay, parse_delay_levels

_ENTRIES_READ = 8
_QUEUES_READ = 64
_LEVEL_MAX = 1024


class DelayLevels(NamedTuple):
    """The delay of each level in milliseconds, and the levels that the store shows; the others have
    the broker's default."""

    levels_ms: tuple[int, ...]
    shown: tuple[int, ...]

    @property
    def evidence(self) -> str:
        """The delays that the store shows, in words."""
        pairs = (f"level {level} is {delay_text(self.levels_ms[level - 1])}" for level in self.shown)
        return f"messageDelayLevel: {', '.join(pairs)}, as the ConsumeQueues show"


def infer_delay_levels(root: str, log: CommitLog, queue_file_size_bytes: int, *, env: Env) -> DelayLevels:
    """Returns the delay levels that the newest entries of the queues of delayed messages show.

    Damaged or unreadable entries show nothing and raise no error.
    """
    default = parse_delay_levels(DEFAULT_DELAY_LEVELS)
    newest: dict[int, tuple[int, int]] = {}
    for queue_id, directory in queues_of_topic(root, SCHEDULE_TOPIC_NAME.decode(), env=env)[:_QUEUES_READ]:
        try:
            queue = ConsumeQueue(
                directory, SCHEDULE_TOPIC_NAME, queue_id, file_size_bytes=queue_file_size_bytes, env=env
            )
        except StoreError:
            continue  # verify reports it
        for stated, stored_ms, delay_ms in _newest_delays(queue, log):
            # A level above the highest one counts as that, and its message is in the highest one's
            # queue.
            for level in {stated, min(stated, queue_id + 1)}:
                if 0 < level <= _LEVEL_MAX:
                    newest[level] = max(newest.get(level, (0, 0)), (stored_ms, delay_ms))
        queue.close()
    levels = [
        newest[level][1] if level in newest else default[min(level, len(default)) - 1]
        for level in range(1, max([len(default), *newest]) + 1)
    ]
    return DelayLevels(tuple(levels), tuple(sorted(newest)))


def _newest_delays(queue: ConsumeQueue, log: CommitLog) -> list[tuple[int, int, int]]:
    """Returns (level, store time, delay) per entry that agrees with its message: of the newest
    entries or, if a crash or damage left none of those, of some in the middle or at the start."""
    first, end = queue.start_offset, queue.max_offset
    for start in (max(end - _ENTRIES_READ, first), (first + end) // 2, first):
        try:
            entries = queue.entries(start, _ENTRIES_READ).tolist()
        except StoreError:
            continue
        found = [delay for number, entry in enumerate(entries) if (delay := _delay(queue, start + number, entry, log))]
        if found:
            return found
    return []


def _delay(
    queue: ConsumeQueue, queue_offset: int, entry: tuple[int, int, int], log: CommitLog
) -> tuple[int, int, int] | None:
    """Returns (level, store time, delay) of one entry; None if it does not agree with its
    message."""
    physical_offset, _, tags_code = entry
    try:
        message = log.read_message(physical_offset, check_crc=False)
    except StoreError:
        return None
    if (message.topic, message.queue_id, message.queue_offset) != (queue.topic, queue.queue_id, queue_offset):
        return None
    level, delay_ms = message.properties.get(props.DELAY, b""), tags_code - message.store_timestamp_ms
    is_level = level.isdigit() and len(level) <= 10 and int(level) > 0
    return (int(level), message.store_timestamp_ms, delay_ms) if is_level and is_delay(delay_ms) else None
