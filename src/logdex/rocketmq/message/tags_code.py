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
_DIGITS_MAX = 10


def tags_code(message: StoredMessage, config: StoreConfig) -> int | None:
    """The tagsCode; None if DELAY is no number, at which the engine throws and the log ends."""
    delay = message.properties.get(props.DELAY)
    if message.topic == SCHEDULE_TOPIC_NAME and delay is not None:
        level = _parse_int(delay)
        if level is None:
            return None
        if level > 0:
            level = min(level, len(config.delay_levels_ms))
            return message.store_timestamp_ms + config.delay_levels_ms[level - 1]
    return tag_hash(message)


def tag_hash(message: StoredMessage) -> int:
    """The tagsCode of a message that is not delayed."""
    return java_hash(message.tags) if message.tags else 0


def _parse_int(text: bytes) -> int | None:
    """What Java's Integer.parseInt returns for ASCII text, with any number of leading zeros; None
    if it throws."""
    digits = text[1:] if text[:1] in (b"+", b"-") else text
    significant = digits.lstrip(b"0")
    if not digits.isdigit() or len(significant) > _DIGITS_MAX:
        return None
    value = int(significant or b"0") * (-1 if text[:1] == b"-" else 1)
    return value if _INT_MIN <= value <= _INT_MAX else None
