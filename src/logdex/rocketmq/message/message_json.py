"""A message as JSON: the only place that defines the field names.

Bytes that are not UTF-8 are escaped with backslashes; the body is base64.
"""

from __future__ import annotations

import base64
from typing import Any

from logdex.rocketmq.message.message_id import MessageId
from logdex.rocketmq.message.stored_message import StoredMessage


def to_text(data: bytes) -> str:
    r"""Stored bytes as text: UTF-8, with ``\xNN`` for each byte that is not."""
    return data.decode("utf-8", "backslashreplace")


def message_to_json(
    message: StoredMessage, physical_offset: int | None = None, *, body: bytes | None = None
) -> dict[str, Any]:
    """The message's JSON object, with fields in a fixed order.

    `physical_offset` is the message's actual offset (default: the stored one). `body` replaces the
    stored body, for callers that have decompressed it.
    """
    at = message.physical_offset if physical_offset is None else physical_offset
    tags, unique_key = message.tags, message.unique_key
    return {
        "topic": to_text(message.topic),
        "queue_id": message.queue_id,
        "queue_offset": message.queue_offset,
        "physical_offset": at,
        "size_bytes": message.size_bytes,
        "sys_flag": message.sys_flag,
        "flag": message.flag,
        "born_timestamp_ms": message.born_timestamp_ms,
        "born_host": str(message.born_host),
        "store_timestamp_ms": message.store_timestamp_ms,
        "store_host": str(message.store_host),
        "reconsume_times": message.reconsume_times,
        "prepared_transaction_offset": message.prepared_transaction_offset,
        "body_crc": message.body_crc,
        "body": base64.b64encode(message.body if body is None else body).decode("ascii"),
        "properties": {to_text(name): to_text(value) for name, value in message.properties.items()},
        "tags": None if tags is None else to_text(tags),
        "keys": [to_text(key) for key in message.keys],
        "unique_key": None if unique_key is None else to_text(unique_key),
        "msg_id": str(MessageId(message.store_host, at)),
    }
