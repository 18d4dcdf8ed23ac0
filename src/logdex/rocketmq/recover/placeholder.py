"""Placeholder messages: what stands in the new log where bytes of the old one are lost.

A broker walks over a placeholder as over any message. Its transaction type is ROLLBACK, so no
ConsumeQueue and no IndexFile gets an entry for it, and a broker that dispatches the log again gives
it none either. Its body is zeros, which take no space on disk.
"""

from __future__ import annotations

from functools import lru_cache

from logdex.layout.rocketmq import (
    MESSAGE_FIXED_SIZE_BYTES_MIN,
    MESSAGE_HEAD,
    MESSAGE_MAGIC_V1,
    MESSAGE_TAIL,
    SYS_FLAG_ROLLBACK,
)
from logdex.primitives.crc import body_crc
from logdex.primitives.host import Host
from logdex.rocketmq.message.stored_message import StoredMessage

LOST_TOPIC = b"LOGDEX_LOST"
PLACEHOLDER_SIZE_MIN = MESSAGE_FIXED_SIZE_BYTES_MIN + 1
"""A placeholder has at least one byte of its topic: a message that ends with three zeros would look
torn. No message that a broker stored is shorter."""
PLACEHOLDER_SIZE_MAX = 1 << 20
"""A broker reads a message that it checks into memory."""

_NOWHERE = Host(bytes(4), 0)


def is_lost_topic(topic: bytes) -> bool:
    """Whether a message that is in no queue, of this topic, is a placeholder."""
    return bool(topic) and LOST_TOPIC.startswith(topic)


def is_placeholder(message: StoredMessage) -> bool:
    """Whether a message is a placeholder."""
    return message.transaction_type == SYS_FLAG_ROLLBACK and is_lost_topic(message.topic)


def placeholder_sizes(size_bytes: int) -> list[int]:
    """Returns the sizes of the placeholders that fill `size_bytes` bytes: as few as possible, and
    all but equal."""
    count = -(-size_bytes // PLACEHOLDER_SIZE_MAX)
    low, more = divmod(size_bytes, count)
    return [low + 1] * more + [low] * (count - more)


def placeholder_parts(physical_offset: int, size_bytes: int, store_timestamp_ms: int) -> tuple[bytes, bytes]:
    """Returns the bytes of a placeholder before its body, and those after it. Between them are
    zeros, so that it has `size_bytes` bytes, at least `PLACEHOLDER_SIZE_MIN`. Its topic is
    `LOST_TOPIC`, cut where there is no room for all of it."""
    topic = LOST_TOPIC[: size_bytes - MESSAGE_FIXED_SIZE_BYTES_MIN]
    body_length = size_bytes - MESSAGE_FIXED_SIZE_BYTES_MIN - len(topic)
    head = MESSAGE_HEAD.pack(
        *(size_bytes, MESSAGE_MAGIC_V1, _crc_of_zeros(body_length), 0, 0, 0),
        *(physical_offset, SYS_FLAG_ROLLBACK, store_timestamp_ms),
    )
    head += _NOWHERE.pack() + store_timestamp_ms.to_bytes(8, "big", signed=True) + _NOWHERE.pack()
    return head + MESSAGE_TAIL.pack(0, 0, body_length), bytes([len(topic)]) + topic + bytes(2)


@lru_cache(maxsize=8)
def _crc_of_zeros(size_bytes: int) -> int:
    return body_crc(bytes(size_bytes))
