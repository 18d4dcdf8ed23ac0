"""Reading from a partition whose segments a broker removes or replaces meanwhile: the directory is
looked at again, and reading begins again or goes on with what is there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from logdex.errors import LogdexError, VanishedError
from logdex.io.env import Env
from logdex.kafka.directory.lost_segments import LostSegment
from logdex.kafka.segment.log_segment import LogSegment

LOOKS_MAX = 30
"""How often a directory is looked at again before an answer from it is given up."""

T = TypeVar("T")


@dataclass(slots=True)
class PartitionView:
    """A partition at one look at its directory. `last_stable_offset` is the log's end unless
    committed records alone are wanted."""

    topic: str
    partition: int
    segments: list[LogSegment]
    env: Env
    log_start_offset: int
    last_stable_offset: int
    lost: list[LostSegment] = field(default_factory=list)


def first_current(segments: Sequence[LogSegment], env: Env) -> int:
    """Returns the place of the first segment that has not been removed since it was opened, as
    retention removes the first ones. Raises `VanishedError` if a later one has been removed, or if
    one has been replaced."""
    place = 0
    while place < len(segments) - 1 and not env.exists(segments[place].log.path):
        place += 1
    for segment in segments[place:]:
        if env.identity(segment.log.path) != segment.log.identity:
            raise VanishedError("the segment was removed meanwhile", path=segment.log.path)
    return place


class LookedAtPartition(Protocol):
    """A partition that can be looked at again, such as a `PartitionSnapshot`."""

    topic: str
    partition: int
    env: Env

    def view(self, isolation: str | None = None) -> PartitionView:
        """Returns the partition as the last look found it."""

    def is_mixed(self, view: PartitionView) -> bool:
        """Whether what was read through `view` may belong to different states of the log."""

    def look_again(self, view: PartitionView) -> bool:
        """Looks at the directory again if segments of `view` have been removed or replaced. Returns
        whether there is a newer view."""


def steadily(partition: LookedAtPartition, act: Callable[[PartitionView], T], isolation: str | None = None) -> T:
    """Returns the result of `act` for a view that was not replaced meanwhile. Raises its error if
    that has another cause, or if the directory has changed `LOOKS_MAX` times."""
    for _ in range(LOOKS_MAX):
        view = partition.view(isolation)
        try:
            found = act(view)
        except LogdexError:
            if not partition.look_again(view):
                raise
        else:
            if not partition.is_mixed(view) or not partition.look_again(view):
                return found
    return act(partition.view(isolation))
