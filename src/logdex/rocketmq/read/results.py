"""What a store answers with: small frozen values.

Source: GetMessageResult, GetMessageStatus, QueryMessageResult.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from logdex.errors import CorruptError, LogdexError
from logdex.rocketmq.message.stored_message import StoredMessage

OffsetRange = tuple[int, int]
"""Physical offsets [begin, end) of the CommitLog; both are where messages begin, or the log's end."""


class GetMessageStatus(Enum):
    """How a read from a queue went; names and meanings are the engine's."""

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
    """Messages of one queue, with where they lie, and where to read on. Offsets but `phy_offsets` are queue offsets.

    `problem`: why the message at `next_begin_offset` could not be read, where that ended the batch; None else.
    """

    status: GetMessageStatus
    next_begin_offset: int
    min_offset: int = 0
    max_offset: int = 0
    messages: tuple[StoredMessage, ...] = ()
    phy_offsets: tuple[int, ...] = ()
    problem: CorruptError | None = None


@dataclass(frozen=True, slots=True)
class QueueInfo:
    """One queue and its queue offsets: `min_offset` as the engine has it, `max_offset` behind the last message."""

    topic: bytes
    queue_id: int
    min_offset: int
    max_offset: int
    directory: str


@dataclass(frozen=True, slots=True)
class QueryMessageResult:
    """Messages that were found by key, with where they lie.

    `complete`: all that match are in the answer (or on its next pages). `missing` are the parts of the CommitLog that
    hold messages with keys and that no IndexFile covers; with scan_missing they were searched too. `next_cursor` is
    what to ask with for the next page, None after the last.
    """

    messages: tuple[StoredMessage, ...]
    phy_offsets: tuple[int, ...]
    complete: bool
    missing: tuple[OffsetRange, ...] = ()
    next_cursor: int | None = None
    collisions: int = 0
    """Messages that have the hash, but another topic or key."""
    expired: int = 0
    """Index entries whose message is no longer in the CommitLog: its oldest files were deleted."""
    behind_end: int = 0
    """Index entries that point behind the end of the CommitLog."""
    unreadable: tuple[LogdexError, ...] = field(default=())
    """Why messages that the index names, or parts that were searched, could not be read."""
    index_last_update_timestamp: int = 0
    """End timestamp (ms) of the newest IndexFile, 0 without one."""
    index_last_update_phyoffset: int = 0
    """End physical offset (bytes) of the newest IndexFile, 0 without one."""
