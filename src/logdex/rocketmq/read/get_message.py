"""The two-step read: first the entries of a queue, then the messages that they point to. The
statuses are the engine's.

Only the arguments limit a read. The broker's own limits (32 messages from disk, 800 entries per
call) protect a server and do not apply to files.

Source: DefaultMessageStore.getMessage.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from logdex.errors import CorruptError, MissingFileError, TruncatedError, UsageError, VanishedError
from logdex.layout.rocketmq import CONSUME_QUEUE_ENTRY, PRE_BLANK_SIZE
from logdex.primitives.wrong_questions import require_counts, require_given
from logdex.rocketmq.commit_log.commit_log import CommitLog
from logdex.rocketmq.commit_log.missing_parts import missing_part_at
from logdex.rocketmq.consume_queue.consume_queue import ENTRY_SIZE_BYTES, ConsumeQueue, EntryArray
from logdex.rocketmq.consume_queue.light_queues import is_of_queue
from logdex.rocketmq.consume_queue.tag_filter import TagFilter
from logdex.rocketmq.files.offset_files import OffsetFile
from logdex.rocketmq.files.store_files import queue_folder
from logdex.rocketmq.message.stored_message import StoredMessage
from logdex.rocketmq.read.results import GetMessageResult, GetMessageStatus, QueueInfo

_ENTRIES_AT_ONCE = 1024
_AHEAD_BYTES_MAX = 1 << 20
"""An entry may state any size."""


@dataclass(frozen=True, slots=True)
class QueueView:
    """A queue with its smallest and largest queue offset, and the physical offset where the log
    ends."""

    queue: ConsumeQueue
    min_offset: int
    max_offset: int
    log_end_offset: int

    @staticmethod
    def of(queue: ConsumeQueue, log_min_offset: int, log_end_offset: int) -> QueueView:
        """Returns the view of a queue of a log. The queue ends after the last entry that points
        into the log: after a crash, entries may follow that point past the log's end."""
        last, high = queue.max_offset - 1, queue.max_offset
        if last >= queue.start_offset and queue.entry(last).physical_offset >= log_end_offset:
            high = queue.max_offset_in(log_end_offset)
        return QueueView(queue, min(queue.min_offset(log_min_offset), high), high, log_end_offset)

    @staticmethod
    def looking_again(queue: ConsumeQueue, log_min_offset: int, log_end_offset: int) -> QueueView:
        """Returns what `of` returns. Where another process has removed the queue's first files
        since they were listed, they are listed again."""
        return queue.steadily(lambda: QueueView.of(queue, log_min_offset, log_end_offset))

    def info(self, log_min_offset: int, directory: str | None = None) -> QueueInfo:
        """Returns what is told of the queue to whoever lists queues."""
        queue, low, high = self.queue, self.min_offset, self.max_offset
        first = min(queue.steadily(lambda: queue.first_available_offset(log_min_offset)), high)
        return QueueInfo(queue.topic, queue.queue_id, low, high, first, directory or queue.directory)


@dataclass(slots=True)
class _Batch:
    """The messages read so far, and the limits of the read."""

    count_max: int
    size_bytes_max: int | None
    status: GetMessageStatus = GetMessageStatus.NO_MATCHED_MESSAGE
    messages: list[StoredMessage] = field(default_factory=list)
    phy_offsets: list[int] = field(default_factory=list)
    size_bytes: int = 0
    problem: CorruptError | None = None

    def has_room(self, size_bytes: int) -> bool:
        """Whether another message of `size_bytes` may be read. The first message always may."""
        if not self.messages:
            return True
        if len(self.messages) >= self.count_max:
            return False
        return self.size_bytes_max is None or self.size_bytes + size_bytes <= self.size_bytes_max

    def note(self, status: GetMessageStatus) -> None:
        """Sets the status that explains why an entry led to no message. Does nothing once a message
        was added."""
        if not self.messages:
            self.status = status

    def add(self, message: StoredMessage, phy_offset: int) -> None:
        """Adds a message."""
        self.messages.append(message)
        self.phy_offsets.append(phy_offset)
        self.size_bytes += message.size_bytes
        self.status = GetMessageStatus.FOUND


def get_message(
    view: QueueView | None,
    log: CommitLog,
    offset: int,
    max_count: int,
    max_bytes: int | None = None,
    tags: TagFilter | None = None,
) -> GetMessageResult:
    """Returns messages of a queue from queue offset `offset` on: at most `max_count`, and at most
    `max_bytes` bytes together, but the first is returned whatever its size.

    `view` is None if there is no such queue. The read stops before an entry that points to another
    queue's message or to a damaged one, and its `problem` states why.

    Raises `CorruptError` if that is the first message to return, `VanishedError` if the file of its
    entry was removed since it was listed, and `UsageError` if `max_count` is below 1 or
    `max_bytes` is negative.
    """
    require_given(offset=offset, max_count=max_count)
    require_counts(max_bytes=max_bytes)
    if max_count < 1:
        raise UsageError(f"max_count must be 1 or more, got {max_count}")
    if view is None:
        return GetMessageResult(GetMessageStatus.NO_MATCHED_LOGIC_QUEUE, 0)
    low, high = view.min_offset, view.max_offset
    refused = outside(offset, low, high)
    if refused is not None:
        return GetMessageResult(*refused, low, high)
    batch = _Batch(max_count, max_bytes)
    at = _read(view, log, offset, tags or TagFilter(), batch)
    return GetMessageResult(batch.status, at, low, high, tuple(batch.messages), tuple(batch.phy_offsets), batch.problem)


def outside(offset: int, low: int, high: int) -> tuple[GetMessageStatus, int] | None:
    """Returns the status and the next offset for an offset outside the queue, or None for one
    inside it."""
    if high == 0:
        return GetMessageStatus.NO_MESSAGE_IN_QUEUE, 0
    if offset < low:
        return GetMessageStatus.OFFSET_TOO_SMALL, low
    if offset == high:
        return GetMessageStatus.OFFSET_OVERFLOW_ONE, offset
    if offset > high:
        return GetMessageStatus.OFFSET_OVERFLOW_BADLY, high
    return None


def _read(view: QueueView, log: CommitLog, at: int, tags: TagFilter, batch: _Batch) -> int:
    """Reads messages into `batch`. Returns the queue offset to continue at."""
    per_file = view.queue.file_size_bytes // ENTRY_SIZE_BYTES
    while at < view.max_offset and batch.has_room(0):
        some = _ENTRIES_AT_ONCE if tags.tags is not None else max(batch.count_max - len(batch.messages), 1)
        count = min(some, _ENTRIES_AT_ONCE, per_file - at % per_file, view.max_offset - at)
        try:
            entries = _entries(view.queue, at, count)
        except TruncatedError as error:
            if not batch.messages:
                raise
            batch.problem = error
            return at
        except MissingFileError as error:
            if batch.messages:
                return at
            if isinstance(error, VanishedError):
                raise
            batch.status = GetMessageStatus.OFFSET_FOUND_NULL
            return (at // per_file + 1) * per_file
        if not len(entries):
            return at
        done = _read_entries(view, log, at, entries, tags, batch)
        at += done
        if done < len(entries):
            return at
    return at


def _entries(queue: ConsumeQueue, at: int, count: int) -> EntryArray:
    """Returns entries, or those before the end of a file that is cut short. Raises `TruncatedError`
    behind that: a broker preallocates the whole file, so there were entries."""
    try:
        return queue.entries(at, count)
    except VanishedError:
        raise
    except MissingFileError:
        cut = queue.cut_file_at(at)
        if cut is None:
            raise
        whole = cut.end_offset // ENTRY_SIZE_BYTES - at
        if whole > 0:
            return queue.entries(at, whole)
        hint = f"rebuild derives the queue anew; queue offset {_behind_file(queue, cut)} is behind it"
        raise TruncatedError(
            "the ConsumeQueue file is cut short", path=cut.path, position=cut.size_bytes, hint=hint
        ) from None


def _behind_file(queue: ConsumeQueue, file: OffsetFile) -> int:
    return (file.start_offset + queue.file_size_bytes) // ENTRY_SIZE_BYTES


def _read_entries(
    view: QueueView, log: CommitLog, first: int, entries: EntryArray, tags: TagFilter, batch: _Batch
) -> int:
    """Reads the messages of some entries. Returns how many entries were processed."""
    gaps = fills_gap(view, first, entries)
    is_missing, rows = gaps.tolist(), entries.tolist()
    for place in _wanted(entries, gaps, tags, batch):
        phy_offset, size, _ = rows[place]
        if is_missing[place] or 0 <= phy_offset < log.min_offset:
            batch.note(GetMessageStatus.MESSAGE_WAS_REMOVING)
            continue
        if not batch.has_room(size):
            return place
        try:
            if not 0 <= phy_offset < view.log_end_offset:
                raise _points_nowhere(view, log, first + place, phy_offset)
            message = _read_if_there(log, phy_offset, size)
            if message is None:
                batch.note(GetMessageStatus.MESSAGE_WAS_REMOVING)
                continue
            _check_entry(view.queue, first + place, size, message)
        except CorruptError as error:
            error.hint = error.hint or f"queue offset {offset_behind(view, log, first + place)} is behind it"
            if not batch.messages:
                raise
            batch.problem = error
            return place
        if tags.match_message(message):
            batch.add(message, phy_offset)
            if len(batch.messages) >= batch.count_max:
                return place + 1
        else:
            batch.note(GetMessageStatus.NO_MATCHED_MESSAGE)
    return len(entries)


def offset_behind(view: QueueView, log: CommitLog, queue_offset: int) -> int:
    """Returns the queue offset at which reading goes on behind an entry that leads to damage: the
    next one, or the first one of the next ConsumeQueue file, where the entry's is cut short, or,
    where a part of the log is missing, the first one that points behind that part."""
    cut = view.queue.cut_file_at(queue_offset)
    if cut is not None and cut.end_offset < (queue_offset + 1) * ENTRY_SIZE_BYTES:
        return _behind_file(view.queue, cut)
    missing = missing_part_at(log, view.queue.entry(queue_offset).physical_offset)
    behind = queue_offset if missing is None else min(view.queue.max_offset_in(missing[0]), view.max_offset)
    return max(behind, queue_offset + 1)


def _wanted(entries: EntryArray, gaps: npt.NDArray[np.bool_], tags: TagFilter, batch: _Batch) -> Sequence[int]:
    """Returns the places of the entries to look at: those that may have a tag, and `gaps`."""
    if tags.tags is None:
        return range(len(entries))
    places: list[int] = np.flatnonzero(tags.match_entries(entries) | gaps).tolist()
    if len(places) < len(entries):
        batch.note(GetMessageStatus.NO_MATCHED_MESSAGE)
    return places


def fills_gap(view: QueueView, first: int, entries: EntryArray) -> npt.NDArray[np.bool_]:
    """Which of the entries stand where a message is missing: pre-blank ones, and those that repeat
    the next entry of their queue."""
    offsets, after = entries["physical_offset"], first + len(entries)
    try:
        following = view.queue.entry(after).physical_offset if after < view.max_offset else -1
    except MissingFileError:
        following = -1
    is_blank: npt.NDArray[np.bool_] = (entries["size"] == PRE_BLANK_SIZE) & (offsets == 0)
    is_repeated = np.empty(len(offsets), np.bool_)
    np.equal(offsets[:-1], offsets[1:], out=is_repeated[:-1])
    is_repeated[-1:] = offsets[-1:] == following
    return is_blank | (is_repeated & ~_is_wiped(view, first, entries))


def _is_wiped(view: QueueView, first: int, entries: EntryArray) -> npt.NDArray[np.bool_]:
    """Which of the entries hold nothing although the queue has an entry before them. Where it
    begins, a broker leaves such entries for messages that have expired."""
    is_written: npt.NDArray[np.bool_] = entries["size"] > 0
    with suppress(MissingFileError):  # a broker removes old files
        if first > view.queue.start_offset and view.queue.entry(first - 1).is_written:
            return ~is_written
    return np.logical_or.accumulate(is_written) & ~is_written


def _read_if_there(log: CommitLog, phy_offset: int, size: int) -> StoredMessage | None:
    """Returns a message, `size` bytes large as its entry says; None if a broker has removed its
    file since the log was listed. Raises `CorruptError` if its file is missing or ends early."""
    if log.file_of(phy_offset) is None:
        if (missing := missing_part_at(log, phy_offset)) is not None:
            raise missing[1]
        return None
    try:
        return log.read_message(phy_offset, ahead_bytes=min(size, _AHEAD_BYTES_MAX))
    except VanishedError:
        if not log.was_trimmed(phy_offset):
            raise
        return None


def _points_nowhere(view: QueueView, log: CommitLog, queue_offset: int, phy_offset: int) -> CorruptError:
    """The error of an entry that points behind the log, before others that point into it."""
    file, position = view.queue.place_of(queue_offset)
    return CorruptError(
        "the entry points behind the log",
        path=file.path,
        position=position + CONSUME_QUEUE_ENTRY.offset_of("physical_offset"),
        field="physical_offset",
        expected=f"{log.min_offset} to {view.log_end_offset}",
        found=phy_offset,
        hint="logdex rebuild derives the queue anew",
    )


def _check_entry(queue: ConsumeQueue, queue_offset: int, size: int, message: StoredMessage) -> None:
    """Raises `CorruptError` unless the entry has the message's size and the message is of the
    entry's queue."""
    expected: object = message.size_bytes
    found: object = size
    name = "size"
    if expected == found:
        expected = queue_folder(queue.topic, queue.queue_id)
        found = queue_folder(message.topic, message.queue_id)
        name = "physical_offset"
    if expected == found or (name != "size" and is_of_queue(message, queue.topic, queue.queue_id)):
        return
    file, position = queue.place_of(queue_offset)
    raise CorruptError(
        "the entry does not fit the message that it points to",
        path=file.path,
        position=position + CONSUME_QUEUE_ENTRY.offset_of(name),
        field=name,
        expected=expected,
        found=found,
        hint="logdex rebuild derives the queue anew",
    )
