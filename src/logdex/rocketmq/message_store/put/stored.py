"""Puts a message of the log again, at another place: what is due from the topic of delayed
messages, what a transaction commits.

Source: ScheduleMessageService.messageTimeUp, EndTransactionProcessor.endMessageTransaction,
MessageDecoder.string2messageProperties.
"""

from __future__ import annotations

from contextlib import suppress

from logdex.errors import UsageError
from logdex.layout.rocketmq import MESSAGE_MAGIC_V1, MESSAGE_MAGIC_V2
from logdex.primitives.crc import body_crc
from logdex.primitives.java_hash import decode_utf8
from logdex.primitives.java_hash_map import string_map_order
from logdex.rocketmq.message import properties as props
from logdex.rocketmq.message.stored_message import StoredMessage, encode_rest, head_struct
from logdex.rocketmq.message_store.core import StoreCore
from logdex.rocketmq.message_store.put.append import put_encoded, put_refusal
from logdex.rocketmq.message_store.put.encode import Encoded, Encoder, Pairs, with_host_flags
from logdex.rocketmq.message_store.put.light_places import light_places, reserve_places
from logdex.rocketmq.message_store.put.message import PutMessageResult, Refusal, illegal
from logdex.rocketmq.message_store.put.property_checks import PROPERTIES_SIZE_BYTES_MAX, properties_exceed
from logdex.rocketmq.settings.dialect import Dialect


def properties_of(message: StoredMessage) -> Pairs:
    """A stored message's properties as Java's text: bytes that are not UTF-8 become U+FFFD."""
    return props.parse_properties(decode_utf8(message.properties_raw).encode())


def stored_form(pairs: Pairs, dialect: Dialect, map_capacity: int) -> bytes:
    """The stored form of properties, in the order of the broker's map of so many buckets."""
    names = tuple(pairs)
    order = string_map_order(names, map_capacity)
    raw = props.format_properties((names[place], pairs[names[place]]) for place in order)
    return raw if dialect.separator_at_end else raw[:-1]


def real_place(pairs: Pairs) -> tuple[bytes, int] | None:
    """The topic and queue that a message is for, from REAL_TOPIC and REAL_QID; None if it does not
    say."""
    topic, queue_id = pairs.get(props.REAL_TOPIC), pairs.get(props.REAL_QUEUE_ID, b"")
    if topic is None or not queue_id.isdigit() or len(queue_id) > 10 or int(queue_id) >= 1 << 31:
        return None
    return topic, int(queue_id)


def put_stored(
    core: StoreCore,
    encoder: Encoder,
    message: StoredMessage,
    place: tuple[bytes, int],
    pairs: Pairs,
    *,
    sys_flag: int,
    prepared_transaction_offset: int = 0,
    map_capacity: int | None = None,
) -> PutMessageResult:
    """Puts a stored message again, with another topic and queue, the properties `pairs`, and
    another sysFlag, in which the bits for hosts are set here. It does not wait for the disk.

    The broker's map of the properties has `map_capacity` buckets, by default as many as one that is
    parsed from a stored message. A light queue that cannot exist is passed over. Raises
    `StorageError` or `LogFailedError` if writing fails.
    """
    topic, queue_id = place
    try:
        refused = put_refusal(core, encoder, topic, message.body)
    except UsageError:  # the topic cannot name a folder
        refused = illegal(f"the topic {topic!r} cannot name a folder")
    if isinstance(refused, Refusal):
        return refused.result
    queues: tuple[tuple[bytes, int], ...] = ()
    if props.MULTI_DISPATCH in pairs:
        pairs = {name: value for name, value in pairs.items() if name != props.MULTI_QUEUE_OFFSET}
        with suppress(UsageError):
            queues = reserve_places(pairs, topic, queue_id)
    dialect = core.config.dialect
    raw = stored_form(pairs, dialect, dialect.property_map_capacity if map_capacity is None else map_capacity)
    if len(raw) > PROPERTIES_SIZE_BYTES_MAX:
        return properties_exceed(len(raw)).result
    magic = MESSAGE_MAGIC_V2 if encoder.is_long(topic) else MESSAGE_MAGIC_V1
    born_host, store_host = message.born_host.pack(), message.store_host.pack()
    sys_flag = with_host_flags(sys_flag, born_host, store_host)
    head, rest = head_struct(sys_flag), encode_rest(magic, message.body, topic, raw)
    size = head.size + len(rest)
    if not encoder.admits(len(message.body), size):
        return encoder.too_large(len(message.body), size).result
    encoded = Encoded(
        topic=topic,
        queue_id=queue_id,
        size_bytes=size,
        magic=magic,
        body_crc=body_crc(message.body),
        flag=message.flag,
        sys_flag=sys_flag,
        born_timestamp_ms=message.born_timestamp_ms,
        born_host=born_host,
        store_host=message.store_host,
        packed_store_host=store_host,
        reconsume_times=message.reconsume_times,
        prepared_transaction_offset=prepared_transaction_offset,
        body_length=len(message.body),
        rest=rest,
        head=head,
        light=light_places(raw, queues),
    )
    core.topics.require_all([place], core.clock_ms())
    return put_encoded(core, encoded, False)
