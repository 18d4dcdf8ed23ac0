"""Which tags a consumer wants: `a || b`, `*` for all. By hash on the ConsumeQueue, then by the message's own tag.

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
    """The wanted tags; None: all messages, those without a tag too. Immutable, so safe to share between threads."""

    tags: frozenset[bytes] | None = None

    @staticmethod
    def parse(expression: str | bytes | None) -> TagFilter:
        """From an expression; None, nothing and ``*`` want all. `UsageError` for one that names no tag."""
        text = b"" if expression is None else to_bytes(expression).strip()
        if text in (b"", SUB_ALL.encode()):
            return TagFilter()
        tags = frozenset(part.strip() for part in text.split(b"||") if part.strip())
        if not tags:
            raise UsageError(f"the tag expression {text.decode(errors='backslashreplace')!r} names no tag")
        return TagFilter(tags)

    def match_entries(self, entries: EntryArray) -> npt.NDArray[np.bool_]:
        """Which entries may be of wanted messages: by the tag's hash, the low 32 bits of tagsCode. An address in
        ConsumeQueueExt tells nothing and passes."""
        if self.tags is None:
            return np.ones(len(entries), np.bool_)
        codes = np.array([java_hash(tag) for tag in self.tags], np.int32)
        tags_code = entries["tags_code"]
        hit: npt.NDArray[np.bool_] = np.isin(tags_code.astype(np.int32), codes) | (tags_code <= EXT_ADDRESS_MAX)
        return hit

    def match_message(self, message: StoredMessage) -> bool:
        """Whether the message's own tag is wanted."""
        return self.tags is None or message.tags in self.tags
