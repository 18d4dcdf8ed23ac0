"""`logdex consume` for Kafka paths, where no place for a reader's offsets is kept."""

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
    topic: str | None,
    group: str,
    start: str,
    follow: bool,
    limit: int | None,
    as_json: bool,
) -> bool:
    """Refuses, and says what to use."""
    raise UsageError(
        f"{found.path} is {found.description}: the offsets of readers are kept for RocketMQ stores alone",
        hint=f"logdex cat {found.path} --follow prints what comes",
    )
