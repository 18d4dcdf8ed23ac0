"""By which message a reader that goes on later knows a CommitLog again.

A position says nothing of the log that it is of: another store, or one that was wiped and has grown
again, has other messages before it.
"""

from __future__ import annotations

import zlib
from bisect import bisect_left
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple, TypeVar

from logdex.errors import CorruptError, MissingFileError, StoreError, UnreadableError, UsageError
from logdex.io.env import Env
from logdex.rocketmq.commit_log.commit_log import CommitLog
from logdex.rocketmq.commit_log.log_end import EndKind, LogEnd
from logdex.rocketmq.message.stored_message import StoredMessage
from logdex.rocketmq.scan.log_walk import readable, require_message_start
from logdex.rocketmq.settings.store_config import StoreConfig

T = TypeVar("T")

SEEN_MAX = 4096


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
        return self.offset < log.min_offset or ReadMark.at(log, self.offset) == self or log.has_expired(self.offset)

    @staticmethod
    def of_json(given: Mapping[str, Any]) -> ReadMark | None:
        """Returns a mark that was kept as JSON, None if it is not one."""
        numbers = [given.get(each.name) for each in fields(ReadMark)]
        return ReadMark(*numbers) if all(isinstance(each, int) for each in numbers) else None  # type: ignore[arg-type]


def is_gone(mark: ReadMark | None, open_log: Callable[[], CommitLog]) -> bool:
    """Whether a log, which `open_log` lists anew, does not have a message any more that was read,
    because a broker has cut it. Without a mark, and where the log cannot be read, it is not."""
    if mark is not None:
        with suppress(StoreError), open_log() as log:
            return not mark.is_in(log)
    return False


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


def thinned(marks: list[T], most: int) -> list[T]:
    """Returns marks, the oldest first. Of the older half of more than `most`, every second one is
    kept, and always the first."""
    return marks if len(marks) <= most else marks[: most // 2 : 2] + marks[most // 2 :]


class ScanEnd:
    """Where a log ends when a scan begins, so that it does not run after a broker that writes on,
    and the mark of the message before it, by which the scan notices that a broker has cut the log.

    `log` is listed as the scan sees it, and stays so. `open_log` lists it anew, and `find_end`
    returns where the scan's log ends."""

    def __init__(
        self, log: CommitLog, upto: LogEnd, open_log: Callable[[], CommitLog], find_end: Callable[[], LogEnd]
    ) -> None:
        self.upto = upto
        self._mark = ReadMark.at(log, upto.last_message)
        self._open_log, self._find_end = open_log, find_end

    def reached(self, found: LogEnd | None = None) -> LogEnd | None:
        """Returns where the log ends for a scan that has come to `upto`, or has found this end
        before. Returns None if that cannot be read. If the log was cut meanwhile, the scan may have
        read old messages in front of new ones, and the end says so."""
        if is_gone(self._mark, self._open_log):
            reason = "the log was cut while it was read: what was read may be of two logs, read it again"
            return replace(self.upto, kind=EndKind.CUT, reason=reason)
        if found is None:
            with suppress(StoreError):  # whoever reads on meets it
                return self._find_end()
        return found


class _Seen(NamedTuple):
    offset: int
    end: int
    content: int | None
    """The hash of the message, None if it was no longer there."""


class SeenMessages:
    """By which messages a reader that follows a log notices that a broker has cut it, as one does
    that recovers, also where the log has grown again since: all of the newest that were read, fewer
    and fewer of the older ones, and always the first."""

    def __init__(self, log: CommitLog) -> None:
        self._log = log
        self._seen: list[_Seen] = []
        self._last: _Seen | None = None
        """The last message of the log at the last look, whether it was read or not."""

    def add(self, offset: int, message: StoredMessage) -> None:
        """Adds a message that was read. Of the older half of too many, every second one is kept."""
        self._add(_Seen(offset, offset + message.size_bytes, hash(message)))

    def _add(self, seen: _Seen) -> None:
        place = bisect_left(self._seen, seen.offset, key=lambda each: each.offset)
        if all(each.offset != seen.offset for each in self._seen[place : place + 1]):
            self._seen.insert(place, seen)
        self._seen = thinned(self._seen, SEEN_MAX)

    def look(self, end: LogEnd) -> int | None:
        """Looks at the log before it is read up to `end`. Returns the offset behind the newest
        message that is still there if the log was cut, 0 if none is, and None if it was not cut."""
        last, goes_on_at = None, None
        if end.last_message is not None:  # read before the others, which then notice a cut before this
            message = readable(self._log, end.last_message)
            last = _Seen(end.last_message, end.offset, None if message is None else hash(message))
        if self.is_cut():
            # What was read while the log was cut is of both: the first one that is gone decides.
            gone = (place for place, seen in enumerate(self._seen) if not self._is_there(seen))
            del self._seen[next(gone, len(self._seen)) :]
            goes_on_at = self._seen[-1].end if self._seen else 0
        elif self._last is not None:
            self._add(self._last)
        self._last = last
        return goes_on_at

    def is_cut(self) -> bool:
        """Whether the last message that was read, or that the log had at the last look, is
        gone."""
        return not all(map(self._is_there, {*self._seen[-1:], *([] if self._last is None else [self._last])}))

    def _is_there(self, seen: _Seen) -> bool:
        """Whether a message is as it was read, or was removed with the oldest files, or cannot be
        read at all, which is no cut."""
        try:
            message = readable(self._log, seen.offset)
        except UnreadableError:
            return True
        if message is not None and hash(message) == seen.content:
            return True
        return seen.offset < self._log.min_offset or self._log.has_expired(seen.offset)
