"""Group commit: threads that wait until what they wrote is on disk share one fsync.

A thread appends with the caller's lock held, takes a ticket, releases the lock and waits for its ticket. The first that
waits syncs for all that was appended so far, without the lock; the others wait for it, and those that appended after
it began wait for the next fsync.

After an fsync that failed nothing is acknowledged any more: the system reports a failed write to one caller of fsync
only, and to all others a later fsync seems to succeed.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

from logdex.errors import LogFailedError

Flush = Callable[[], None]
"""Syncs everything that was appended so far."""


class GroupCommit:
    """Which appends are on disk, by their tickets. Thread-safe.

    `lock` is the caller's, and orders the appends. `begin` opens a context with the lock held whenever an fsync is
    needed: it returns what to call for it and may raise an error to refuse it. The lock is released while the fsync
    runs and is held again when the context ends, with an error if the fsync failed. `path` is for messages.
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
        self._durable_ticket = 0
        self._syncing = False
        self._fsync_lock = threading.Lock()

    @property
    def is_syncing(self) -> bool:
        """Whether a thread that waits is in an fsync. Ask with the lock held."""
        return self._syncing

    def next_ticket(self) -> int:
        """Returns the ticket of an append. Call it after the append, with the lock still held."""
        self.last_ticket += 1
        return self.last_ticket

    def wait(self, ticket: int) -> None:
        """Returns when the appends up to `ticket` are on disk. Raises `LogFailedError` if a write or an fsync failed
        before they were, and the error of the fsync in the thread that called it. Do not call it with the lock held."""
        with self._changed:
            while self._syncing and self._durable_ticket < ticket and self.failed is None:
                self._changed.wait()
            if self._durable_ticket >= ticket:
                return
            self.require_unfailed()
            with self._begin() as flush:
                upto = self.last_ticket
                self._syncing = True
                try:
                    with self._lock_released():
                        self.sync(flush)
                    self._durable_ticket = max(self._durable_ticket, upto)
                except BaseException as error:
                    self.fail(error)
                    raise
                finally:
                    self._syncing = False
                    self._changed.notify_all()

    @contextmanager
    def _lock_released(self) -> Iterator[None]:
        """Releases the lock, which this thread holds once, during the block."""
        self._lock.release()
        try:
            yield
        finally:
            self._lock.acquire()

    def sync(self, flush: Flush) -> None:
        """Calls `flush`, one thread at a time and never after one that failed. With or without the lock held: whoever
        syncs by other means than `wait` calls this."""
        with self._fsync_lock:
            self.require_unfailed()
            try:
                flush()
            except BaseException as error:
                self.failed = self.failed or error
                raise

    def all_is_durable(self) -> None:
        """Notes that everything appended so far is on disk, or no longer wanted. Call it with the lock held."""
        self._durable_ticket = self.last_ticket
        self._changed.notify_all()

    def wait_until_idle(self) -> None:
        """Returns, with the lock held, when no thread is in an fsync. Call it with the lock held; it is released
        meanwhile."""
        while self._syncing:
            self._changed.wait()

    def fail(self, error: BaseException) -> None:
        """Notes that a write failed: nothing more is acknowledged. Call it with the lock held."""
        self.failed = self.failed or error
        self._changed.notify_all()

    def require_unfailed(self) -> None:
        """Raises `LogFailedError` after a write or an fsync that failed."""
        if self.failed is not None:
            raise LogFailedError(
                f"a write failed ({self.failed}); nothing more is written",
                path=self.path,
                hint="close and open it again",
            ) from self.failed
