"""The filter of a read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from logdex.errors import UsageError
from logdex.rocketmq.consume_queue.queue_cursor import Int64s
from logdex.rocketmq.consume_queue.tag_filter import TagFilter
from logdex.rocketmq.message.tags_code import SCHEDULE_TOPIC_NAME
from logdex.rocketmq.read.keys.key_question import TIME_MAX_MS, TIME_MIN_MS, KeyQuestion
from logdex.rocketmq.settings.store_config import StoreConfig

Bounds = tuple[int, int]
_NO_BOUNDS: Bounds = (-(1 << 63), (1 << 63) - 1)


@dataclass(frozen=True, slots=True)
class QueueRange:
    """Queue offsets from `begin` on and before `end` of one queue; None for no bound."""

    topic: bytes
    queue_id: int
    begin: int | None = None
    end: int | None = None

    @property
    def bounds(self) -> Bounds:
        """Returns the first and the last offset."""
        first, last = _NO_BOUNDS
        begin = first if self.begin is None else min(max(self.begin, first), last)
        return begin, last if self.end is None else min(max(self.end - 1, first), last)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadFilter:
    """The messages that a read returns. None means no bound.

    Times are store times in milliseconds, both inclusive. `begin_offset` and `end_offset` are
    physical offsets: messages that begin in [begin, end) are wanted, and likewise for queue
    offsets. Of a queue that `queue_ranges` names, messages in all its ranges are wanted, and
    everything of the others. A message must have one of the `tags`. `key` is one of KEYS or the
    UNIQ_KEY, and needs a topic. As for the engine, it finds no message that was rolled back. With
    `index_type` ``T`` it is a tag.
    """

    topic: bytes | None = None
    queue_ids: frozenset[int] | None = None
    begin_offset: int | None = None
    end_offset: int | None = None
    begin_queue_offset: int | None = None
    end_queue_offset: int | None = None
    queue_ranges: tuple[QueueRange, ...] = ()
    begin_ms: int | None = None
    end_ms: int | None = None
    tags: frozenset[bytes] | None = None
    key: bytes | None = None
    index_type: str | None = None

    def __post_init__(self) -> None:
        if self.key is not None and self.topic is None:
            raise UsageError("a key is looked up within a topic", hint="say the topic")

    @property
    def has_times(self) -> bool:
        """Whether store times are bounded."""
        return self.begin_ms is not None or self.end_ms is not None

    @property
    def selects_queues(self) -> bool:
        """Whether ConsumeQueue entries can exclude messages."""
        return not (
            self.topic is None
            and self.queue_ids is None
            and self.begin_queue_offset is None
            and self.end_queue_offset is None
            and self.tags is None
            and not self.queue_ranges
        )

    def wants_queue(self, topic: bytes, queue_id: int) -> bool:
        """Whether messages of a queue may be wanted."""
        return self.topic in (None, topic) and (self.queue_ids is None or queue_id in self.queue_ids)

    def wants_queue_offsets(self, queue_offsets: Int64s) -> npt.NDArray[np.bool_]:
        """Returns a mask of the wanted queue offsets."""
        return within(queue_offsets, self.begin_queue_offset, last_before(self.end_queue_offset))

    def bounds_of_queues(self) -> Mapping[tuple[bytes, int], Bounds]:
        """Returns the first and the last offset of each queue that `queue_ranges` names."""
        found: dict[tuple[bytes, int], Bounds] = {}
        for each in self.queue_ranges:
            first, last = found.get((each.topic, each.queue_id), _NO_BOUNDS)
            found[each.topic, each.queue_id] = max(first, each.bounds[0]), min(last, each.bounds[1])
        return found

    def may_have_tag(self, tags_codes: Int64s) -> npt.NDArray[np.bool_]:
        """Returns a mask of the ConsumeQueue entries whose messages may have a wanted tag, by its
        hash."""
        return TagFilter(self.tags).match_codes(tags_codes)

    @staticmethod
    def knows_tags_of(topic: bytes) -> bool:
        """Whether the entries of a topic hold the tag's hash. Those of delayed messages hold a time
        instead."""
        return topic != SCHEDULE_TOPIC_NAME

    def question(self) -> KeyQuestion | None:
        """Returns the question to the index; None without a key."""
        if self.key is None or self.topic is None:
            return None
        return KeyQuestion(
            topic=self.topic,
            key=self.key,
            begin_ms=TIME_MIN_MS if self.begin_ms is None else self.begin_ms,
            end_ms=TIME_MAX_MS if self.end_ms is None else self.end_ms,
            index_type=self.index_type,
        )

    def scan_config(self, config: StoreConfig) -> StoreConfig:
        """Returns `config` with the hashes of everything that a key may be, whatever the store's
        dialect puts into its index."""
        if self.key is None:
            return config
        return replace(config, dialect=replace(config.dialect, tags_in_index=True, prepared_in_index=True))


def only_queue(queue_id: int | None) -> frozenset[int] | None:
    """Returns the `queue_ids` of a filter for one queue of each topic, or for all queues."""
    return None if queue_id is None else frozenset((queue_id,))


def bounds_by_number(bounds: Mapping[tuple[bytes, int], Bounds], queues: Sequence[tuple[bytes, int]]) -> Int64s:
    """Returns two rows with the first and the last offset of each of some queues."""
    return np.array([bounds.get(each, _NO_BOUNDS) for each in queues], np.int64).reshape(-1, 2).T


def last_before(end: int | None) -> int | None:
    """Returns the inclusive form of an exclusive bound."""
    return None if end is None else end - 1


def within(values: Int64s, first: int | None, last: int | None) -> npt.NDArray[np.bool_]:
    """Returns a mask of the values within two bounds, both inclusive."""
    keep = np.ones(len(values), np.bool_)
    if first is not None:
        keep &= values >= first
    if last is not None:
        keep &= values <= last
    return keep
