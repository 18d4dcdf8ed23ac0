"""A part of a CommitLog file, for work that is divided into tasks."""

from __future__ import annotations

from dataclasses import dataclass

from logdex.io.env import Env
from logdex.io.mapped.mapping import take_unreadable
from logdex.rocketmq.commit_log.commit_log import CommitLogFile
from logdex.rocketmq.scan.log_bytes import LogBytes
from logdex.rocketmq.scan.resume import find_first


@dataclass(frozen=True, slots=True)
class ScanPart:
    """The messages that begin in bytes [`begin`, `stop`) of a file. `found` states that a message
    or the file begins at `begin`."""

    file: CommitLogFile
    begin: int
    stop: int
    found: bool

    @property
    def size_bytes(self) -> int:
        """The size of the part."""
        return self.stop - self.begin

    def first_message(self, env: Env) -> int | None:
        """Returns the byte of the first message, or the filler, that is found in the part; None if
        none is found near its begin."""
        if self.found:
            return self.begin
        with env.map_read(self.file.path) as mapped:
            first = find_first(LogBytes(mapped.array, self.file.start_offset), self.begin, self.stop)
            take_unreadable(mapped.array)  # the scan reports what cannot be read
        return first
