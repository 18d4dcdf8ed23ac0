"""The report of `recover`: how much is in the output, and every byte of the input that is not."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from logdex.jobs import reports


@dataclass(frozen=True, slots=True)
class Skipped:
    """Bytes [start, end) of a CommitLog file that are not in the new log.

    `physical_offset` is that of the first byte. The new log has `placeholders` messages of the
    topic LOGDEX_LOST in their place, or ends before them if there are none. `is_loss` is False if
    no message can be lost with them.
    """

    path: str
    start: int
    end: int
    why: str
    physical_offset: int
    placeholders: int = 0
    is_loss: bool = True

    def to_json(self) -> dict[str, Any]:
        """Returns the object that ``logdex recover --json`` prints for it."""
        return {"kind": "skipped"} | asdict(self)

    def __str__(self) -> str:
        where = f"bytes {self.start} to {self.end - 1}: " if self.end > self.start else ""
        text = f"{self.path}: {where}{self.why}"
        if self.placeholders == 1:
            return f"{text}; one placeholder message is in their place"
        return f"{text}; {self.placeholders} placeholder messages are in their place" if self.placeholders else text


@dataclass(slots=True)
class RecoverReport(reports.RecoverReport):
    """`messages` counts the messages that were saved, `placeholders` the new placeholder messages.
    `end_offset` is the physical offset where the new log ends. `losses` name entries of
    ConsumeQueues that could not be derived, and messages behind the end of the log of which
    something else tells."""

    placeholders: int = 0
    end_offset: int = 0
    queues: int = 0
    queue_entries: int = 0
    index_files: int = 0
    index_entries: int = 0
    skipped: list[Skipped] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """Returns the report object that ends ``logdex recover --json``."""
        counts = ("placeholders", "end_offset", "queues", "queue_entries", "index_files", "index_entries")
        names = (*counts, "lossy", "skipped_bytes", "losses", "notes", "assumed", "kept")
        return reports.WorkReport.to_json(self) | {name: getattr(self, name) for name in names}
