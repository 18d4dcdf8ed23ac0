"""By which message a reader that goes on later knows a CommitLog again.

A position says nothing of the log that it is of: another store, or one that was wiped and has grown
again, has other messages before it.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from logdex.errors import CorruptError, MissingFileError, UsageError
from logdex.io.env import Env
from logdex.rocketmq.commit_log.commit_log import CommitLog
from logdex.rocketmq.scan.log_walk import readable, require_message_start
from logdex.rocketmq.settings.store_config import StoreConfig


@dataclass(frozen=True, slots=True)
class ReadMark:
    """A message that was read: its physical offset, and the size and the CRC-32 of all its
    bytes."""

    offset: int
    size_bytes: int
    crc: int
    store_timestamp_ms: int

    @staticmethod
    def at(log: CommitLog, offset: int | None) -> ReadMark | None:
        """Returns the mark of the message at a physical offset, None if no whole one is there."""
        message = None if offset is None else readable(log, offset)
        if offset is None or message is None:
            return None
        try:
            crc = zlib.crc32(log.read(offset, message.size_bytes))
        except (CorruptError, MissingFileError):
            return None
        return ReadMark(offset, message.size_bytes, crc, message.store_timestamp_ms)

    def is_in(self, log: CommitLog) -> bool:
        """Whether the message is still in a log that was listed just now, unless a broker has
        removed it because it was old."""
        return self.offset < log.min_offset or ReadMark.at(log, self.offset) == self

    @staticmethod
    def of_json(given: Mapping[str, Any]) -> ReadMark | None:
        """Returns a mark that was kept as JSON, None if it is not one."""
        numbers = [given.get(each.name) for each in fields(ReadMark)]
        return ReadMark(*numbers) if all(isinstance(each, int) for each in numbers) else None  # type: ignore[arg-type]


def why_another(log: CommitLog, mark: ReadMark | None, position: int, config: StoreConfig, env: Env) -> str | None:
    """Returns why a log cannot be the one that was read up to `position`, where its last message
    was `mark`. Returns None if it is that one, and where nothing shows that it is not: the message
    was removed or is damaged, or no mark was kept."""
    if mark is not None and mark.offset < log.min_offset:
        mark = None
    if mark is not None:
        found = ReadMark.at(log, mark.offset)
        if found == mark:
            return None
        if found is not None:
            return (
                f"at physical offset {mark.offset} is a message of {found.size_bytes} bytes, stored at "
                f"{found.store_timestamp_ms}; the one that was read had {mark.size_bytes} bytes, stored at "
                f"{mark.store_timestamp_ms}, or other content"
            )
    try:
        for offset in ([] if mark is None else [mark.offset]) + [position]:
            require_message_start(log, offset, config, env)
    except UsageError as error:
        return error.message
    return None
