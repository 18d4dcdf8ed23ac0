"""Where a pass over a log stopped because no message follows in a file, and what is there."""

from __future__ import annotations

from dataclasses import dataclass

from logdex.layout.rocketmq import BLANK
from logdex.rocketmq.commit_log.commit_log import CommitLogFile
from logdex.rocketmq.commit_log.log_end import EndKind, LogEnd
from logdex.rocketmq.scan.log_bytes import LogBytes


@dataclass(frozen=True, slots=True)
class Stop:
    """A place where the scan stopped, and what the bytes from there on are."""

    end: LogEnd
    file: CommitLogFile
    stray: int | None
    """The position of the first byte from there on that is not zero."""
    is_cut: bool
    """Whether the message is cut short by the end of the file or by zeros."""

    @staticmethod
    def of(file: CommitLogFile, end: LogEnd, data: LogBytes) -> Stop:
        """Returns the stop at a place behind which nothing can be read in this file."""
        at = end.position
        stray = data.first_nonzero(at)
        last = data.last_nonzero(at)
        # A message without properties ends with two zero bytes of its own.
        size = data.number(at, 4) if data.size - at >= 4 else 0
        is_cut = end.kind is EndKind.TORN or (last is not None and last < at + size - BLANK.size_bytes)
        return Stop(end, file, stray, is_cut and not end.is_unreadable)
