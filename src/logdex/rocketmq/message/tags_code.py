"""A message's tagsCode in the ConsumeQueue: the hash of its tag, or a delayed message's delivery
time.

Source: ``docs/formats/consume-queue.md``; CommitLog.checkMessageAndReturnSize.
"""

from __future__ import annotations

from logdex.primitives.java_hash import java_hash
from logdex.rocketmq.message import properties as props
from logdex.rocketmq.message.stored_message import StoredMessage
from logdex.rocketmq.settings.store_config import StoreConfig

SCHEDULE_TOPIC_NAME = b"SCHEDULE_TOPIC_XXXX"
"""TopicValidator.RMQ_SYS_SCHEDULE_TOPIC: the topic of delayed messages."""

_INT_MIN, _INT_MAX = -(1 << 31), (1 << 31) - 1


def tags_code(message: StoredMessage, config: StoreConfig) -> int | None:
    """The tagsCode; None if DELAY is no number, at which the engine throws and the log ends."""
    delay = message.properties.get(props.DELAY)
    if message.topic == SCHEDULE_TOPIC_NAME and delay is not None:
        digits = delay[1:] if delay[:1] in (b"+", b"-") else delay
        if not (digits.isdigit() and len(digits) <= 10 and _INT_MIN <= int(delay) <= _INT_MAX):
            return None
        if int(delay) > 0:
            level = min(int(delay), len(config.delay_levels_ms))
            return message.store_timestamp_ms + config.delay_levels_ms[level - 1]
    return java_hash(message.tags) if message.tags else 0
