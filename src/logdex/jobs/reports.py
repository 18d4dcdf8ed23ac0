"""What work on a whole store says of itself, whatever the format: how far it is; what it did, at its end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field, fields
from typing import Any

Progress = Callable[[int, int], None]
"""Called now and then with (messages or records so far, bytes of logs so far)."""


@dataclass(slots=True)
class WorkReport:
    """What every report has: `engine` is ``local`` or ``spark``, `bytes` the length of the logs that were read,
    `seconds` wall time."""

    engine: str = "local"
    tasks: int = 1
    messages: int = 0
    bytes: int = 0
    files: int = 0
    seconds: float = 0.0

    def to_json(self) -> dict[str, Any]:
        """These fields, as every report object of ``--json`` begins."""
        return {each.name: getattr(self, each.name) for each in fields(WorkReport)}


@dataclass(slots=True)
class RebuildReport(WorkReport):
    """What a rebuild did. `bytes` is the length of the valid log; `kept` maps a name that was replaced to where it is
    kept; `lossy` says that something of the log is not in the output, and `losses` what; `assumed` names sizes or the
    version where nothing decided them."""

    losses: list[str] = field(default_factory=list)
    assumed: list[str] = field(default_factory=list)
    kept: dict[str, str] = field(default_factory=dict)

    @property
    def lossy(self) -> bool:
        """Whether `losses` says anything."""
        return bool(self.losses)

    def to_json(self) -> dict[str, Any]:
        """The report object that ends ``logdex rebuild --json``."""
        return asdict(self) | {"lossy": self.lossy}
