"""Messages of the topics that a broker keeps for itself: which topic and queue each is for.

Source: TopicValidator, MixAll, ScheduleMessageService, TransactionalMessageBridge.
"""

from __future__ import annotations

from typing import Any

from logdex.primitives.text import to_bytes
from logdex.rocketmq.message import properties as props
from logdex.rocketmq.message.message_json import to_text
from logdex.rocketmq.message.stored_message import StoredMessage
from logdex.rocketmq.message.tags_code import SCHEDULE_TOPIC_NAME

HALF_TOPIC_NAME = b"RMQ_SYS_TRANS_HALF_TOPIC"
OP_TOPIC_NAME = b"RMQ_SYS_TRANS_OP_HALF_TOPIC"
_BY_TOPIC = {
    SCHEDULE_TOPIC_NAME: "delayed message",
    b"rmq_sys_wheel_timer": "timer message",
    HALF_TOPIC_NAME: "half message",
    OP_TOPIC_NAME: "end of a half message",
}
UNDELIVERED_TOPICS = frozenset(_BY_TOPIC)
"""The topics in which an engine keeps what it has yet to deliver."""
_RETRY_PREFIX, _DLQ_PREFIX = b"%RETRY%", b"%DLQ%"
_BY_PREFIX = {_RETRY_PREFIX: "message to consume again", _DLQ_PREFIX: "message that was given up"}
RETRY_TOPIC, ORIGIN_MESSAGE_ID = b"RETRY_TOPIC", b"ORIGIN_MESSAGE_ID"


def retry_topic_of(group: str) -> bytes:
    """The topic in which messages come again to a group."""
    return _RETRY_PREFIX + to_bytes(group)


def dlq_topic_of(group: str) -> bytes:
    """The topic of the messages that a group has given up."""
    return _DLQ_PREFIX + to_bytes(group)


def decode_message_of(message: StoredMessage) -> dict[str, Any] | None:
    """Returns what a message of one of the broker's topics is, and the topic and queue that it is
    for; None for a message of another topic."""
    topic, pairs = message.topic, message.properties
    kind = _BY_TOPIC.get(topic)
    prefix = next((each for each in _BY_PREFIX if topic.startswith(each)), None)
    if prefix is not None:
        kind = _BY_PREFIX[prefix]
    if kind is None:
        return None
    real_topic = pairs.get(RETRY_TOPIC if prefix is not None else props.REAL_TOPIC)
    decoded: dict[str, Any] = {"type": kind, "real_topic": _text(real_topic)}
    if prefix is not None:
        decoded |= {"group": to_text(topic[len(prefix) :]), "reconsume_times": message.reconsume_times}
        return decoded | {"origin_message_id": _text(pairs.get(ORIGIN_MESSAGE_ID))}
    decoded["real_queue_id"] = _number(pairs.get(props.REAL_QUEUE_ID))
    if topic == SCHEDULE_TOPIC_NAME:
        decoded["delay_level"] = _number(pairs.get(props.DELAY))
    if topic == OP_TOPIC_NAME:
        decoded["half_queue_offsets"] = to_text(message.body)
    return decoded


def _text(value: bytes | None) -> str | None:
    return None if value is None else to_text(value)


def _number(value: bytes | None) -> int | str | None:
    """Returns a number, or the text of what is none."""
    return int(value) if value is not None and value.isdigit() and len(value) < 20 else _text(value)
