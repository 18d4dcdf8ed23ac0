"""`logdex offsets` for Kafka paths, where no place for a reader's offsets is kept."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from logdex.errors import UsageError

if TYPE_CHECKING:
    from logdex.kafka.directory.recognise import KafkaPath


def show(
    found: KafkaPath,
    settings: Mapping[str, Any],
    *,
    group: str | None,
    topic: str | None,
    reset_to: str | None,
    time_ms: int | None,
    yes: bool,
    as_json: bool,
) -> bool:
    """Refuses, and says what to use."""
    raise UsageError(
        f"{found.path} is {found.description}: the offsets of readers are kept for RocketMQ stores alone",
        hint=f"logdex cat {found.path} --topic __consumer_offsets prints what brokers keep",
    )
