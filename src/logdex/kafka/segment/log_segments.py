"""The segments of a log, by base offset. Source: Kafka's LogSegments."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator

from logdex.kafka.segment.log_segment import LogSegment


class LogSegments:
    """Segments in the order of their base offsets; the last is the active one.

    `as_tuple` is replaced as a whole by every change, so a reader that took it goes on with what it saw. Changes are
    made by one thread at a time (the log's lock).
    """

    def __init__(self) -> None:
        self.as_tuple: tuple[LogSegment, ...] = ()

    def __len__(self) -> int:
        return len(self.as_tuple)

    def __iter__(self) -> Iterator[LogSegment]:
        return iter(self.as_tuple)

    @property
    def active(self) -> LogSegment:
        """The last one, which is appended to."""
        return self.as_tuple[-1]

    @property
    def first(self) -> LogSegment:
        """The earliest one."""
        return self.as_tuple[0]

    @property
    def base_offsets(self) -> list[int]:
        """Of all, rising."""
        return [segment.base_offset for segment in self.as_tuple]

    @property
    def size_bytes(self) -> int:
        """Bytes of all .log files."""
        return sum(segment.size_bytes for segment in self.as_tuple)

    def add(self, segment: LogSegment) -> None:
        """Adds one, in the place of another of the same base offset."""
        others = [other for other in self.as_tuple if other.base_offset != segment.base_offset]
        self.as_tuple = tuple(sorted([*others, segment], key=lambda each: each.base_offset))

    def remove(self, segment: LogSegment) -> None:
        """Takes one out; fine if it is not in."""
        self.as_tuple = tuple(other for other in self.as_tuple if other is not segment)

    def replace(self, old: Iterable[LogSegment], new: Iterable[LogSegment]) -> None:
        """Takes some out and puts others in, at once."""
        gone = [*old]
        kept = [segment for segment in self.as_tuple if segment not in gone]
        self.as_tuple = tuple(sorted([*kept, *new], key=lambda each: each.base_offset))

    def clear(self) -> None:
        """Takes all out."""
        self.as_tuple = ()

    def floor(self, offset: int) -> LogSegment | None:
        """The last one whose base offset is not above `offset`."""
        return floor_segment(self.as_tuple, offset)

    def values(self, start: int, stop: int) -> tuple[LogSegment, ...]:
        """Those that can hold offsets of [start, stop): from the floor of `start` to the last one below `stop`."""
        bases = self.base_offsets
        return self.as_tuple[max(bisect_right(bases, start) - 1, 0) : bisect_left(bases, stop)]


def floor_segment(segments: tuple[LogSegment, ...], offset: int) -> LogSegment | None:
    """The last of `segments` whose base offset is not above `offset`."""
    place = bisect_right(segments, offset, key=lambda segment: segment.base_offset)
    return segments[place - 1] if place else None
