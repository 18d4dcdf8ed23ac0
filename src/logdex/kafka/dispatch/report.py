"""The report of a dispatch."""

from __future__ import annotations

from dataclasses import dataclass

from logdex.jobs.dispatching import DispatchReport
from logdex.primitives.shown import counted


@dataclass(slots=True)
class LogDispatchReport(DispatchReport):
    """What a dispatch of a log directory did. `messages` and `bytes` count what is new in the
    indexes, `segments` how often a segment was derived, `partitions` those that the output has."""

    partitions: int = 0
    segments: int = 0

    @property
    def summary(self) -> str:
        """What was dispatched, in words."""
        return f"{counted(self.partitions, 'partition')}, {self.segments} times a segment"
