"""Sending a message back: it comes again later in the topic ``%RETRY%GROUP``, and after too many
times it goes to ``%DLQ%GROUP``, which nobody consumes.

Source: AbstractSendMessageProcessor.consumerSendMsgBack, SubscriptionGroupConfig.
"""

from __future__ import annotations

import random
from dataclasses import replace

from logdex.errors import LogFailedError, UsageError
from logdex.primitives.text import to_bytes
from logdex.rocketmq.consuming.source import queue_ids
from logdex.rocketmq.files.config_files import Raw, SubscriptionGroups
from logdex.rocketmq.files.store_files import StorePaths
from logdex.rocketmq.message.message_id import MessageId
from logdex.rocketmq.message.own_topics import ORIGIN_MESSAGE_ID, RETRY_TOPIC, dlq_topic_of, retry_topic_of
from logdex.rocketmq.message.stored_message import StoredMessage
from logdex.rocketmq.message_store.message_store import MessageStore
from logdex.rocketmq.message_store.put.message import Message, PutMessageResult

_DELAY, _WAIT = b"DELAY", b"WAIT"
_FIRST_DELAY_LEVEL = 3
_RETRY_MAX_TIMES, _RETRY_QUEUE_NUMS, _DLQ_QUEUE_NUMS = 16, 1, 1


def as_consumed(message: StoredMessage) -> StoredMessage:
    """A message of a retry topic with the topic that it was put to at first, as a client shows
    it."""
    topic = message.properties.get(RETRY_TOPIC)
    return message if topic is None else replace(message, topic=topic)


def as_stored(message: StoredMessage, group: str) -> StoredMessage:
    """The opposite of `as_consumed`, for a message that a group has read: with the topic in whose
    queue it lies."""
    is_again = message.properties.get(RETRY_TOPIC) == message.topic
    return replace(message, topic=retry_topic_of(group)) if is_again else message


def require_stored(message: object) -> None:
    """Raises `UsageError` for what is no message that was read."""
    if not isinstance(message, StoredMessage):
        raise UsageError(
            f"only a message can be sent back, not {type(message).__name__}", hint="give what poll returned"
        )


def send_back(
    store: MessageStore, group: str, message: StoredMessage, delay_level: int, max_reconsume_times: int | None
) -> PutMessageResult:
    """Puts a message that a group has read once more. A `delay_level` of 0 means 3 and one more per
    time, below 0 that the message is given up now.

    The stored message is read again, as by the broker. Raises `LogFailedError` if the store does
    not take it.
    """
    known = SubscriptionGroups.read(StorePaths(store.path).config, env=store.core.env).groups.get(to_bytes(group), {})
    if max_reconsume_times is None:
        max_reconsume_times = _number(known, "retryMaxTimes", _RETRY_MAX_TIMES)
    stored = store.look_message_by_offset(message.physical_offset)
    if stored.reconsume_times >= max_reconsume_times or delay_level < 0:
        topic, queue_nums, delay_level = dlq_topic_of(group), _DLQ_QUEUE_NUMS, 0
    else:
        topic, queue_nums = retry_topic_of(group), _number(known, "retryQueueNums", _RETRY_QUEUE_NUMS)
        delay_level = delay_level or _FIRST_DELAY_LEVEL + stored.reconsume_times
    if not queue_ids(store.path, topic, store.core.env):
        store.create_topic(topic, max(queue_nums, 1))
    queues = queue_ids(store.path, topic, store.core.env)
    pairs = dict(stored.properties)
    pairs.setdefault(RETRY_TOPIC, stored.topic)
    pairs.setdefault(ORIGIN_MESSAGE_ID, str(MessageId(stored.store_host, stored.physical_offset)).encode())
    pairs |= {_WAIT: b"false", _DELAY: b"%d" % delay_level}
    result = store.put_message(
        Message(
            topic,
            stored.body,
            properties=pairs,
            queue_id=random.choice(queues),
            delay_level=delay_level,
            flag=stored.flag,
            sys_flag=stored.sys_flag,
            born_timestamp_ms=stored.born_timestamp_ms,
            born_host=stored.born_host,
            reconsume_times=stored.reconsume_times + 1,
            wait_store_msg_ok=False,
        )
    )
    if not result.is_stored:
        raise LogFailedError(
            f"the store did not take the message back: {result.status.value}; {result.remark}",
            path=store.path,
            hint="do not commit: the message comes again",
        )
    return result


def _number(group: Raw, name: str, default: int) -> int:
    """A number of a group's settings; the broker's default if the file does not state it."""
    value = group.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) else default
