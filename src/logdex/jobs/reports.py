"""The progress and the final report of work on a whole directory, in both formats."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Protocol

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


class Gone(str):
    """A loss without damage: what is missing was removed, or replaced. `verify` finds nothing."""

    __slots__ = ()


class Lossy:
    """What the reports of jobs share that may have left out parts of a log: `losses` state what is
    not in the output."""

    __slots__ = ()

    losses: list[str]

    @property
    def damaged(self) -> bool:
        """Whether there are losses by damage."""
        return not all(isinstance(loss, Gone) for loss in self.losses)

    @property
    def lossy(self) -> bool:
        """Whether there are losses."""
        return bool(self.losses)

    def to_json(self) -> dict[str, Any]:
        """Returns the report object that ends the command's output with ``--json``."""
        return asdict(self) | {"lossy": self.lossy}  # type: ignore[call-overload, no-any-return]  # a dataclass


@dataclass(slots=True)
class RebuildReport(Lossy, WorkReport):
    """The result of a rebuild.

    `bytes` is the length of the valid log. `losses` state what of the log is not in the output, and
    `lossy` whether there are any. `assumed` are sizes or a version that neither the caller nor the
    files determined. `kept` maps a replaced name to the path where its old content is kept.
    """

    losses: list[str] = field(default_factory=list)
    assumed: list[str] = field(default_factory=list)
    kept: dict[str, str] = field(default_factory=dict)


class SkippedBytes(Protocol):
    """Bytes [start, end) of a file of a log that are not in the recovered log."""

    @property
    def path(self) -> str:
        """The file."""

    @property
    def start(self) -> int:
        """The position of the first byte in the file."""

    @property
    def end(self) -> int:
        """The position behind the last byte."""

    @property
    def is_loss(self) -> bool:
        """False if no message can be lost with them."""


@dataclass(slots=True)
class RecoverReport(WorkReport):
    """The result of a recovery. Each format adds what it counts.

    `bytes` is what was read of logs, `files` what was written. `losses` name what else is missing
    in the output. `assumed` are settings that nothing determined. `kept` maps each name that an
    in-place run replaced to where its old content is kept now.
    """

    skipped: Sequence[SkippedBytes] = field(default_factory=list)
    losses: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    assumed: list[str] = field(default_factory=list)
    kept: dict[str, str] = field(default_factory=dict)

    @property
    def lossy(self) -> bool:
        """Whether data of the input is missing in the output. A dropped duplicate does not
        count."""
        return bool(self.losses) or any(each.is_loss for each in self.skipped)

    @property
    def skipped_bytes(self) -> int:
        """The number of bytes that are lost, as far as it is known: see `unsized_files`."""
        return sum(each.end - each.start for each in self.skipped if each.is_loss)

    @property
    def unsized_files(self) -> int:
        """The number of files that are lost as a whole, and whose size is not known."""
        return sum(each.is_loss and each.start == each.end for each in self.skipped)
