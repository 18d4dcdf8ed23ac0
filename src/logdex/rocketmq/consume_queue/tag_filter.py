"""Tag expressions of consumers: ``a || b``, or ``*`` for all messages.

Messages are filtered by the tag's hash in the ConsumeQueue first, then by the tag in the message.
Source: FilterAPI.buildSubscriptionData, ExpressionMessageFilter.isMatchedByConsumeQueue.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from logdex.errors import UsageError
from logdex.primitives.java_hash import java_hash
from logdex.primitives.text import to_bytes
from logdex.rocketmq.consume_queue.consume_queue import EXT_ADDRESS_MAX, EntryArray
from logdex.rocketmq.message.stored_message import StoredMessage

SUB_ALL = "*"


@dataclass(frozen=True, slots=True)
class TagFilter:
    """The tags that a consumer wants; None for all messages, including those without a tag.
    Immutable, so safe to share between threads."""

    tags: frozenset[bytes] | None = None

    @staticmethod
    def parse(expression: str | bytes | None) -> TagFilter:
        """Parses a tag expression. None, an empty expression and ``*`` match all messages. Raises
        `UsageError` if the expression names no tag."""
        text = b"" if expression is None else to_bytes(expression).strip()
        if text in (b"", SUB_ALL.encode()):
            return TagFilter()
        tags = frozenset(part.strip() for part in text.split(b"||") if part.strip())
        if not tags:
            raise UsageError(f"the tag expression {text.decode(errors='backslashreplace')!r} names no tag")
        return TagFilter(tags)

    def match_entries(self, entries: EntryArray) -> npt.NDArray[np.bool_]:
        """Returns which entries may match (see `match_codes`)."""
        return self.match_codes(entries["tags_code"])

    def match_codes(self, tags_codes: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Returns which entries may match, by the tag's hash (the low 32 bits of tagsCode). An
        entry whose tagsCode is an address in ConsumeQueueExt always matches, because it has no
        hash."""
        if self.tags is None:
            return np.ones(len(tags_codes), np.bool_)
        codes = np.array([java_hash(tag) for tag in self.tags], np.int32)
        hit: npt.NDArray[np.bool_] = np.isin(tags_codes.astype(np.int32), codes) | (tags_codes <= EXT_ADDRESS_MAX)
        return hit

    def match_message(self, message: StoredMessage) -> bool:
        """Whether the message's own tag matches."""
        return self.tags is None or message.tags in self.tags
