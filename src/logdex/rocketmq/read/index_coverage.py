"""Finds the parts of the CommitLog that hold messages with keys but are covered by no IndexFile.

IndexFiles are missing after an unclean shutdown, after files were deleted, or after the CommitLog
was reset. The missing range then lies before the first file, between two files or after the last
one. Few reads are needed: the messages at the edges of each file, and what lies between files.

Source: ``docs/formats/index-file.md``; IndexService.load.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from logdex.io.env import Env
from logdex.rocketmq.commit_log.commit_log import CommitLog
from logdex.rocketmq.index_file.index_file import IndexFile
from logdex.rocketmq.index_file.index_keys import message_key_hashes
from logdex.rocketmq.message.stored_message import StoredMessage
from logdex.rocketmq.read.results import OffsetRange
from logdex.rocketmq.scan.log_walk import STEPS_MAX, readable, walk
from logdex.rocketmq.settings.store_config import StoreConfig

if TYPE_CHECKING:
    from logdex.rocketmq.scan.scanner import LogEnd, Scanner, Window


@dataclass(frozen=True, slots=True)
class _Covered:
    """The part of the log that one file covers, as physical offsets: from the message at `begin` to
    before `end`. The first message ends at `begin_end`, the last one begins at `last`.
    `is_whole_first` and `is_whole_last` state whether all keys of that message are in this file."""

    begin: int
    end: int
    begin_end: int
    last: int
    is_whole_first: bool
    is_whole_last: bool


def find_missing(
    files: list[IndexFile], log: CommitLog, valid_end: int, config: StoreConfig, env: Env
) -> tuple[OffsetRange, ...]:
    """Returns the missing ranges in order. Each begins at a message with keys, and ends where the
    next file begins or at `valid_end`, the end of the log.

    Raises the errors of reading the files and the log.
    """
    covered = [part for part in (_covered(file, log, valid_end, config) for file in files) if part is not None]
    covered.sort(key=lambda part: (part.begin, part.end))
    missing: list[OffsetRange] = []
    at, last, is_whole = log.min_offset, -1, True
    for part in covered:
        if part.begin != last:  # else the message's keys lie in both files
            end = part.begin if part.is_whole_first else part.begin_end
            missing += _with_keys(log, at if is_whole else last, end, config, env)
        if part.end >= at:
            at, last, is_whole = part.end, part.last, part.is_whole_last
    missing += _with_keys(log, at if is_whole else last, valid_end, config, env)
    return tuple(missing)


def _covered(file: IndexFile, log: CommitLog, valid_end: int, config: StoreConfig) -> _Covered | None:
    """Returns what a file covers, or None if it covers nothing of this log: it has no entries, all
    of them have expired, or it belongs to another log."""
    count = min(file.header.index_count, file.max_index_num) - 1
    low, high = log.min_offset, valid_end
    first = _search(file, count, low)
    last = _search(file, count, high) - 1
    if first > last:
        return None
    begins, ends = (_message_of(file, index, log, config) for index in (first, last))
    if begins is None or ends is None:
        return None
    begin, end = file.read_entry(first).phy_offset, file.read_entry(last).phy_offset
    return _Covered(
        low if first > 1 else begin,
        end + ends.size_bytes,
        begin + begins.size_bytes,
        end,
        first > 1 or _holds_all(file, 1, 1, begin, count, begins, config),
        last < count or not file.is_write_full or _holds_all(file, count, -1, end, count, ends, config),
    )


def _search(file: IndexFile, count: int, offset: int) -> int:
    """Returns the first of the entries 1 to `count` that points to `offset` or a higher one, or
    `count` + 1 if none does."""
    low, high = 1, count + 1
    if count and file.read_entry(1).phy_offset >= offset:
        return 1
    if count and file.read_entry(count).phy_offset < offset:
        return count + 1
    while low < high:
        middle = (low + high) // 2
        if file.read_entry(middle).phy_offset < offset:
            low = middle + 1
        else:
            high = middle
    return low


def _message_of(file: IndexFile, index: int, log: CommitLog, config: StoreConfig) -> StoredMessage | None:
    """Returns the message that an entry points to, or None unless the entry's hash is that of one
    of its keys."""
    entry = file.read_entry(index)
    message = readable(log, entry.phy_offset)
    if message is None:
        return None
    hashes = message_key_hashes(message, replace(config.dialect, tags_in_index=True, prepared_in_index=True))
    return message if entry.key_hash in hashes else None


def _holds_all(
    file: IndexFile, start: int, step: int, offset: int, count: int, message: StoredMessage, config: StoreConfig
) -> bool:
    """Whether as many entries as the message has keys point to it, counted from entry `start`
    on."""
    wanted = len(message_key_hashes(message, config.dialect))
    for index in range(start, start + step * wanted, step):
        if not 1 <= index <= count or file.read_entry(index).phy_offset != offset:
            return False
    return True


def _with_keys(log: CommitLog, begin: int, end: int, config: StoreConfig, env: Env) -> list[OffsetRange]:
    """Returns [begin, end) shortened to begin at its first message with keys, or nothing if it has
    none."""
    if begin >= end:
        return []
    steps = walk(log, begin, config, env, look_behind=False)
    for _ in range(STEPS_MAX):
        try:
            offset, message = next(steps)
        except StopIteration:
            return [(begin, end)]  # not readable up to the end: it may hold keys
        if offset >= end:
            return []
        if message_key_hashes(message, config.dialect):
            return [(offset, end)]
        begin = offset + message.size_bytes
        if begin >= end:
            return []
    from logdex.rocketmq.scan.scanner import LogEnd, Scanner

    scanner = Scanner(config, check_crc=False, env=env)
    for part in scan_range(scanner, log, begin, end):
        if isinstance(part, LogEnd):
            return [(part.offset, end)]
        if part.key_count:
            first = int(np.argmax(part.columns.key_end[: part.count] > 0))
            return [(int(part.columns.position[first]), end)]
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
