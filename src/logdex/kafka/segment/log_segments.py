"""The segments of a partition, ordered by base offset. Source: Kafka's LogSegments."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator

from logdex.kafka.segment.log_segment import LogSegment


class LogSegments:
    """Segments ordered by base offset; the last is the active one.

    Every change replaces `as_tuple` as a whole, so that a reader keeps a consistent tuple. Only one
    thread at a time (which holds the log's lock) makes changes.
    """

    def __init__(self) -> None:
        self.as_tuple: tuple[LogSegment, ...] = ()

    def __len__(self) -> int:
        return len(self.as_tuple)

    def __iter__(self) -> Iterator[LogSegment]:
        return iter(self.as_tuple)

    @property
    def active(self) -> LogSegment:
        """The last segment, to which batches are appended."""
        return self.as_tuple[-1]

    @property
    def first(self) -> LogSegment:
        """The first segment."""
        return self.as_tuple[0]

    @property
    def base_offsets(self) -> list[int]:
        """The base offsets of all segments, in ascending order."""
        return [segment.base_offset for segment in self.as_tuple]

    @property
    def size_bytes(self) -> int:
        """The total size of all .log files."""
        return sum(segment.size_bytes for segment in self.as_tuple)

    def add(self, segment: LogSegment) -> None:
        """Adds a segment, replacing one with the same base offset."""
        others = [other for other in self.as_tuple if other.base_offset != segment.base_offset]
        self.as_tuple = tuple(sorted([*others, segment], key=lambda each: each.base_offset))

    def remove(self, segment: LogSegment) -> None:
        """Removes a segment, if it is present."""
        self.as_tuple = tuple(other for other in self.as_tuple if other is not segment)

    def replace(self, old: Iterable[LogSegment], new: Iterable[LogSegment]) -> None:
        """Removes `old` segments and adds `new` ones at once."""
        gone = [*old]
        kept = [segment for segment in self.as_tuple if segment not in gone]
        self.as_tuple = tuple(sorted([*kept, *new], key=lambda each: each.base_offset))

    def clear(self) -> None:
        """Removes all segments."""
        self.as_tuple = ()

    def floor(self, offset: int) -> LogSegment | None:
        """The last segment with a base offset of at most `offset`, or None."""
        return floor_segment(self.as_tuple, offset)

    def values(self, start: int, stop: int) -> tuple[LogSegment, ...]:
        """The segments that can have offsets in [start, stop)."""
        bases = self.base_offsets
        return self.as_tuple[max(bisect_right(bases, start) - 1, 0) : bisect_left(bases, stop)]


def floor_segment(segments: tuple[LogSegment, ...], offset: int) -> LogSegment | None:
    """The last of `segments` with a base offset of at most `offset`, or None."""
    place = bisect_right(segments, offset, key=lambda segment: segment.base_offset)
    return segments[place - 1] if place else None
