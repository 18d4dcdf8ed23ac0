"""What the tests of `Log` share."""

from __future__ import annotations

from typing import Any

from logdex.kafka.batch.record import Record
from logdex.kafka.log.log import Log


def put(log: Log, *values: str, timestamp_ms: int = 1000, **options: Any) -> None:
    log.append([Record(b"k", value.encode(), timestamp_ms) for value in values], **options)


def values(records: list[Record]) -> list[str]:
    return [(record.value or b"").decode() for record in records]
