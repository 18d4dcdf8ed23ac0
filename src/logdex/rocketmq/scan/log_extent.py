"""The extent of a CommitLog: where it ends, and what a scan found before the end.

The end is searched from a message that is known to be near it, so that the whole log need not be
read. Importing this module does not load the scan kernel. The kernel is loaded only if more than a
few messages follow the known one, or if the bytes after them are damaged.

Source: ``docs/formats/commit-log.md``.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import numpy as np

from logdex.io.env import DEFAULT_ENV, Env
from logdex.layout.rocketmq import SYS_FLAG_PREPARED, SYS_FLAG_ROLLBACK, SYS_FLAG_TRANSACTION_MASK
from logdex.rocketmq.commit_log.commit_log import CommitLog
from logdex.rocketmq.commit_log.log_end import LogEnd
from logdex.rocketmq.scan.log_walk import STEPS_MAX, newest_start, walk
from logdex.rocketmq.settings.store_config import StoreConfig


@dataclass(slots=True)
class QueueSpan:
    """Queue offsets from `min_offset` to before `max_offset`, and the store times of the first and
    last message there, in milliseconds."""

    min_offset: int
    max_offset: int
    begin_timestamp_ms: int
    end_timestamp_ms: int


@dataclass(slots=True)
class LogExtent:
    """Where a log ends, and the store time of its last message in milliseconds; None if no message
    was read. `queues` are those that a scan found, empty if none was needed."""

    end: LogEnd
    last_store_timestamp_ms: int | None = None
    queues: dict[tuple[bytes, int], QueueSpan] = field(default_factory=dict)
    messages: int | None = None
    """The number of messages of the log, if it was scanned from its start."""


def find_valid_end(
    log: CommitLog, known: Iterable[int], config: StoreConfig, *, look_behind: bool = True, env: Env = DEFAULT_ENV
) -> LogExtent:
    """Returns the end of `log`. The search begins at the newest of the `known` offsets where a
    message begins, or else at the start of the newest file that begins with a message.

    Messages before that place are not read. So this is the end after any damage there, while a scan
    of the whole log ends at the first damage. Without `look_behind`, bytes after zeros are not
    read, and a hole is reported as zeros; this is enough if only the offset of the end is needed.
    """
    at, last_ms, last = newest_start(log, known), None, None
    steps = walk(log, at, config, env, look_behind=look_behind)
    for _ in range(STEPS_MAX):
        try:
            offset, message = next(steps)
        except StopIteration as stop:
            at, end = stop.value
            if end is not None:
                return LogExtent(replace(end, last_message=last), last_ms)
            break
        at, last_ms, last = offset + message.size_bytes, message.store_timestamp_ms, offset
    extent = scan_extent(log, at, config, env=env)
    if extent.last_store_timestamp_ms is None:
        extent.last_store_timestamp_ms = last_ms
        extent.end = replace(extent.end, last_message=last)
    return extent


def scan_extent(log: CommitLog, start_offset: int | None, config: StoreConfig, *, env: Env = DEFAULT_ENV) -> LogExtent:
    """Returns the extent of `log` by a scan from the message at `start_offset` (default: the first
    message)."""
    from logdex.rocketmq.scan.scanner import Scanner

    scanner = Scanner(config, env=env)
    queues: dict[tuple[bytes, int], QueueSpan] = {}
    last_ms = last = None
    for window in scanner.scan(log, start_offset):
        columns, count = window.columns, window.count
        last_ms, last = int(columns.store_timestamp_ms[count - 1]), int(columns.position[count - 1])
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
    end = replace(end, last_message=last)
    return LogExtent(end, last_ms, queues, scanner.messages if start_offset is None else None)
