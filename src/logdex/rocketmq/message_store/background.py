"""The threads of an open store: the dispatch, the flush of the log, the flush of what was derived,
the delivery of delayed messages.

Source: ReputMessageService, FlushRealTimeService, FlushConsumeQueueService, ScheduleMessageService.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress

from logdex.errors import LogdexError, StorageError
from logdex.rocketmq.message_store.core import StoreCore
from logdex.rocketmq.message_store.derived.dispatch import Dispatch
from logdex.rocketmq.message_store.services.schedule import ScheduleMessageService

_PAUSE_PER_WORK = 9
"""How long a worker pauses after its work, as a multiple of the CPU time that the work took, if
that is longer than its interval. A dispatch of few messages costs nearly as much as one of many,
and takes the interpreter from the threads that put."""


_FIRST_DISK_LOOK_S = 1
"""How long after the opening it is looked at first how full the disk is, as by the engine."""
_IDLE_S = 0.1
"""How long the dispatch waits at most for something to dispatch, before it looks itself."""


class _Worker(threading.Thread):
    """Calls `work` every `interval_ms`, or when it is woken, until it is stopped or `work` raises a
    `LogdexError`, which whoever calls the store is told of."""

    def __init__(self, name: str, interval_ms: int, work: Callable[[], None], woken: threading.Event) -> None:
        super().__init__(name=f"logdex-{name}", daemon=True)
        self._interval_s = interval_ms / 1000
        self._work = work
        self._woken = woken
        self._stopped = False

    def run(self) -> None:
        """Works until it is stopped."""
        pause_s = self._interval_s
        while True:
            self._woken.wait(pause_s)
            self._woken.clear()
            if self._stopped:
                return
            begin_s = time.thread_time()
            try:
                self._work()
            except LogdexError:
                return
            pause_s = max(self._interval_s, _PAUSE_PER_WORK * (time.thread_time() - begin_s))

    def stop(self) -> None:
        """Stops the thread and waits for its end."""
        self._stopped = True
        self._woken.set()
        self.join()


class Background:
    """The threads of one store. `stop` ends them. By `clock_s` they decide what is due."""

    def __init__(
        self,
        core: StoreCore,
        dispatch: Dispatch,
        schedule: ScheduleMessageService,
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        options = core.options
        self._core, self._dispatch, self._schedule, self._clock_s = core, dispatch, schedule, clock_s
        now_s = self._flushed_s = self._derived_s = clock_s()
        self._disk_looked_s = now_s + min(_FIRST_DISK_LOOK_S - options.clean_resource_interval_ms / 1000, 0)
        self._stopping = False
        self._workers = [
            _Worker("dispatch", options.reput_interval_ms, self._reput, core.dispatch_wanted),
            _Worker("flush-log", options.flush_interval_commit_log_ms, self._flush_log, core.flush_wanted),
            _Worker("flush-derived", options.flush_interval_consume_queue_ms, self._flush_derived, threading.Event()),
            _Worker("schedule", options.schedule_interval_ms, self._deliver, threading.Event()),
        ]
        for worker in self._workers:
            worker.start()

    def _reput(self) -> None:
        """Dispatches what is there, or waits until something is: a thread that wakes every
        millisecond takes the interpreter from all others."""
        self._core.appended.clear()
        if self._dispatch.behind_bytes == 0 and not self._stopping:
            self._core.appended.wait(_IDLE_S)
            return
        while self._dispatch.run_batch() and self._dispatch.is_hurried:
            pass

    def _flush_log(self) -> None:
        """Flushes if enough pages are dirty, and now and then in any case."""
        core, now_s = self._core, self._clock_s()
        is_due = now_s - self._flushed_s >= core.options.flush_commit_log_thorough_interval_ms / 1000
        if is_due or core.dirty_pages >= core.options.flush_commit_log_least_pages:
            if is_due:
                self._flushed_s = now_s
            if core.durable_offset < core.log.next_offset:
                core.flush_log()
        with suppress(StorageError):  # the put that needs the file tries again, and says so
            core.prepare_file()

    def _flush_derived(self) -> None:
        now_s, options = self._clock_s(), self._core.options
        if now_s - self._disk_looked_s >= options.clean_resource_interval_ms / 1000:
            self._disk_looked_s = now_s
            with suppress(StorageError):
                self._core.look_at_disk()
        if now_s - self._derived_s >= options.flush_consume_queue_thorough_interval_ms / 1000:
            self._derived_s = now_s
            self._dispatch.flush()

    def _deliver(self) -> None:
        with suppress(StorageError):  # tried again; a failed put stops all puts, and says so
            self._schedule.deliver_due()

    def stop(self) -> None:
        """Ends the threads."""
        self._stopping = True
        self._core.appended.set()
        for worker in self._workers:
            worker.stop()
