"""The report of a conversion between formats."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from logdex.jobs.reports import WorkReport


@dataclass(slots=True)
class ConvertReport(WorkReport):
    """The result of a conversion. `bytes` are those of the logs that were read, `files` the queues or
    partitions that were written, `groups` the consumer groups whose offsets were translated.
    `losses` state what is in the source and not in the output."""

    groups: int = 0
    losses: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def lossy(self) -> bool:
        """Whether there are losses."""
        return bool(self.losses)

    def to_json(self) -> dict[str, Any]:
        """Returns the report object of ``logdex convert --json``."""
        return asdict(self) | {"lossy": self.lossy}
