"""Figures of an open store: what it counts while it works, and as numbers or Prometheus text when
it is asked.

Source: StoreStatsService; DefaultMessageStore.asyncPutMessage (the warning of a slow put).
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from itertools import accumulate
from typing import ParamSpec

from logdex.errors import StoreError
from logdex.rocketmq.message_store.put.message import PutMessageResult, PutMessageStatus
from logdex.rocketmq.read.results import GetColumnsResult, GetMessageResult, GetMessageStatus

SLOW_PUT_S = 0.5
"""A put that takes longer is logged."""
AT_ONCE_S = 0.001
"""What is faster counts as 0 ms, as for the engine, whose clock has milliseconds."""
_BOUNDS_MS = (0, 10, 50, 100, 200, 500, 1_000, 2_000, 3_000, 4_000, 5_000, 10_000)
"""The upper bounds of the engine's distribution of put times; longer times follow."""
_log = logging.getLogger(__name__)
_log.addHandler(logging.NullHandler())  # slow puts are counted: who wants lines about them configures logging
P = ParamSpec("P")


@dataclass(frozen=True, slots=True)
class StoreStats:
    """Figures of an open store since it was opened. Times are in seconds, lags in bytes of the
    CommitLog."""

    puts: int
    """Puts that were stored; a batch or a table is one."""
    put_messages: int
    put_bytes: int
    """How far the log has grown, the filler at the end of files included."""
    puts_failed: dict[str, int]
    """Puts that were not stored, by status; ``ERROR`` are those that raised an error of the
    disk."""
    put_times: dict[str, int]
    """How many stored puts took how long, by the upper bound in milliseconds, as the engine
    counts. The Prometheus text has for each bound the number of all that took less, too."""
    put_seconds_max: float
    slow_puts: int
    """Puts of more than half a second. Each is logged as a warning."""
    flushes: int
    """How often the CommitLog's last file was synced."""
    flush_seconds: float
    flush_seconds_max: float
    dispatch_behind_bytes: int
    """How many bytes of the log are not dispatched now."""
    dispatch_behind_bytes_max: int
    """The most that were not dispatched when a batch of the dispatch began."""
    dispatch_passed_over: int
    """Messages with a wrong size, which the dispatch passed over. Each is logged as a warning."""
    flush_behind_bytes: int
    """How many bytes of the log are not on disk now."""
    gets_found: int
    gets_missed: int
    """Reads of a queue that found nothing."""
    get_messages: int
    get_seconds_max: float
    delayed_delivered: int
    delayed_passed_over: int
    """Entries of delayed messages without a message that can be delivered."""

    def prometheus(self) -> str:
        """The figures as Prometheus reads them: its text format, version 0.0.4."""
        return "".join(_metric(each.name, getattr(self, each.name)) for each in fields(self))


_GAUGES = frozenset({"dispatch_behind_bytes", "flush_behind_bytes"})
_LABELS = {"puts_failed": "status", "put_times": "at_most_ms"}


def _metric(name: str, value: float | dict[str, int]) -> str:
    is_gauge = name in _GAUGES or name.endswith("_max")
    full = f"logdex_store_{name}" + ("" if is_gauge else "_total")
    lines = [f"# TYPE {full} {'gauge' if is_gauge else 'counter'}"]
    if isinstance(value, dict):
        if name == "put_times":  # as Prometheus counts: each bound with all that took less
            value = dict(zip(value, accumulate(value.values()), strict=True))
        lines += [f'{full}{{{_LABELS[name]}="{key}"}} {each}' for key, each in value.items()]
    else:
        lines.append(f"{full} {value}")
    return "".join(f"{line}\n" for line in lines)


class StoreStatsService:
    """Counts what a store does. Thread-safe: `puts` and `more_messages` are changed with the
    store's lock held, the rest with an own lock. A put costs little here unless it is slow or
    fails."""

    def __init__(self, begin_offset: int) -> None:
        self.begin_offset = begin_offset
        self.puts = 0
        self.more_messages = 0
        """Stored messages beyond one per put."""
        self.behind_max = 0
        self.passed_over = self.delivered = self.dispatch_passed_over = 0
        self._lock = threading.Lock()
        self._failed: Counter[str] = Counter()
        self._times = [0] * (len(_BOUNDS_MS) + 1)
        self._put_max_s = self._get_max_s = self._flush_s = self._flush_max_s = 0.0
        self._slow = self._flushes = self._found = self._missed = self._messages = 0

    # -- puts -------------------------------------------------------------------------------------
    def timed(self, put: Callable[P, PutMessageResult], *args: P.args, **kwargs: P.kwargs) -> PutMessageResult:
        """Calls a function that puts, and counts its time and outcome."""
        begin_s = time.perf_counter()
        try:
            result = put(*args, **kwargs)
        except StoreError:
            self.put_failed("ERROR")
            raise
        seconds = time.perf_counter() - begin_s
        if seconds >= AT_ONCE_S or result.status is not PutMessageStatus.PUT_OK:
            self.put_ended(seconds, result)
        return result

    def put_ended(self, seconds: float, result: PutMessageResult) -> None:
        """Counts a put that was slow or not stored. All others are known from their number."""
        if not result.is_stored:
            self.put_failed(result.status.value)
        elif seconds >= AT_ONCE_S:
            with self._lock:
                ms = seconds * 1000
                self._times[next((at for at, bound in enumerate(_BOUNDS_MS) if ms < bound), len(_BOUNDS_MS))] += 1
                self._put_max_s = max(self._put_max_s, seconds)
                self._slow += seconds > SLOW_PUT_S
            if seconds > SLOW_PUT_S:
                _log.warning("a put took %.3f s, %d bytes", seconds, result.size_bytes)

    def put_failed(self, status: str) -> None:
        """Counts a put that was not stored."""
        with self._lock:
            self._failed[status] += 1

    # -- the rest ---------------------------------------------------------------------------------
    def flush(self, sync: Callable[[], None]) -> None:
        """Calls an fsync of the log, and counts its time."""
        begin_s = time.perf_counter()
        sync()
        seconds = time.perf_counter() - begin_s
        with self._lock:
            self._flushes += 1
            self._flush_s += seconds
            self._flush_max_s = max(self._flush_max_s, seconds)

    @contextmanager
    def getting(self) -> Iterator[list[GetMessageResult | GetColumnsResult]]:
        """Counts a read of a queue, whose result is put into the list."""
        begin_s, results = time.perf_counter(), list[GetMessageResult | GetColumnsResult]()
        yield results
        seconds = time.perf_counter() - begin_s
        with self._lock:
            self._get_max_s = max(self._get_max_s, seconds)
            for result in results:
                is_found = result.status is GetMessageStatus.FOUND
                self._found += is_found
                self._missed += not is_found
                self._messages += result.message_count

    def snapshot(self, *, end_offset: int, durable_offset: int, behind_bytes: int) -> StoreStats:
        """The figures now."""
        with self._lock:
            slower = sum(self._times)
            times = dict(zip([*map(str, _BOUNDS_MS), "+Inf"], self._times, strict=True))
            return StoreStats(
                puts=self.puts,
                put_messages=self.puts + self.more_messages,
                put_bytes=end_offset - self.begin_offset,
                puts_failed=dict(self._failed),
                put_times=times | {"0": max(self.puts - slower, 0)},
                put_seconds_max=self._put_max_s,
                slow_puts=self._slow,
                flushes=self._flushes,
                flush_seconds=self._flush_s,
                flush_seconds_max=self._flush_max_s,
                dispatch_behind_bytes=behind_bytes,
                dispatch_behind_bytes_max=self.behind_max,
                dispatch_passed_over=self.dispatch_passed_over,
                flush_behind_bytes=max(end_offset - durable_offset, 0),
                gets_found=self._found,
                gets_missed=self._missed,
                get_messages=self._messages,
                get_seconds_max=self._get_max_s,
                delayed_delivered=self.delivered,
                delayed_passed_over=self.passed_over,
            )
