"""The results of reads, as small frozen values.

Source: GetMessageResult, GetMessageStatus, QueryMessageResult.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from logdex.errors import CorruptError, LogdexError
from logdex.rocketmq.message.stored_message import StoredMessage

if TYPE_CHECKING:
    import pyarrow as pa

OffsetRange = tuple[int, int]
"""Physical offsets [begin, end) of the CommitLog. Both are the start of a message, or the log's
end."""


class GetMessageStatus(Enum):
    """The outcome of a read from a queue. Names and meanings are the engine's."""

    FOUND = "FOUND"
    NO_MATCHED_MESSAGE = "NO_MATCHED_MESSAGE"
    MESSAGE_WAS_REMOVING = "MESSAGE_WAS_REMOVING"
    OFFSET_FOUND_NULL = "OFFSET_FOUND_NULL"
    OFFSET_OVERFLOW_BADLY = "OFFSET_OVERFLOW_BADLY"
    OFFSET_OVERFLOW_ONE = "OFFSET_OVERFLOW_ONE"
    OFFSET_TOO_SMALL = "OFFSET_TOO_SMALL"
    NO_MATCHED_LOGIC_QUEUE = "NO_MATCHED_LOGIC_QUEUE"
    NO_MESSAGE_IN_QUEUE = "NO_MESSAGE_IN_QUEUE"


@dataclass(frozen=True, slots=True)
class GetMessageResult:
    """Messages of one queue with their physical offsets, and the offset to continue at. All offsets
    except `phy_offsets` are queue offsets.

    `problem` is the error for the message at `next_begin_offset` if it could not be read and ended
    the read early; else None. `dispatch_behind_bytes` says of a `MessageStore` how much of its log
    no queue has yet, if fewer messages were found than wanted: `MessageStore.wait_dispatched` waits
    for it.
    """

    status: GetMessageStatus
    next_begin_offset: int
    min_offset: int = 0
    max_offset: int = 0
    messages: tuple[StoredMessage, ...] = ()
    phy_offsets: tuple[int, ...] = ()
    problem: CorruptError | None = None
    dispatch_behind_bytes: int = field(default=0, compare=False)

    @property
    def message_count(self) -> int:
        """How many messages were read."""
        return len(self.messages)


@dataclass(frozen=True, slots=True)
class GetColumnsResult:
    """Messages of one queue as a table, and the offset to continue at. All offsets are queue
    offsets. `dispatch_behind_bytes` is that of `GetMessageResult`."""

    status: GetMessageStatus
    next_begin_offset: int
    table: pa.Table
    min_offset: int = 0
    max_offset: int = 0
    dispatch_behind_bytes: int = field(default=0, compare=False)

    @property
    def message_count(self) -> int:
        """How many messages were read."""
        return int(self.table.num_rows)


@dataclass(frozen=True, slots=True)
class QueueInfo:
    """One queue and its queue offsets: `min_offset` as the engine computes it, `max_offset` is the
    one after the last message. `first_available_offset` is that of the first message that the log
    still holds: the engine's minimum can be lower."""

    topic: bytes
    queue_id: int
    min_offset: int
    max_offset: int
    first_available_offset: int
    directory: str


class QueryMessageResult(NamedTuple):
    """Messages that were found by key, with their physical offsets.

    `complete` states whether all matching messages are in the result, or on its next pages.
    `missing` are the parts of the CommitLog that hold messages with keys but are covered by no
    IndexFile; with `scan_missing` they were searched too. `next_cursor` is the cursor of the next
    page, or None after the last.
    """

    messages: tuple[StoredMessage, ...]
    phy_offsets: tuple[int, ...]
    complete: bool
    missing: tuple[OffsetRange, ...] = ()
    next_cursor: int | None = None
    collisions: int = 0
    """The number of messages with the same hash but another topic or key."""
    expired: int = 0
    """The number of index entries whose message is no longer in the CommitLog, because its oldest
    files were deleted."""
    behind_end: int = 0
    """The number of index entries that point after the end of the CommitLog."""
    unreadable: tuple[LogdexError, ...] = ()
    """The errors of messages in the index, or of searched parts, that could not be read."""
    index_last_update_timestamp: int = 0
    """End timestamp (ms) of the newest IndexFile, 0 without one."""
    index_last_update_phyoffset: int = 0
    """End physical offset (bytes) of the newest IndexFile, 0 without one."""
