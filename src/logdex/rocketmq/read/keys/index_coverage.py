"""Finds the parts of the CommitLog that hold messages with keys but are covered by no IndexFile.

IndexFiles are missing after an unclean shutdown, after files were deleted, or after the CommitLog
was reset. The missing range then lies before the first file, between two files or after the last
one. A range within a file is missing if entries there contradict the log (see `index_probe`). A
bounded number of entries of each file is read, and what lies between the parts that they cover.

Source: ``docs/formats/index-file.md``; IndexService.load.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from operator import itemgetter
from typing import TYPE_CHECKING

import numpy as np

from logdex.errors import UnreadableError, VanishedError
from logdex.io.env import Env
from logdex.rocketmq.commit_log.commit_log import CommitLog
from logdex.rocketmq.index_file.index_file import IndexFile
from logdex.rocketmq.index_file.index_keys import message_key_hashes
from logdex.rocketmq.read.keys.index_probe import CoveredPart, IndexProbe, looks_for
from logdex.rocketmq.read.results import OffsetRange
from logdex.rocketmq.scan.log_walk import STEPS_MAX, walk
from logdex.rocketmq.settings.store_config import StoreConfig

if TYPE_CHECKING:
    from logdex.rocketmq.scan.scanner import LogEnd, Scanner
    from logdex.rocketmq.scan.window import Window


class KeylessParts:
    """Parts of a CommitLog in which no message with keys begins, apart from each other and in
    order."""

    def __init__(self, parts: Iterable[OffsetRange] = ()) -> None:
        self.parts: list[OffsetRange] = []
        for begin, end in sorted(parts):
            if self.parts and begin <= self.parts[-1][1]:
                self.parts[-1] = self.parts[-1][0], max(end, self.parts[-1][1])
            elif begin < end:
                self.parts.append((begin, end))

    def behind(self, offset: int) -> int:
        """Returns where to go on at a physical offset: behind the part in which it lies."""
        place = bisect_right(self.parts, offset, key=itemgetter(0)) - 1
        return max(offset, self.parts[place][1]) if place >= 0 else offset

    def add(self, begin: int, end: int) -> None:
        """Adds [begin, end)."""
        self.parts = KeylessParts([*self.parts, (begin, end)]).parts


def find_missing(
    files: list[IndexFile],
    log: CommitLog,
    valid_end: int,
    config: StoreConfig,
    env: Env,
    *,
    tags: bool = False,
    keyless: KeylessParts | None = None,
) -> tuple[OffsetRange, ...]:
    """Returns the missing ranges in order. Each begins at a message with keys, and ends where the
    files go on or at `valid_end`, the end of the log. With `tags`, a message's tag is a key too.
    Parts of the log that are known to be `keyless` are not read, and those that a scan finds to be
    so are added to them.

    A range that the disk cannot read is missing. Raises the errors of reading the files and the
    log.
    """
    keyless = keyless or KeylessParts()
    dialect, config = config.dialect, replace(config, dialect=replace(config.dialect, tags_in_index=tags))
    looks = looks_for(len(files))
    covered: list[CoveredPart] = []
    for file in files:
        with suppress(VanishedError):  # a broker has removed it since it was listed, so it covers nothing
            covered += IndexProbe(file, log, dialect, tags=tags).parts(log.min_offset, valid_end, looks)
    covered.sort(key=lambda part: (part.first.offset, part.last.end))
    missing: list[OffsetRange] = []
    at, offset = log.min_offset, -1  # covered up to `at`, but for the last message, at `offset`, if it lacks keys
    lacking: frozenset[int] = frozenset()
    for first, last in ((part.first, part.last) for part in covered):
        if last.end < at:
            continue
        if first.offset < offset:  # another file covers the same
            lacking = last.lacking & lacking if last.end == at else last.lacking
        else:
            begin = offset if lacking else at
            lacking = first.lacking & lacking if first.offset == offset else first.lacking
            is_one = first.offset == last.offset
            end = first.end if lacking and not is_one else first.offset
            missing += _with_keys(log, keyless.behind(begin), end, config, env, keyless)
            lacking = lacking if is_one else last.lacking
        at, offset = last.end, last.offset
    missing += _with_keys(log, keyless.behind(offset if lacking else at), valid_end, config, env, keyless)
    return tuple(_held(log, missing))


def _held(log: CommitLog, missing: list[OffsetRange]) -> Iterator[OffsetRange]:
    """Yields what is left of some ranges if a broker has removed files of the log since it was
    listed."""
    starts = [file.start_offset for file in log.files]
    is_there = False  # from the first byte on that is, all are
    for begin, end in missing:
        while begin < end and not is_there:
            is_there = not log.was_trimmed(begin)
            begin = begin if is_there else next((start for start in starts if start > begin), end)
        if begin < end:
            yield begin, end


def _with_keys(
    log: CommitLog, begin: int, end: int, config: StoreConfig, env: Env, keyless: KeylessParts
) -> list[OffsetRange]:
    """Returns [begin, end) shortened to begin at its first message with keys, or nothing if it has
    none."""
    if begin >= end:
        return []
    start = begin
    steps = walk(log, begin, config, env, look_behind=False)
    for _ in range(STEPS_MAX):
        try:
            offset, message = next(steps)
        except (StopIteration, UnreadableError):
            return [(begin, end)]  # not readable up to the end: it may hold keys
        if offset >= end:
            return []
        if message_key_hashes(message, config.dialect):
            return [(offset, end)]
        begin = offset + message.size_bytes
        if begin >= end:
            return []
    from logdex.rocketmq.scan.scanner import LogEnd, Scanner

    scanner = Scanner(config, check_crc=False, env=env, unreadable_is_damage=True)
    for part in scan_range(scanner, log, begin, end):
        if isinstance(part, LogEnd):
            return [(part.offset, end)]
        if part.key_count:
            first = int(np.argmax(part.columns.key_end[: part.count] > 0))
            return [(int(part.columns.position[first]), end)]
    keyless.add(start, end)
    return []


def scan_range(scanner: Scanner, log: CommitLog, begin: int, end: int) -> Iterator[Window | LogEnd]:
    """Yields windows of the messages that begin in [begin, end), file by file. If a file cannot be
    read further, its `LogEnd` is yielded in place of the rest of the file. Missing files are
    skipped."""
    for file in log.files:
        if file.end_offset <= begin or file.start_offset >= end:
            continue
        stop = min(end - file.start_offset, file.size_bytes)
        stopped = yield from scanner.scan_file(file, max(begin - file.start_offset, 0), stop)
        if stopped is not None and stopped.offset < end:
            yield stopped
