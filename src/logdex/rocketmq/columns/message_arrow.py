"""The Arrow schema of messages, and the slow way to record batches.

Fields are named as in JSON. Text is valid UTF-8 (see `to_text`), and bodies are returned as stored.
The fast way is in `message_columns`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from logdex.rocketmq.message.message_id import MessageId
from logdex.rocketmq.message.message_json import to_text
from logdex.rocketmq.message.stored_message import StoredMessage

SCHEMA = pa.schema(
    [
        ("topic", pa.dictionary(pa.int32(), pa.string())),
        ("queue_id", pa.int32()),
        ("queue_offset", pa.int64()),
        ("physical_offset", pa.int64()),
        ("size_bytes", pa.int32()),
        ("sys_flag", pa.int32()),
        ("flag", pa.int32()),
        ("born_timestamp_ms", pa.int64()),
        ("born_host", pa.string()),
        ("store_timestamp_ms", pa.int64()),
        ("store_host", pa.string()),
        ("reconsume_times", pa.int32()),
        ("prepared_transaction_offset", pa.int64()),
        ("body_crc", pa.int64()),
        ("body", pa.binary()),
        ("properties", pa.map_(pa.string(), pa.string())),
        ("tags", pa.string()),
        ("keys", pa.list_(pa.string())),
        ("unique_key", pa.string()),
        ("msg_id", pa.string()),
    ]
)
"""One field per key of `message_to_json`; `body` is binary and `properties` is a map."""


def messages_to_batch(items: Iterable[tuple[int, StoredMessage]]) -> pa.RecordBatch:
    """Returns the record batch of (physical offset, message) pairs. This is the slow way, and the
    plain twin of `message_columns` in tests."""
    rows = [_row(message, offset) for offset, message in items]
    columns = zip(*rows, strict=True) if rows else [()] * len(SCHEMA)
    arrays = [_array(list(column), field.type) for column, field in zip(columns, SCHEMA, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


def _array(values: list[Any], kind: pa.DataType) -> pa.Array:
    if pa.types.is_dictionary(kind):
        return pa.array(values, kind.value_type).dictionary_encode()
    return pa.array(values, kind)


def _row(message: StoredMessage, physical_offset: int) -> tuple[Any, ...]:
    tags, unique_key = message.tags, message.unique_key
    return (
        to_text(message.topic),
        message.queue_id,
        message.queue_offset,
        physical_offset,
        message.size_bytes,
        message.sys_flag,
        message.flag,
        message.born_timestamp_ms,
        str(message.born_host),
        message.store_timestamp_ms,
        str(message.store_host),
        message.reconsume_times,
        message.prepared_transaction_offset,
        message.body_crc,
        message.body,
        [(to_text(name), to_text(value)) for name, value in message.properties.items()],
        None if tags is None else to_text(tags),
        [to_text(key) for key in message.keys],
        None if unique_key is None else to_text(unique_key),
        str(MessageId(message.store_host, physical_offset)),
    )
