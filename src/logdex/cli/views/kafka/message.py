"""`logdex message` for Kafka paths. It is refused, because a Kafka record has no id."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NoReturn

from logdex.cli.rows.row_options import RowOptions
from logdex.errors import UnsupportedLayoutError

if TYPE_CHECKING:
    from logdex.kafka.directory.recognise import KafkaPath


def show(
    found: KafkaPath, settings: Mapping[str, Any], *, msg_id: str, topic: str | None, decompress: bool, rows: RowOptions
) -> NoReturn:
    """Raises `UnsupportedLayoutError`."""
    what = found.description if found.offset < 0 else "a file of a Kafka log"
    raise UnsupportedLayoutError(
        f"this is {what}, not a RocketMQ store",
        path=found.path,
        hint="logdex.open reads it, and so does every command but `message` and `follow`",
    )
