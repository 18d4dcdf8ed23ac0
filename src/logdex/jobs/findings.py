"""The results of `verify` in both formats: findings (something is wrong at a place), information
(nothing is wrong), the report, and the collector of them."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from logdex.errors import CorruptError, LogdexError, UnreadableError, UsageError
from logdex.jobs.reports import WorkReport
from logdex.primitives.wrong_questions import nearest_names

if TYPE_CHECKING:
    import pyarrow as pa

FINDINGS_MAX = 1000
"""How many findings a report lists unless another number is asked for. At least as many are
collected, because a finding that another look does not have may be a running broker's doing, and
only what is collected can be compared."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One problem. `check` is the name of the check, `position` is the byte in the file at `path`,
    and `mend` is the command or the action that repairs it."""

    check: str
    path: str
    position: int
    message: str
    expected: str = ""
    found: str = ""
    mend: str = ""

    def to_json(self) -> dict[str, Any]:
        """Returns the object that ``logdex verify --json`` prints for the finding."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Info:
    """One piece of information. `kind` is a stable name, and `path` is where it was found."""

    kind: str
    path: str
    message: str

    def to_json(self) -> dict[str, Any]:
        """Returns the object that ``logdex verify --json`` prints for the information."""
        return asdict(self)


@dataclass(slots=True)
class VerifyReport(WorkReport):
    """What `verify` found, ordered by path and position.

    `messages`, `bytes` (of the logs) and `files` count what was checked.
    """

    findings: list[Finding] = field(default_factory=list)
    infos: list[Info] = field(default_factory=list)
    truncated: int = 0
    """The number of findings that are counted and not listed."""
    unsettled: LogdexError | None = None
    """The reason why a setting is the broker's default: it could not be inferred, or the files
    contradict what is given."""

    @property
    def is_sound(self) -> bool:
        """Whether there are no findings, listed or only counted."""
        return not self.findings and not self.truncated

    def list_at_most(self, number: int) -> None:
        """Counts the findings behind the first `number`, and does not list them."""
        number = max(number, 0)
        self.truncated += len(self.findings[number:])
        del self.findings[number:]

    def to_arrow(self) -> pa.Table:
        """Returns the listed findings as a table. Its columns are the fields of `Finding`. Bytes of
        a path that are no text are escaped."""
        import pyarrow as pa

        def column(name: str) -> list[Any]:
            values = [getattr(finding, name) for finding in self.findings]
            return values if name == "position" else [value.encode("utf-8", "backslashreplace") for value in values]

        kinds = {"position": pa.int64()}
        schema = pa.schema([(each.name, kinds.get(each.name, pa.string())) for each in fields(Finding)])
        return pa.table([pa.array(column(name), schema.field(name).type) for name in schema.names], schema)

    def to_json(self) -> dict[str, Any]:
        """Returns the report object that ends the output of ``logdex verify --json``. Findings are
        separate objects before it."""
        counts = {"findings": len(self.findings) + self.truncated, "infos": len(self.infos), "lossy": False}
        return WorkReport.to_json(self) | counts


class Mark(NamedTuple):
    """The state of a collector at one time."""

    findings: int
    infos: int
    truncated: int
    files: int


class Collected(NamedTuple):
    """What a task has collected."""

    findings: list[Finding]
    infos: list[Info]
    truncated: int
    files: int


class FindingCollector:
    """Collects findings and information, at most one finding per place. For one thread.

    `known` maps the names of all checks to their descriptions, and `notes` are the names of all
    information. `checks` are the requested ones of both, None for all; without a name of
    information all of it is reported. `flags` are the settings that the caller gave, as flags,
    which the commands repeat. Raises `UsageError` for an unknown name.
    """

    def __init__(
        self,
        known: Mapping[str, str],
        notes: Collection[str],
        root: str,
        max_findings: int,
        checks: Collection[str] | None = None,
        flags: str = "",
    ) -> None:
        names = {*known, *notes}
        unknown = sorted({*(checks or ())} - names)
        if unknown:
            similar = [near for each in unknown for near in nearest_names(each, names)[:1]]
            known_names = f"there are {', '.join(known)}; and as notes {', '.join(sorted(notes))}"
            hint = f"did you mean {' and '.join(similar)}?" if similar else known_names
            raise UsageError(f"no such check: {', '.join(unknown)}", hint=hint)
        self.files = 0
        self.rebuild = f"logdex rebuild {shlex.quote(root)} --output DIR{flags}"
        """The command that derives the indexes again from the log."""
        self._known = known
        self._checks = None if checks is None else frozenset(checks)
        self._notes = (self._checks or frozenset()) & {*notes} or None
        self._max = max(max_findings, 0)
        self._truncated = 0
        self._findings: dict[tuple[str, int], Finding] = {}
        self._infos: list[Info] = []

    def mark(self) -> Mark:
        """Returns the present state, to which `back_to` returns."""
        return Mark(len(self._findings), len(self._infos), self._truncated, self.files)

    def back_to(self, mark: Mark) -> None:
        """Drops what was collected since a mark, because it was looked at while it changed."""
        for place in [*self._findings][mark.findings :]:
            del self._findings[place]
        del self._infos[mark.infos :]
        self._truncated, self.files = mark.truncated, mark.files

    def since(self, mark: Mark) -> list[Finding]:
        """Returns the findings that were collected since a mark."""
        return [*self._findings.values()][mark.findings :]

    def keep(self, mark: Mark, findings: Iterable[Finding]) -> None:
        """Replaces the findings since a mark by some of them; what was counted only is dropped."""
        for place in [*self._findings][mark.findings :]:
            del self._findings[place]
        self._truncated = mark.truncated
        for finding in findings:
            self.take(finding)

    def collected(self) -> Collected:
        """Returns all that was collected, for `merge`."""
        return Collected([*self._findings.values()], self._infos, self._truncated, self.files)

    def merge(self, collected: Collected) -> None:
        """Adds what another collector has collected, up to the maximum number."""
        for finding in collected.findings:
            self.take(finding)
        for info in collected.infos:
            self.info(info.kind, info.path, info.message)
        self._truncated += collected.truncated
        self.files += collected.files

    @property
    def is_full(self) -> bool:
        """Whether further findings are only counted."""
        return len(self._findings) >= self._max

    def wants(self, check: str) -> bool:
        """Whether findings of a check are reported."""
        return self._checks is None or check in self._checks

    def count(self, check: str, number: int) -> None:
        """Adds findings of a check that are counted and not listed."""
        assert check in self._known, check
        if self.wants(check):
            self._truncated += number

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
        """Adds a finding, unless its check was not requested or its place has one already. Returns
        whether it was kept."""
        return self.take(Finding(check, path, position, message, str(expected), str(found), mend))

    def take(self, finding: Finding) -> bool:
        """Adds a finding like `find`. Returns whether it was kept."""
        assert finding.check in self._known, finding.check
        place = finding.path, finding.position
        if not self.wants(finding.check) or place in self._findings:
            return False
        if self.is_full:
            self._truncated += 1
            return False
        self._findings[place] = finding
        return True

    def find_error(self, check: str, error: CorruptError | UnreadableError, mend: str) -> bool:
        """Adds a finding for an error that has a location; of the check ``unreadable`` for bytes
        that cannot be read. Returns whether it was kept."""
        if isinstance(error, UnreadableError):
            wanted = "a file that can be read"
            return self.find("unreadable", error.path, error.position, error.reason, expected=wanted, mend=mend)
        expected, found = ("" if value is None else value for value in (error.expected, error.found))
        return self.find(
            check, error.path, error.position, error.description, expected=expected, found=found, mend=mend
        )

    def is_blamed(self, path: str) -> bool:
        """Whether there is a finding in the file at `path` so far."""
        return any(place[0] == path for place in self._findings)

    def some(self, check: str, places: npt.NDArray[np.intp]) -> list[int]:
        """Returns the first of many places, each a finding of `check`, for which there is room. The
        others are only counted."""
        if not self.wants(check):
            return []
        room = max(self._max - len(self._findings), 0)
        self.count(check, max(len(places) - room, 0))
        return [int(place) for place in places[:room]]

    def info(self, kind: str, path: str, message: str) -> None:
        """Adds a piece of information, up to a maximum number, unless only others were
        requested."""
        if (self._notes is None or kind in self._notes) and len(self._infos) < 2 * max(self._max, 16):
            self._infos.append(Info(kind, path, message))

    def findings(self) -> list[Finding]:
        """Returns the findings, ordered by path and position."""
        return sorted(self._findings.values(), key=lambda finding: (finding.path, finding.position))

    def report(self, *, messages: int, size_bytes: int, seconds: float) -> VerifyReport:
        """Returns the report on a check of `size_bytes` bytes of logs. Its information is ordered
        by path, kind and text."""
        return VerifyReport(
            findings=self.findings(),
            infos=sorted(self._infos, key=lambda info: (info.path, info.kind, info.message)),
            messages=messages,
            bytes=size_bytes,
            files=self.files,
            seconds=seconds,
            truncated=self._truncated,
        )
