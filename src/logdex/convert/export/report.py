"""The report of an export."""

from __future__ import annotations

from dataclasses import dataclass, field

from logdex.jobs.reports import Lossy, WorkReport


@dataclass(slots=True)
class ExportReport(Lossy, WorkReport):
    """The result of one run. `bytes` are those of the logs that were read, `written_bytes` those of
    the new Parquet files. `run` is the number of this run among those that wrote to the output; 0
    if there was nothing new. `positions` are those up to which the logs are exported. `losses`
    state what of the logs is not in the output."""

    written_bytes: int = 0
    run: int = 0
    positions: dict[str, int] = field(default_factory=dict)
    losses: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
