"""How far groups have consumed the queues of a store, and where a reset would put them.

Source: ConsumeStats, ResetOffsetByTimeCommand.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from logdex.errors import UsageError
from logdex.frames.lag import lag_of
from logdex.primitives.shown import counted
from logdex.primitives.text import to_bytes
from logdex.rocketmq.files.config_files import ConsumerOffsets
from logdex.rocketmq.message.own_topics import retry_topic_of
from logdex.rocketmq.read.results import QueueInfo
from logdex.rocketmq.recognise.lost_end import RESTORE_LAST_FILE
from logdex.rocketmq.snapshot.store_snapshot import StoreSnapshot


@dataclass(frozen=True, slots=True)
class QueueProgress:
    """How far a group has consumed a queue. `offset` is None if it has committed none. A queue that
    `is_there` has a ConsumeQueue; the bounds of any other are 0."""

    group: str
    topic: bytes
    queue_id: int
    offset: int | None
    min_offset: int
    max_offset: int
    first_available_offset: int
    is_there: bool = True

    @property
    def lag(self) -> int | None:
        """How many messages of the queue the group has not consumed, of those that are still there;
        None if the queue is not there, although the group has consumed it."""
        if not self.is_there and self.offset is not None:
            return None
        return lag_of(self.offset, self.first_available_offset, self.max_offset)


def progress_of(
    snapshot: StoreSnapshot, offsets: ConsumerOffsets, group: str | None = None, topic: bytes | None = None
) -> list[QueueProgress]:
    """The progress of all groups, or of one, in all topics that they have offsets of and in what
    waits in their retry topics, or in one topic. A `group` has a row for each queue of `topic`,
    also without offsets of it."""
    known = {(each.topic, each.queue_id): each for each in snapshot.queues()}
    names = {(own, each) for each, own in offsets.offsets if group in (None, _text(own)) and topic in (None, each)}
    topics = {each for each, _ in known}
    if topic is None:
        retried = {(own, retry_topic_of(_text(own))) for own, _ in names}
        names |= {(own, each) for own, each in retried if each in topics}
    elif group is not None:
        names.add((to_bytes(group), topic))
    rows = (_rows(own, each, offsets, known) for own, each in sorted(names))
    return [row for some in rows for row in some]


def _rows(
    group: bytes, topic: bytes, offsets: ConsumerOffsets, known: dict[tuple[bytes, int], QueueInfo]
) -> Iterator[QueueProgress]:
    committed = offsets.offsets.get((topic, group), {})
    for queue_id in sorted(committed.keys() | {each for own, each in known if own == topic}):
        queue = known.get((topic, queue_id))
        bounds = (0, 0, 0) if queue is None else (queue.min_offset, queue.max_offset, queue.first_available_offset)
        yield QueueProgress(_text(group), topic, queue_id, committed.get(queue_id), *bounds, queue is not None)


def behind_the_end(rows: Iterable[QueueProgress]) -> str | None:
    """Says that groups have consumed queues further than these go, None if none has."""
    behind = [row for row in rows if row.is_there and row.offset is not None and row.offset > row.max_offset]
    if not behind:
        return None
    first = behind[0]
    return (
        f"{counted(len(behind), 'offset lies', 'offsets lie')} behind the end of a queue, the first of the group "
        f"{first.group} at {first.offset} of {_text(first.topic)} queue {first.queue_id}, which ends at "
        f"{first.max_offset}: a recovery has cut the log, or {RESTORE_LAST_FILE}"
    )


def reset_target(snapshot: StoreSnapshot, row: QueueProgress, to: str | int, time_ms: int | None) -> int:
    """The offset that a queue is reset to: ``earliest``, ``latest``, or an offset; with `time_ms`
    the first message stored at or after that time. It lies within the queue."""
    if time_ms is not None:
        wanted = snapshot.get_offset_in_queue_by_time(row.topic, row.queue_id, time_ms)
    elif to in ("earliest", "latest"):
        wanted = row.min_offset if to == "earliest" else row.max_offset
    elif isinstance(to, int):
        wanted = to
    else:
        raise UsageError(f"{to!r} is no place in a queue", hint="give earliest, latest, an offset or a time")
    return min(max(wanted, row.min_offset), row.max_offset)


def _text(name: bytes) -> str:
    return name.decode("utf-8", "backslashreplace")
