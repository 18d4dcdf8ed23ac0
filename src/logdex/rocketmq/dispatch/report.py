"""The report of a dispatch."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from logdex.jobs.reports import WorkReport


@dataclass(slots=True)
class DispatchReport(WorkReport):
    """What a dispatch did. Offsets are physical offsets of the CommitLog. `losses` state what of the
    log is not dispatched, `notes` are remarks that are no losses."""

    path: str = ""
    output: str = ""
    start_offset: int = 0
    end_offset: int = 0
    losses: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def lossy(self) -> bool:
        """Whether there are losses."""
        return bool(self.losses)

    def to_json(self) -> dict[str, Any]:
        """Returns the report object that ends the output of ``logdex dispatch --json``."""
        return asdict(self) | {"lossy": self.lossy}
