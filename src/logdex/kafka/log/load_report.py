"""What opening a log found and did: nothing is cut, removed or rebuilt without a line here."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum


class LoadStep(Enum):
    """What was done to a file."""

    CUT = "cut"
    """Bytes from `position` on went: `reason` says what was wrong there."""
    REMOVED = "removed"
    """The file is gone, or renamed to ``.deleted`` where its bytes may still be wanted."""
    RENAMED = "renamed"
    """An interrupted swap was completed."""
    REBUILT = "rebuilt"
    """An index or a checkpoint was derived from the log again."""
    SPLIT = "split"
    """A segment whose offsets do not fit its indexes became several."""


@dataclass(frozen=True, slots=True)
class LoadAction:
    """One step: `size_bytes` is what was lost of `path`, from byte `position` on; 0 where nothing was."""

    step: LoadStep
    path: str
    reason: str
    position: int = 0
    size_bytes: int = 0


@dataclass(slots=True)
class LoadReport:
    """`was_clean`: the last writer closed the log, so nothing was recovered. `recovered`: base offsets of the segments
    that were read and whose indexes were derived again."""

    was_clean: bool = False
    recovered: list[int] = field(default_factory=list)
    actions: list[LoadAction] = field(default_factory=list)

    def note(self, step: LoadStep, path: str, reason: str, *, position: int = 0, size_bytes: int = 0) -> None:
        """Adds a step."""
        self.actions.append(LoadAction(step, path, reason, position, size_bytes))

    @property
    def cut_bytes(self) -> int:
        """Bytes of .log files that are no longer part of the log."""
        kept = (LoadStep.CUT, LoadStep.REMOVED)
        return sum(each.size_bytes for each in self.actions if each.step in kept and ".log" in each.path)
