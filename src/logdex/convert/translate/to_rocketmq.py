"""Kafka's records as RocketMQ's messages."""

from __future__ import annotations

from typing import NamedTuple

from logdex.convert.translate.names import (
    MESSAGE_HEADER,
    RECORD_PROPERTY,
    RecordFields,
    StoredFields,
    format_record,
    parse_message_header,
    readable,
    storable_key,
)
from logdex.kafka.batch.record import Record
from logdex.kafka.batch.record_format import header_key_bytes
from logdex.rocketmq.files.store_files import queue_folder
from logdex.rocketmq.message_store.put.message import Message

PROPERTIES_BYTES_MAX = 30_000
"""How many bytes of readable headers are added to a message, so that the engine's bound is kept."""


class MadeMessage(NamedTuple):
    """A message, and the time at which it is stored. `lost_topic` is the topic that it had in
    another store, if no folder of a store can have that name: then it has the partition's."""

    message: Message
    store_timestamp_ms: int
    lost_topic: str | None = None


def message_of(record: Record, topic: str, partition: int) -> MadeMessage:
    """Returns the message of a record."""
    own = record.headers[-1] if record.headers else None
    if own is not None and own[0] == MESSAGE_HEADER:
        stored = parse_message_header(own[1])
        if stored is not None:
            return _restored(record, stored, topic, partition)
    fields = RecordFields(record.offset, record.timestamp_ms, record.key, record.value is None, record.headers)
    text = format_record(fields)
    properties = {RECORD_PROPERTY: text}
    shown = readable(record.headers)
    if (
        len(text) + sum(len(name.encode()) + len(value.encode()) + 2 for name, value in shown.items())
        < PROPERTIES_BYTES_MAX
    ):
        properties |= shown
    key = storable_key(record.key)
    message = Message(
        topic,
        record.value or b"",
        keys=() if key is None else (key,),
        properties=properties,
        queue_id=partition,
        born_timestamp_ms=max(record.timestamp_ms, 0),
    )
    return MadeMessage(message, max(record.timestamp_ms, 0))


def _restored(record: Record, stored: StoredFields, topic: str, partition: int) -> MadeMessage:
    lost_topic = stored.topic if queue_folder(stored.topic.encode(), 0) is None else None
    properties = {header_key_bytes(name): value or b"" for name, value in record.headers[:-1]}
    message = Message(
        stored.topic if lost_topic is None else topic,
        record.value or b"",
        properties=properties,
        queue_id=partition,
        flag=stored.flag,
        sys_flag=stored.sys_flag,
        born_timestamp_ms=stored.born_timestamp_ms,
        born_host=stored.born_host,
        store_host=stored.store_host,
        reconsume_times=stored.reconsume_times,
        prepared_transaction_offset=stored.prepared_transaction_offset,
    )
    return MadeMessage(message, stored.store_timestamp_ms, lost_topic)
