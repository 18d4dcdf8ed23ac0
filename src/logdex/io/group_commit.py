"""Group commit: threads that wait until their writes are on disk share one fsync.

A thread appends while it holds the caller's lock, takes a ticket, releases the lock and waits for
its ticket. The first waiting thread syncs everything that was appended so far, without the lock.
Then it wakes the threads that waited for that fsync, and one of those that appended after it began,
which syncs for all of them. So a thread is woken once per put, and no thread depends on another one
that is woken but does not run yet.

Threads that put again and again would form two groups, of which one appends while the other one's
fsync runs. So a thread that is about to sync first gives those that were just woken a little time
to append too, as long as they use it. With 64 threads this doubles the appends per fsync.

After a failed fsync nothing more is acknowledged: the system reports a failed write to only one
caller of fsync, and a later fsync succeeds for all others.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import NamedTuple

from logdex.errors import LogFailedError

Flush = Callable[[], None]
"""Syncs everything that was appended so far."""


_GATHER_PART_MIN, _GATHER_PART_MAX = 0.25, 4.0
"""How long a thread waits at most for the others before its fsync, as a multiple of what the last
fsync took. It doubles when most of them came in that time, and halves when fewer did: threads that
do something else between their puts are hardly waited for."""
_GATHER_S_MAX = 0.005


class _Waiter(NamedTuple):
    """A thread that waits for `ticket`, and the lock whose release wakes it."""

    ticket: int
    turn: threading.Lock


class GroupCommit:
    """Records which appends are on disk, by their tickets. Thread-safe.

    `lock` is the caller's lock, which orders the appends. Whenever an fsync is needed, `begin` is
    called and opens a context while the lock is held: the context returns the function that syncs,
    or raises an error to refuse the fsync. The lock is released while the fsync runs, and is held
    again when the context ends, with an error if the fsync failed. `path` is for messages.
    """

    def __init__(self, lock: threading.RLock, begin: Callable[[], AbstractContextManager[Flush]], *, path: str) -> None:
        self.path = path
        self.failed: BaseException | None = None
        """The first write or fsync that failed or was interrupted."""
        self.last_ticket = 0
        """The ticket of the last append."""
        self._lock = lock
        self._begin = begin
        self._changed = threading.Condition(lock)
        """Wakes who waits for the end of an fsync with the lock held."""
        self._waiting: list[_Waiter] = []
        """The threads to wake at the end of an fsync. While no thread is in an fsync, there are
        none, or one that was woken will take the lock."""
        self._durable_ticket = 0
        self._syncing = False
        self._fsync_lock = threading.Lock()
        self._fsync_s = 0.0
        """How long the last fsync took."""
        self._gather_part = _GATHER_PART_MIN
        self._woken = 0
        """How many threads were woken at its end."""
        self._goal = 0
        """The ticket at which all of them have appended again."""
        self._gathered = threading.Lock()
        self._gathered.acquire()

    @property
    def is_syncing(self) -> bool:
        """Whether a waiting thread is in an fsync. Call it with the lock held."""
        return self._syncing

    def next_ticket(self) -> int:
        """Returns the ticket of an append. Call it after the append, with the lock still held."""
        self.last_ticket += 1
        if self.last_ticket == self._goal:
            self._gathered.release()
        return self.last_ticket

    def wait(self, ticket: int, timeout_s: float | None = None) -> bool:
        """Returns True when the appends up to `ticket` are on disk. Call it without the lock held.

        Returns False if another thread's fsync takes longer than `timeout_s`; the fsync that this
        thread calls has no time limit. Raises `LogFailedError` if a write or an fsync failed before
        that. The thread that called the failed fsync gets its error instead.
        """
        until = None if timeout_s is None else time.monotonic() + timeout_s
        while True:
            with self._lock:
                if self._durable_ticket >= ticket:
                    return True
                self.require_unfailed()
                if not self._syncing:
                    self._sync_all()
                    return True
                waiter = _Waiter(ticket, threading.Lock())
                waiter.turn.acquire()
                self._waiting.append(waiter)
            is_woken = False
            try:
                is_woken = waiter.turn.acquire(timeout=-1 if until is None else max(until - time.monotonic(), 0))
            finally:
                if not is_woken:
                    self._withdraw(waiter)
            if self._durable_ticket >= ticket:
                return True
            if not is_woken:
                return False

    def _sync_all(self) -> None:
        """Syncs everything that was appended so far. Call it with the lock held."""
        self._syncing = True
        try:
            self._gather()
            with self._begin() as flush:
                upto = self.last_ticket
                begin_s = time.monotonic()
                try:
                    with self._lock_released():
                        self.sync(flush)
                    self._durable_ticket = max(self._durable_ticket, upto)
                except BaseException as error:
                    self.fail(error)
                    raise
                self._fsync_s = time.monotonic() - begin_s
        finally:
            self._syncing = False
            self._wake()

    def _gather(self) -> None:
        """Lets the threads that were just woken append too. Call it with the lock held."""
        if not self._woken:
            return
        before = self.last_ticket
        self._goal = before + self._woken
        try:
            with self._lock_released():
                is_over = self._gathered.acquire(timeout=min(self._gather_part * self._fsync_s, _GATHER_S_MAX))
            if not is_over and self.last_ticket >= self._goal:
                self._gathered.acquire()  # released a moment later
        finally:
            self._goal = 0
        have_come = 4 * (self.last_ticket - before) >= 3 * self._woken
        part = self._gather_part * (2 if have_come else 0.5)
        self._gather_part = min(max(part, _GATHER_PART_MIN), _GATHER_PART_MAX)

    def _wake(self) -> None:
        """Wakes the threads whose wait is over, and one more for the next fsync. Call it with the
        lock held."""
        durable = self._durable_ticket if self.failed is None else self.last_ticket
        over = [waiter for waiter in self._waiting if waiter.ticket <= durable]
        self._waiting = [waiter for waiter in self._waiting if waiter.ticket > durable]
        for waiter in over:
            waiter.turn.release()
        self._woken = len(over)
        self._call_next()
        self._changed.notify_all()

    def _call_next(self) -> None:
        """Wakes a thread for the next fsync, unless one is running. Call it with the lock held."""
        if self._waiting and not self._syncing:
            self._waiting.pop(0).turn.release()

    def _withdraw(self, waiter: _Waiter) -> None:
        """Waits no longer. If the thread was woken at the same moment, another one is woken
        instead."""
        with self._lock:
            if waiter in self._waiting:
                self._waiting.remove(waiter)
            else:
                self._call_next()

    @contextmanager
    def _lock_released(self) -> Iterator[None]:
        """Releases the lock, which this thread holds once, during the block."""
        self._lock.release()
        try:
            yield
        finally:
            self._lock.acquire()

    def sync(self, flush: Flush) -> None:
        """Calls `flush` in one thread at a time, and never after a failure. Code that syncs without
        `wait` must call this, with or without the lock held."""
        with self._fsync_lock:
            self.require_unfailed()
            try:
                flush()
            except BaseException as error:
                self.failed = self.failed or error
                raise

    def all_is_durable(self) -> None:
        """Records that everything appended so far is on disk or no longer needed. Call it with the
        lock held."""
        self._durable_ticket = self.last_ticket
        self._wake()

    def wait_until_idle(self) -> None:
        """Returns when no thread is in an fsync. Call it with the lock held; the lock is released
        while it waits."""
        while self._syncing:
            self._changed.wait()

    def fail(self, error: BaseException) -> None:
        """Records that a write failed, after which nothing more is acknowledged. Call it with the
        lock held."""
        self.failed = self.failed or error
        self._wake()

    def require_unfailed(self) -> None:
        """Raises `LogFailedError` if a write or an fsync has failed."""
        if self.failed is not None:
            raise LogFailedError(
                f"a write failed ({self.failed}); nothing more is written",
                path=self.path,
                hint="close and open it again",
            ) from self.failed
