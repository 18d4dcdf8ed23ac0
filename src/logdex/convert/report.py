"""The report of a conversion between formats."""

from __future__ import annotations

from dataclasses import dataclass, field

from logdex.jobs.reports import Lossy, WorkReport


@dataclass(slots=True)
class ConvertReport(Lossy, WorkReport):
    """The result of a conversion. `bytes` are those of the logs that were read, `files` the queues
    or partitions that were written, `groups` the consumer groups whose offsets were translated.
    `losses` state what is in the source and not in the output."""

    groups: int = 0
    losses: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
