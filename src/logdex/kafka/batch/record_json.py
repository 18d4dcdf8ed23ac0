"""A record as JSON, for `logdex cat` and its kin.

Keys, values and header values are base64 (bytes need not be text), null where Kafka has null. A header is a pair
[key, value]: keys may repeat and their order counts. A header key is text; one that is not UTF-8 is shown with
``backslashreplace``, as topics and keys are everywhere, so such a key alone does not come back from JSON unchanged.
"""

from __future__ import annotations

from base64 import b64encode
from typing import Any

from logdex.kafka.batch.record import Record


def record_to_json(record: Record, *, topic: str, partition: int) -> dict[str, Any]:
    """The fields that every reader of Kafka's records prints, in their order; ready for `json.dumps`."""
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
    """A header's key as text that is valid UTF-8."""
    return key if isinstance(key, str) else key.decode("utf-8", "backslashreplace")


def _base64(data: bytes | None) -> str | None:
    return None if data is None else b64encode(data).decode("ascii")
