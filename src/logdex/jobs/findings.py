"""What `verify` says, whatever the format: findings (something is wrong, here), information (worth knowing, nothing
wrong), the report, and what collects them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from logdex.errors import CorruptError, LogdexError, UsageError
from logdex.jobs.reports import WorkReport

FINDINGS_MAX = 1000


def counted(count: int, one: str, many: str) -> str:
    """``1 gap is there``, ``2,000 gaps are there``."""
    return f"{count:,} {one if count == 1 else many}"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong. `check` names the check; `position` is the byte in the file at `path`; `mend` the
    command or the action that mends it."""

    check: str
    path: str
    position: int
    message: str
    expected: str = ""
    found: str = ""
    mend: str = ""

    def to_json(self) -> dict[str, Any]:
        """The object that ``logdex verify --json`` prints for it."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Info:
    """Something to know: `kind` is a stable name, `path` where it was seen."""

    kind: str
    path: str
    message: str

    def to_json(self) -> dict[str, Any]:
        """The object that ``logdex verify --json`` prints for it."""
        return asdict(self)


@dataclass(slots=True)
class VerifyReport(WorkReport):
    """What was found, ordered by path and position; `truncated` counts findings beyond the most that were asked for.

    `messages`, `bytes` (of the log) and `files` are what was looked at.
    """

    findings: list[Finding] = field(default_factory=list)
    infos: list[Info] = field(default_factory=list)
    truncated: int = 0
    unsettled: LogdexError | None = None
    """The reason why a setting is the broker's default: it could not be inferred, or the files
    contradict what is given."""

    @property
    def is_sound(self) -> bool:
        """Whether nothing is wrong."""
        return not self.findings

    def to_json(self) -> dict[str, Any]:
        """The report object that ends ``logdex verify --json``; the findings are objects of their own before it."""
        counts = {"findings": len(self.findings) + self.truncated, "infos": len(self.infos), "lossy": False}
        return WorkReport.to_json(self) | counts


class FindingCollector:
    """Takes findings and information as they come; one finding for a place. One thread.

    `known` are all checks by name; `checks` those that are wanted, None for all. Raises `UsageError` for the name of a
    check that does not exist.
    """

    def __init__(
        self, known: Mapping[str, str], root: str, max_findings: int, checks: Collection[str] | None = None
    ) -> None:
        unknown = sorted(set(checks or ()) - set(known))
        if unknown:
            raise UsageError(f"no such check: {', '.join(unknown)}", hint=f"there are {', '.join(known)}")
        self.truncated = 0
        self.files = 0
        self.rebuild = f"logdex rebuild {root} --output DIR"
        """The command that derives anew what follows from the log."""
        self._known = known
        self._checks = None if checks is None else frozenset(checks)
        self._max = max(max_findings, 0)
        self._findings: dict[tuple[str, int], Finding] = {}
        self._infos: list[Info] = []

    @property
    def is_full(self) -> bool:
        """Whether no more findings are kept."""
        return len(self._findings) >= self._max

    def find(
        self,
        check: str,
        path: str,
        position: int,
        message: str,
        *,
        expected: object = "",
        found: object = "",
        mend: str = "",
    ) -> bool:
        """Takes a finding, the first at its place; whether it was kept."""
        return self.take(Finding(check, path, position, message, str(expected), str(found), mend))

    def take(self, finding: Finding) -> bool:
        """`find` of a finding that is made already."""
        assert finding.check in self._known, finding.check
        place = finding.path, finding.position
        if (self._checks is not None and finding.check not in self._checks) or place in self._findings:
            return False
        if self.is_full:
            self.truncated += 1
            return False
        self._findings[place] = finding
        return True

    def find_error(self, check: str, error: CorruptError, mend: str) -> bool:
        """A finding of a located error."""
        expected, found = ("" if value is None else value for value in (error.expected, error.found))
        return self.find(
            check, error.path, error.position, error.description, expected=expected, found=found, mend=mend
        )

    def is_blamed(self, path: str) -> bool:
        """Whether there is a finding in the file at `path` yet."""
        return any(place[0] == path for place in self._findings)

    def some(self, check: str, places: npt.NDArray[np.intp]) -> list[int]:
        """Those of many places, each a finding of `check`, that there is room for; the others are only counted."""
        if self._checks is not None and check not in self._checks:
            return []
        room = max(self._max - len(self._findings), 0)
        self.truncated += max(len(places) - room, 0)
        return [int(place) for place in places[:room]]

    def info(self, kind: str, path: str, message: str) -> None:
        """Takes a piece of information; a kind has room for as many as there may be findings."""
        if len(self._infos) < 2 * max(self._max, 16):
            self._infos.append(Info(kind, path, message))

    def findings(self) -> list[Finding]:
        """The findings by path and position."""
        return sorted(self._findings.values(), key=lambda finding: (finding.path, finding.position))

    def report(self, *, messages: int, size_bytes: int, seconds: float) -> VerifyReport:
        """The report that ends a check of `size_bytes` of logs; the information by path, kind and text."""
        return VerifyReport(
            findings=self.findings(),
            infos=sorted(self._infos, key=lambda info: (info.path, info.kind, info.message)),
            messages=messages,
            bytes=size_bytes,
            files=self.files,
            seconds=seconds,
            truncated=self.truncated,
        )
