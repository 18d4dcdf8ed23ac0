"""Where a CommitLog ends, found from a message that is known to be near its end instead of by reading all of it.

Importing this does not load the scan kernel; that happens only where the bytes behind the known message are no proper
end. Source: ``docs/formats/commit-log.md``.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from logdex.errors import StoreError
from logdex.io.env import DEFAULT_ENV, Env
from logdex.layout.rocketmq import BLANK, BLANK_MAGIC, SYS_FLAG_PREPARED, SYS_FLAG_ROLLBACK, SYS_FLAG_TRANSACTION_MASK
from logdex.rocketmq.commit_log.commit_log import CommitLog
from logdex.rocketmq.commit_log.log_end import EndKind, LogEnd
from logdex.rocketmq.commit_log.log_hole import hole_before_files, hole_in_file
from logdex.rocketmq.scan.log_walk import newest_start
from logdex.rocketmq.settings.store_config import StoreConfig


@dataclass(slots=True)
class QueueSpan:
    """Queue offsets from `min_offset` to before `max_offset`, and the store times (ms) of the messages there."""

    min_offset: int
    max_offset: int
    begin_timestamp_ms: int
    end_timestamp_ms: int


@dataclass(slots=True)
class LogTail:
    """The end of a log: its physical offset, the kind (`EndKind`'s values) and the reason in words. `queues` are those
    that a scan has met, none where there was no need for one."""

    end_offset: int
    end: str
    reason: str
    is_clean: bool = True
    last_store_timestamp_ms: int | None = None
    queues: dict[tuple[bytes, int], QueueSpan] = field(default_factory=dict)
    messages: int | None = None
    """All messages of the log, where it was scanned from its start."""


def find_log_tail(log: CommitLog, known_offset: int | None, config: StoreConfig, *, env: Env = DEFAULT_ENV) -> LogTail:
    """The end of `log`, looked for from the message at physical offset `known_offset` on, from the start where that is
    None or no message is there."""
    if known_offset is not None:
        try:
            message = log.read_message(known_offset)
        except StoreError:
            return scan_log_tail(log, newest_start(log, ()), config, env=env)
        behind = known_offset + message.size_bytes
        at_end = _clean_end(log, behind, env)
        if at_end is not None:
            at_end.last_store_timestamp_ms = message.store_timestamp_ms
            return at_end
    return scan_log_tail(log, known_offset, config, env=env)


def _clean_end(log: CommitLog, offset: int, env: Env) -> LogTail | None:
    """The end at `offset` if nothing at all was written there."""
    file = log.file_of(offset)
    if file is None:
        last = log.files[-1]
        if log.gaps() or offset != last.start_offset + (log.file_size_bytes if last.size_bytes else 0):
            return None
        return LogTail(offset, "end of files", "the last file is full")
    head = log.read(offset, min(BLANK.size_bytes, file.end_offset - offset))
    if not any(head):
        end = LogEnd(EndKind.ZEROS, offset, file.path, offset - file.start_offset, "nothing was written from here on")
        with env.map_read(file.path) as mapped:
            end = hole_before_files(log, hole_in_file(end, mapped.array))
        return LogTail(offset, end.kind.value, end.reason, end.is_clean)
    if int.from_bytes(head[4:8], "big") != BLANK_MAGIC:
        return None
    following = file.start_offset + log.file_size_bytes
    if following == log.files[-1].start_offset:
        empty = not log.files[-1].size_bytes
        return None if empty else _clean_end(log, following, env)
    return None


def scan_log_tail(log: CommitLog, start_offset: int | None, config: StoreConfig, *, env: Env = DEFAULT_ENV) -> LogTail:
    """The end of `log` by a scan from the message at `start_offset` (default: the first) on."""
    from logdex.rocketmq.scan.scanner import Scanner

    scanner = Scanner(config, env=env)
    queues: dict[tuple[bytes, int], QueueSpan] = {}
    last_ms = None
    for window in scanner.scan(log, start_offset):
        columns, count = window.columns, window.count
        last_ms = int(columns.store_timestamp_ms[count - 1])
        kind = columns.sys_flag[:count] & SYS_FLAG_TRANSACTION_MASK
        queued = np.flatnonzero((kind != SYS_FLAG_PREPARED) & (kind != SYS_FLAG_ROLLBACK))
        numbers = columns.queue[:count][queued]
        order = np.argsort(numbers, kind="stable")
        for group in np.split(queued[order], np.flatnonzero(np.diff(numbers[order])) + 1) if len(queued) else ():
            name = scanner.table.queues[int(columns.queue[group[0]])]
            offsets, times = columns.queue_offset[group], columns.store_timestamp_ms[group]
            span = queues.setdefault(tuple(name), QueueSpan(int(offsets.min()), 0, int(times[0]), 0))  # type: ignore[arg-type]
            span.min_offset = min(span.min_offset, int(offsets.min()))
            span.max_offset = max(span.max_offset, int(offsets.max()) + 1)
            span.end_timestamp_ms = int(times[-1])
    end = scanner.end
    assert end is not None  # the scan ran to its end
    messages = scanner.messages if start_offset is None else None
    return LogTail(end.offset, end.kind.value, end.reason, end.is_clean, last_ms, queues, messages)
