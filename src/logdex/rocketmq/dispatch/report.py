"""The report of a dispatch."""

from __future__ import annotations

from dataclasses import dataclass, field

from logdex.jobs.reports import Lossy, WorkReport


@dataclass(slots=True)
class DispatchReport(Lossy, WorkReport):
    """What a dispatch did. Offsets are physical offsets of the CommitLog. `losses` state what of the
    log is not dispatched, `notes` are remarks that are no losses."""

    path: str = ""
    output: str = ""
    start_offset: int = 0
    end_offset: int = 0
    losses: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
