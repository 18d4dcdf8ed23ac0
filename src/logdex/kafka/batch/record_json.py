"""A record as JSON, for `logdex cat` and similar commands.

Keys, values and header values are base64, because bytes need not be text; null stays null. A header
is a pair [key, value], because keys may repeat and their order counts. A header key is text. If it
is not UTF-8 it is shown with ``backslashreplace``, like topics and RocketMQ's keys, so its bytes
cannot be restored from the JSON.
"""

from __future__ import annotations

from base64 import b64encode
from typing import Any

from logdex.kafka.batch.record import Record


def record_to_json(record: Record, *, topic: str, partition: int) -> dict[str, Any]:
    """The JSON fields of a record, in the order in which all commands print them."""
    return {
        "topic": topic,
        "partition": partition,
        "offset": record.offset,
        "timestamp_ms": record.timestamp_ms,
        "timestamp_type": record.timestamp_type.value,
        "key": _base64(record.key),
        "value": _base64(record.value),
        "headers": [[header_key_text(key), _base64(value)] for key, value in record.headers],
        "leader_epoch": record.leader_epoch,
        "producer_id": record.producer_id,
        "producer_epoch": record.producer_epoch,
        "sequence": record.sequence,
        "is_transactional": record.is_transactional,
        "is_control": record.is_control,
    }


def header_key_text(key: str | bytes) -> str:
    """A header's key as valid UTF-8 text."""
    return key if isinstance(key, str) else key.decode("utf-8", "backslashreplace")


def _base64(data: bytes | None) -> str | None:
    return None if data is None else b64encode(data).decode("ascii")
