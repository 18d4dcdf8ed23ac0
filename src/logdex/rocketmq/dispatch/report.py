"""The report of a dispatch."""

from __future__ import annotations

from dataclasses import dataclass

from logdex.jobs.dispatching import DispatchReport


@dataclass(slots=True)
class StoreDispatchReport(DispatchReport):
    """What a dispatch of a store did. Offsets are physical offsets of the CommitLog."""

    start_offset: int = 0
    end_offset: int = 0

    @property
    def summary(self) -> str:
        """What was dispatched, in words."""
        return f"the log from offset {self.start_offset} to {self.end_offset}"
