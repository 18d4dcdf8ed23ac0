"""The checks of a RocketMQ store, and the collector of their findings."""

from __future__ import annotations

import shlex
from collections.abc import Collection
from dataclasses import replace

from logdex.errors import CorruptError, CrcMismatchError
from logdex.jobs.findings import Finding, FindingCollector
from logdex.jobs.journal import UNFINISHED_CHECK
from logdex.rocketmq.commit_log.log_end import UNREADABLE

CHECKS = {
    "abort": "abort is a small file",
    "checkpoint-offset": "the checkpoint's offsets are within the log",
    "checkpoint-size": "the checkpoint has 4096 bytes",
    "checkpoint-time": "the checkpoint's times are not past the newest message",
    "commit-log-file-size": "every CommitLog file has mappedFileSizeCommitLog bytes",
    "commit-log-gap": "CommitLog files follow one another",
    "commit-log-hole": "no message lies behind a place that was never written",
    "commit-log-name": "a CommitLog file has the name of the offset at which its messages lie",
    "commit-log-other-file": "nothing but CommitLog files lies beside them",
    "commit-log-stray-bytes": "nothing but zeros lies behind the end of the log",
    "config-json": "config/*.json can be parsed",
    "consume-queue-entry": "an entry is that of its message (several fields differ, or it is not there)",
    "consume-queue-extra-entry": "an entry has a message",
    "consume-queue-file-size": "every ConsumeQueue file has mappedFileSizeConsumeQueue bytes",
    "consume-queue-gap": "ConsumeQueue files follow one another",
    "consume-queue-missing": "a queue with messages has a ConsumeQueue",
    "consume-queue-offset": "an entry's physical offset is its message's",
    "consume-queue-other-file": "nothing but ConsumeQueue files lies beside them",
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
    UNFINISHED_CHECK: "no command of Logdex was killed while it published here",
    "unreadable": "the file can be read",
}
"""Maps the name of each check to the condition that holds in a sound store."""

NOTES = frozenset(
    (
        "appended-life",
        "consume-queue-behind",
        "consume-queue-ext",
        "consume-queue-stale-entries",
        "delay-levels",
        "delay-tag-hash",
        "deleted-queue",
        "earlier-life",
        "empty-config",
        "index-ahead",
        "index-expired-entries",
        "index-not-checked",
        "index-not-written",
        "index-repeated-entries",
        "index-version",
        "log-file-removed",
        "log-growing",
        "no-checkpoint",
        "no-config",
        "no-consumer-offsets",
        "no-topics",
        "one-file",
        "queue-offset-gap",
        "queue-without-messages",
        "unclean-end",
    )
)
"""The names of what is reported as information."""


class Collector(FindingCollector):
    """Collects findings and information, at most one finding per position. Not thread-safe.

    `checks` are the names of the checks to report, or None for all. Raises `UsageError` for an
    unknown name.
    """

    def __init__(self, root: str, max_findings: int, checks: Collection[str] | None = None, flags: str = "") -> None:
        super().__init__(CHECKS, NOTES, root, max_findings, checks, flags)
        self.recover = f"logdex recover {shlex.quote(root)} --output DIR{flags}"
        self._or_recover = f"; if there is none, {self.recover}"
        self._about: dict[int, list[tuple[str, int]]] = {}
        self._suspects: dict[int, Finding] = {}
        self._last_suspect = -1

    def restore_log(self, note: str = "") -> str:
        """Returns how a log is mended that is damaged before its end. `note` follows the first
        way."""
        return f"{RESTORE}{note}{self._or_recover}"

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
    ) -> bool:
        """Adds a finding, unless there is one at its position already. `about` is the physical
        offset of the message that the place was compared with. Returns whether the finding was
        added."""
        kept = super().find(check, path, position, message, expected=expected, found=found, mend=mend)
        if kept and about is not None:
            self._about.setdefault(about, []).append((path, position))
        return kept

    def compared_with(self) -> dict[tuple[str, int], int]:
        """Maps the places of findings, by path and position, to the physical offsets of the
        messages that they were compared with."""
        return {place: offset for offset, places in self._about.items() for place in places}

    def suspect(
        self, physical_offset: int, check: str, path: str, position: int, message: str, expected: object, found: object
    ) -> None:
        """Adds a finding about a message that its own index entries contradict while they agree
        with each other. The message is then what is wrong, so findings about those entries are
        dropped."""
        if physical_offset in self._suspects or physical_offset == self._last_suspect:
            return
        self._last_suspect = physical_offset
        if len(self._suspects) >= max(self._max, 1):
            self.count(check, 1)
            return
        self._suspects[physical_offset] = Finding(
            check, path, position, message, str(expected), str(found), RESTORE_MESSAGE
        )

    def findings(self) -> list[Finding]:
        """Returns the findings sorted by path and position."""
        for physical_offset, finding in self._suspects.items():
            in_log = False
            for place in self._about.get(physical_offset, []):
                if place[0] == finding.path:
                    in_log = True
                else:
                    self._findings.pop(place, None)
            if not in_log:
                self.take(finding)
        self._suspects.clear()
        found = super().findings()
        if any(each.mend.endswith(self._or_recover) for each in found):  # a rebuild would stop at the damage
            return [self._behind_damage(each) for each in found]
        return found

    def _behind_damage(self, finding: Finding) -> Finding:
        """Returns a finding of a store whose log is damaged."""
        is_rebuild = finding.mend.startswith(self.rebuild)
        return replace(finding, mend=f"{finding.mend}; mend the CommitLog first") if is_rebuild else finding


MOVE_AWAY = "look at what it is, and move it away"
OTHER_FILE = "not one of these files: a broker does not start on it, or takes it for one"
MOVE_OUT = "move the file out of the directory"
LET_READ = "check its owner, its mode and the disk"
RESTORE = "restore this file from a replica or a backup"
RESTORE_MESSAGE = f"{RESTORE}; if the message is right, logdex rebuild derives its entries anew"
CUT_AT_START = "nothing, if these messages may go: a broker's next start cuts the log here"

DAMAGE_TEXTS = {
    "message-crc": "the body's CRC is wrong",
    "message-delay": "the property DELAY is no number: the engine's dispatch stops here",
    "message-lengths": "the message's parts do not add up to its size",
    "message-magic": "no message starts here, and messages follow",
    "message-size": "no possible message size, and messages follow",
    "unreadable": "the bytes from here on cannot be read",
}
"""What is wrong with a message that violates a check of it."""


def check_of(error: CorruptError) -> str:
    """Returns the check that an error of a message violates."""
    if isinstance(error, CrcMismatchError):
        return "message-crc"
    if error.field == "total_size" and not isinstance(error.expected, int):
        return "message-size"
    if error.field == UNREADABLE:
        return "unreadable"
    return {"magic": "message-magic", "DELAY": "message-delay"}.get(error.field or "", "message-lengths")
