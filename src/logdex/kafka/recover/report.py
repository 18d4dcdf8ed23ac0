"""The report of `recover`: how much is in the output, and every byte of the input that is not."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from logdex.jobs import reports


@dataclass(frozen=True, slots=True)
class Skipped:
    """Bytes [start, end) of a .log that are not in the new log.

    Offsets from `first_offset` to before `next_offset` may be lost with them, by what the whole
    batches around them leave open; `next_offset` is -1 if the end is not known. `is_loss` is False
    if nothing is lost with them. `saved` is the file that holds the bytes now.
    """

    path: str
    start: int
    end: int
    why: str
    first_offset: int
    next_offset: int
    is_loss: bool = True
    saved: str = ""

    def to_json(self) -> dict[str, Any]:
        """Returns the object that ``logdex recover --json`` prints for it."""
        return {"kind": "skipped"} | asdict(self)

    def __str__(self) -> str:
        where = f"bytes {self.start} to {self.end - 1}: " if self.end > self.start else ""
        text = f"{self.path}: {where}{self.why}"
        if self.is_loss and self.next_offset == self.first_offset:
            text += "; no offset is missing for it"
        elif self.is_loss and self.next_offset >= 0:
            text += f"; offsets {self.first_offset} to {self.next_offset - 1} are lost, those of them that there were"
        elif self.is_loss:
            text += f"; offsets from {self.first_offset} on are lost, as many as there were"
        return f"{text}; saved in {self.saved}" if self.saved else text


@dataclass(slots=True)
class RecoverReport(reports.RecoverReport):
    """`messages` and `batches` count what the new log holds; a compressed batch of magic 0 or 1
    counts as one message, because only its records tell how many there are. `inferred` are settings
    derived from the files."""

    batches: int = 0
    partitions: int = 0
    skipped: list[Skipped] = field(default_factory=list)
    inferred: list[str] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """Returns the report object that ends ``logdex recover --json``."""
        names = ("batches", "partitions", "lossy", "skipped_bytes", "losses", "notes", "inferred", "assumed", "kept")
        return reports.WorkReport.to_json(self) | {name: getattr(self, name) for name in names}
