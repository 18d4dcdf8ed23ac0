"""The progress and the final report of work on a whole directory, in both formats."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field, fields
from typing import Any

Progress = Callable[[int, int], None]
"""Called repeatedly with (messages or records so far, bytes of logs so far)."""


@dataclass(slots=True)
class WorkReport:
    """The fields of every report. `engine` is ``local`` or ``spark``, `bytes` is the length of the
    logs that were read, and `seconds` is the elapsed time."""

    engine: str = "local"
    tasks: int = 1
    messages: int = 0
    bytes: int = 0
    files: int = 0
    seconds: float = 0.0

    def to_json(self) -> dict[str, Any]:
        """Returns these fields, with which every report object of ``--json`` begins."""
        return {each.name: getattr(self, each.name) for each in fields(WorkReport)}


@dataclass(slots=True)
class RebuildReport(WorkReport):
    """The result of a rebuild.

    `bytes` is the length of the valid log. `losses` state what of the log is not in the output, and
    `lossy` whether there are any. `assumed` are sizes or a version that neither the caller nor the
    files determined. `kept` maps a replaced name to the path where its old content is kept.
    """

    losses: list[str] = field(default_factory=list)
    assumed: list[str] = field(default_factory=list)
    kept: dict[str, str] = field(default_factory=dict)

    @property
    def lossy(self) -> bool:
        """Whether there are losses."""
        return bool(self.losses)

    def to_json(self) -> dict[str, Any]:
        """Returns the report object that ends the output of ``logdex rebuild --json``."""
        return asdict(self) | {"lossy": self.lossy}
