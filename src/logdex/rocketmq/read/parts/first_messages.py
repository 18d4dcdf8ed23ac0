"""Finds where the first so many messages of a part of a log end, or how many there are, without
reading their bodies."""

from __future__ import annotations

import numpy as np

from logdex.io.env import DEFAULT_ENV, Env
from logdex.rocketmq.commit_log.commit_log import CommitLog
from logdex.rocketmq.settings.store_config import StoreConfig


def end_of_first(
    log: CommitLog,
    config: StoreConfig,
    begin: int,
    end: int,
    *,
    messages: int | None = None,
    size_bytes: int | None = None,
    env: Env = DEFAULT_ENV,
) -> int:
    """Returns the physical offset behind the first messages in [`begin`, `end`): at most so many,
    and at most so many bytes from `begin` on, but at least one message. A message begins at
    `begin`.

    Returns `end` if that is nearer. What lies behind damage in a file belongs to the message before
    it, because where messages begin there is found only by reading.
    """
    from logdex.rocketmq.scan.scanner import Scanner

    scanner = Scanner(config, check_crc=False, env=env, unreadable_is_damage=True)
    left = end - begin if messages is None else messages
    limit = end if size_bytes is None else min(begin + size_bytes, end)
    is_first = True
    for file in log.files:
        if file.end_offset <= begin or file.start_offset >= end:
            continue
        start = max(begin, file.start_offset) - file.start_offset
        for window in scanner.scan_file(file, start, min(end - file.start_offset, file.size_bytes)):
            columns, count = window.columns, window.count
            ends = columns.position[:count] + columns.size[:count]
            taken = min(int(np.searchsorted(ends, limit, side="right")), left)
            if is_first:
                taken = max(taken, 1)
            if taken < count:
                return int(ends[taken - 1]) if taken else int(columns.position[0])
            left -= count
            is_first = False
        if left <= 0:
            return min(file.start_offset + scanner.stopped_at, end)
    return end


def count_messages(log: CommitLog, config: StoreConfig, begin: int, end: int, most: int, env: Env = DEFAULT_ENV) -> int:
    """Returns how many messages there are in [`begin`, `end`), at most `most`, without those that
    lie behind damage in their file. A message begins at `begin`."""
    from logdex.rocketmq.scan.scanner import Scanner

    scanner = Scanner(config, check_crc=False, env=env, unreadable_is_damage=True)
    counted = 0
    for file in log.files:
        if file.end_offset <= begin or file.start_offset >= end:
            continue
        start = max(begin, file.start_offset) - file.start_offset
        for window in scanner.scan_file(file, start, min(end - file.start_offset, file.size_bytes)):
            counted += window.count
            if counted >= most:
                return most
    return counted
