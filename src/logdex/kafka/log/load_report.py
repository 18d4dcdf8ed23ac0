"""The report of opening a log: every truncated, removed or rebuilt file is listed."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum


class LoadStep(Enum):
    """What was done to a file."""

    CUT = "cut"
    """The bytes from `position` on were removed; `reason` states what was wrong there."""
    REMOVED = "removed"
    """The file was deleted, or renamed to ``.deleted`` if its bytes may still be wanted."""
    RENAMED = "renamed"
    """An interrupted swap was completed."""
    REBUILT = "rebuilt"
    """An index or a checkpoint was derived from the log again."""
    SPLIT = "split"
    """A segment whose offsets do not fit its indexes was split."""


@dataclass(frozen=True, slots=True)
class LoadAction:
    """One step. `size_bytes` bytes of `path` were lost, from byte `position` on; 0 if none."""

    step: LoadStep
    path: str
    reason: str
    position: int = 0
    size_bytes: int = 0


@dataclass(slots=True)
class LoadReport:
    """The result of opening a log.

    `was_clean`: the log was closed cleanly or is new, so nothing was recovered. `recovered`: the
    base offsets of the segments that were scanned to derive their indexes again.
    """

    was_clean: bool = False
    recovered: list[int] = field(default_factory=list)
    actions: list[LoadAction] = field(default_factory=list)

    def note(self, step: LoadStep, path: str, reason: str, *, position: int = 0, size_bytes: int = 0) -> None:
        """Adds a step."""
        self.actions.append(LoadAction(step, path, reason, position, size_bytes))

    @property
    def cut_bytes(self) -> int:
        """The bytes of .log files that no longer belong to the log."""
        kept = (LoadStep.CUT, LoadStep.REMOVED)
        return sum(each.size_bytes for each in self.actions if each.step in kept and ".log" in each.path)
