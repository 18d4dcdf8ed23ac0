"""The report of `logdex stats`."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from logdex.frames.lag import lag_of
from logdex.jobs.reports import Lossy, WorkReport


@dataclass(frozen=True, slots=True)
class TopicFigures:
    """One topic. `skew` is how many times as many messages its largest queue or partition has as
    the mean of them."""

    topic: str
    messages: int
    bytes: int
    queues: int
    skew: float


@dataclass(frozen=True, slots=True)
class QueueFigures:
    """One queue or partition."""

    topic: str
    queue: int
    messages: int
    bytes: int


@dataclass(frozen=True, slots=True)
class HourFigures:
    """All messages of an hour, which begins at `hour_ms`."""

    hour_ms: int
    messages: int
    bytes: int


@dataclass(frozen=True, slots=True)
class KeyFigures:
    """All messages of a topic with one key."""

    topic: str
    key: str
    messages: int
    bytes: int


@dataclass(frozen=True, slots=True)
class GroupLag:
    """How far a consumer group is behind in one queue or partition: `lag` messages, of those from
    `first_offset`, the first that is still there, to `end_offset` (exclusive)."""

    group: str
    topic: str
    queue: int
    offset: int
    first_offset: int
    end_offset: int

    @property
    def lag(self) -> int:
        """The messages that the group has yet to consume."""
        return lag_of(self.offset, self.first_offset, self.end_offset)


@dataclass(slots=True)
class StatsReport(Lossy, WorkReport):
    """The figures. `size_bytes` are the bytes of the messages, `bytes` those of the logs that were
    read. `keys` are the most frequent ones; `keys_are_exact` states whether no message of theirs
    was left uncounted."""

    size_bytes: int = 0
    topics: list[TopicFigures] = field(default_factory=list)
    queues: list[QueueFigures] = field(default_factory=list)
    hours: list[HourFigures] = field(default_factory=list)
    keys: list[KeyFigures] = field(default_factory=list)
    keys_are_exact: bool = True
    groups: list[GroupLag] = field(default_factory=list)
    losses: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """Returns the object of ``logdex stats --json``."""
        groups = [asdict(each) | {"lag": each.lag} for each in self.groups]
        return Lossy.to_json(self) | {"groups": groups}
