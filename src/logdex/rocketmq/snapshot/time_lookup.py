"""Look-ups of queue offsets by time in a store of which a broker may remove old files meanwhile."""

from __future__ import annotations

from functools import partial

from logdex.io.env import Env
from logdex.rocketmq.commit_log.commit_log import CommitLog
from logdex.rocketmq.consume_queue.offset_by_time import Boundary, QueueBounds, offset_in_queue_by_time
from logdex.rocketmq.read.get_message import QueueView
from logdex.rocketmq.settings.dialect import Dialect


def offset_by_time(
    view: QueueView, log: CommitLog, timestamp_ms: int, boundary: Boundary, dialect: Dialect, env: Env
) -> int:
    """Returns what `offset_in_queue_by_time` returns for the queue of `view`. If a broker removes
    files of the log or of the queue meanwhile, both begin behind them."""
    queue, end = view.queue, view.log_end_offset

    def look() -> int:
        log_min = _first_that_is_there(log, env)
        now = QueueView.of(queue, log_min, end)
        return offset_in_queue_by_time(
            queue,
            timestamp_ms,
            partial(_store_timestamp_ms, log, log_min, end),
            QueueBounds(now.min_offset, now.max_offset, log_min),
            boundary=boundary,
            dialect=dialect,
            modified_ms=lambda path: env.modified_ns(path) // 1_000_000,
        )

    return queue.steadily(look)


def _first_that_is_there(log: CommitLog, env: Env) -> int:
    """Returns the physical offset at which the first listed file begins that is still there."""
    there = (file.start_offset for file in log.files if env.exists(file.path))
    return next(there, log.end_offset)


def _store_timestamp_ms(log: CommitLog, log_min: int, end: int, phy_offset: int, size_bytes: int) -> int:
    if not log_min <= phy_offset <= end - size_bytes:
        return -1
    return log.pickup_store_timestamp_ms(phy_offset, size_bytes)
