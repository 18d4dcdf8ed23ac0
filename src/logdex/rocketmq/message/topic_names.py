"""The names that a broker takes for topics. The store of a broker takes others, too.

Source: TopicValidator.validateTopic, which a broker calls for each message that a client sends and
for each topic that is created, but not for the topics of its own groups.
"""

from __future__ import annotations

import re

from logdex.errors import UsageError
from logdex.primitives.text import to_bytes

_SIZE_MAX, _OF_GROUP_SIZE_MAX = 127, 255
_OF_GROUP = (b"%RETRY%", b"%DLQ%")
_NAME = re.compile(rb"[%|a-zA-Z0-9_-]+")


def require_topic_name(topic: str) -> None:
    """Raises `UsageError` for a topic that no broker takes a message for."""
    name = to_bytes(topic)
    most = _OF_GROUP_SIZE_MAX if name.startswith(_OF_GROUP) else _SIZE_MAX
    if len(name) > most or _NAME.fullmatch(name) is None:
        raise UsageError(
            f"{topic[:_SIZE_MAX]!r} cannot be the name of a topic",
            hint=f"RocketMQ's brokers take letters, digits, '-', '_', '%' and '|', {_SIZE_MAX} at most",
        )
