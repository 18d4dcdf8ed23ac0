"""What `verify` says: findings (something is wrong, here), information (worth knowing, nothing wrong), the report."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from logdex.errors import UsageError

CHECKS = {
    "abort": "abort is a small file",
    "checkpoint-offset": "the checkpoint's offsets are within the log",
    "checkpoint-size": "the checkpoint has 4096 bytes",
    "checkpoint-time": "the checkpoint's times are not past the newest message",
    "commit-log-file-size": "every CommitLog file has mappedFileSizeCommitLog bytes",
    "commit-log-gap": "CommitLog files follow one another",
    "commit-log-hole": "no message lies behind a place that was never written",
    "commit-log-stray-bytes": "nothing but zeros lies behind the end of the log",
    "config-json": "config/*.json can be parsed",
    "consume-queue-entry": "an entry is that of its message (several fields differ, or it is not there)",
    "consume-queue-extra-entry": "an entry has a message",
    "consume-queue-file-size": "every ConsumeQueue file has mappedFileSizeConsumeQueue bytes",
    "consume-queue-gap": "ConsumeQueue files follow one another",
    "consume-queue-missing": "a queue with messages has a ConsumeQueue",
    "consume-queue-offset": "an entry's physical offset is its message's",
    "consume-queue-size": "an entry's size is its message's",
    "consume-queue-stray-bytes": "behind a queue's last entry there are zeros, or entries that a recovery cut",
    "consume-queue-tags-code": "an entry's tagsCode is its message's",
    "filler": "a CommitLog file ends with a blank of the right size",
    "index-entry-hash": "an index entry's hash is that of a key of its message",
    "index-entry-offset": "an index entry names the start of its message",
    "index-entry-time": "an index entry's timeDiff is its message's",
    "index-extra-entry": "an index entry has a message with that key",
    "index-file-size": "every IndexFile has the size of its geometry",
    "index-header": "an IndexFile's header tells of its entries",
    "index-link": "an index entry names the one before it in its slot",
    "index-missing-range": "every key has an entry (information after an unclean end)",
    "index-slot": "a slot names its newest entry",
    "index-stray-bytes": "behind an IndexFile's last entry there are zeros",
    "lock": "lock is a small file",
    "message-crc": "the body's CRC is right",
    "message-delay": "the property DELAY is a number",
    "message-keys": "a message has the keys that its index entries and their chains tell of",
    "message-lengths": "a message's parts add up to its size",
    "message-magic": "a message starts with a magic that is known",
    "message-physical-offset": "the stored physical offset is where the message lies",
    "message-property-crc": "the property __CRC32# is that of the message",
    "message-queue": "a message is of the queue that has its entry",
    "message-queue-offset": "queue offsets do not repeat or go back",
    "message-size": "a message has a possible size",
    "message-store-timestamp": "a message's storeTimestamp is what all its index entries say",
    "torn-tail": "the log does not end inside a message",
    "unreadable": "the file can be read",
}
"""Every check: what is as it should be."""

FINDINGS_MAX = 1000


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong. `check` is a key of `CHECKS`; `position` is the byte in the file at `path`; `mend` the
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
class VerifyReport:
    """What was found, ordered by path and position; `truncated` counts findings beyond the most that were asked for.

    `messages`, `bytes` (of CommitLog) and `files` are what was looked at, `seconds` wall time.
    """

    findings: list[Finding] = field(default_factory=list)
    infos: list[Info] = field(default_factory=list)
    messages: int = 0
    bytes: int = 0
    files: int = 0
    seconds: float = 0.0
    truncated: int = 0
    engine: str = "local"
    tasks: int = 1

    @property
    def is_sound(self) -> bool:
        """Whether nothing is wrong."""
        return not self.findings

    def to_json(self) -> dict[str, Any]:
        """The report object that ends ``logdex verify --json``; the findings are objects of their own before it."""
        report = {name: getattr(self, name) for name in ("engine", "tasks", "messages", "bytes", "files", "seconds")}
        return report | {"findings": len(self.findings) + self.truncated, "infos": len(self.infos), "lossy": False}


class Collector:
    """Takes findings and information as they come; one finding for a place. One thread.

    `checks` None: all. Raises `UsageError` for the name of a check that does not exist.
    """

    def __init__(self, root: str, max_findings: int, checks: Collection[str] | None = None) -> None:
        unknown = sorted(set(checks or ()) - set(CHECKS))
        if unknown:
            raise UsageError(f"no such check: {', '.join(unknown)}", hint=f"there are {', '.join(CHECKS)}")
        self.root = root
        self.truncated = 0
        self.files = 0
        self.infos: list[Info] = []
        self._checks = None if checks is None else frozenset(checks)
        self._max = max(max_findings, 0)
        self._findings: dict[tuple[str, int], Finding] = {}
        self._about: dict[int, list[tuple[str, int]]] = {}
        self._suspects: dict[int, Finding] = {}

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
        about: int | None = None,
    ) -> None:
        """Takes a finding, the first at its place; `about` is the physical offset of the message that it is held
        against."""
        assert check in CHECKS, check
        if (self._checks is not None and check not in self._checks) or (path, position) in self._findings:
            return
        if self.is_full:
            self.truncated += 1
            return
        self._findings[path, position] = Finding(check, path, position, message, str(expected), str(found), mend)
        if about is not None:
            self._about.setdefault(about, []).append((path, position))

    def suspect(
        self, physical_offset: int, check: str, path: str, position: int, message: str, expected: object, found: object
    ) -> None:
        """A message that its own derived entries contradict, while they agree with each other: what is wrong is the
        message, so findings against those entries are dropped."""
        if physical_offset in self._suspects or len(self._suspects) >= max(self._max, 1):
            return
        assert check in CHECKS, check
        self._suspects[physical_offset] = Finding(
            check, path, position, message, str(expected), str(found), RESTORE_MESSAGE
        )

    def some(self, check: str, places: npt.NDArray[np.intp]) -> list[int]:
        """Those of many places, each a finding of `check`, that there is room for; the others are only counted."""
        if self._checks is not None and check not in self._checks:
            return []
        room = max(self._max - len(self._findings), 0)
        self.truncated += max(len(places) - room, 0)
        return [int(place) for place in places[:room]]

    def info(self, kind: str, path: str, message: str) -> None:
        """Takes a piece of information; a kind has room for as many as there may be findings."""
        if len(self.infos) < 2 * max(self._max, 16):
            self.infos.append(Info(kind, path, message))

    def findings(self) -> list[Finding]:
        """The findings by path and position."""
        for physical_offset, finding in self._suspects.items():
            in_log = False
            for place in self._about.get(physical_offset, []):
                if place[0] == finding.path:
                    in_log = True
                else:
                    self._findings.pop(place, None)
            if not in_log:
                self.find(
                    finding.check,
                    finding.path,
                    finding.position,
                    finding.message,
                    expected=finding.expected,
                    found=finding.found,
                    mend=finding.mend,
                )
        self._suspects.clear()
        return sorted(self._findings.values(), key=lambda finding: (finding.path, finding.position))

    @property
    def rebuild(self) -> str:
        """The command that derives queues and IndexFiles anew."""
        return f"logdex rebuild {self.root} --output DIR"


RESTORE = "restore this file from a replica or a backup"
RESTORE_MESSAGE = f"{RESTORE}; if the message is right, logdex rebuild derives its entries anew"
CUT_AT_START = "nothing, if these messages may go: a broker's next start cuts the log here"
