"""The shared state of an open store, and the operations that change its CommitLog.

After a failed or interrupted write or fsync the store acknowledges nothing more, and must be opened
again, which recovers it. Source: DefaultMessageStore, CommitLog.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Protocol
from weakref import WeakSet

from logdex.errors import LogClosedError, LogdexError, LogInUseError, StorageError
from logdex.io.env import Env, WriteFile
from logdex.io.group_commit import GroupCommit
from logdex.io.process_lock import ProcessLock
from logdex.io.reader_gate import ReaderGate
from logdex.rocketmq.commit_log.commit_log import CommitLog
from logdex.rocketmq.files.store_files import StorePaths
from logdex.rocketmq.message_store.options import StoreOptions
from logdex.rocketmq.message_store.put.log_files import LogFiles
from logdex.rocketmq.message_store.put.message import PutMessageResult, PutMessageStatus
from logdex.rocketmq.message_store.services.stats import StoreStatsService
from logdex.rocketmq.message_store.topics import Topics
from logdex.rocketmq.settings.store_config import StoreConfig

_PAGE_SIZE = 4096
FLUSH_AT_BYTES = 64 << 20
"""If tables put so much that is not on disk yet, it is flushed at once. A file is on disk before
the next one's first message is written, and that put waits for the disk."""
DISPATCH_AT_BYTES = 16 << 20
"""Whenever tables have put so much, the dispatch is woken from its pause."""


def _percent(part: float) -> str:
    """A part of 1 as a percentage, such as ``90.04 %``."""
    return f"{100 * part:.2f}".rstrip("0").rstrip(".") + " %"


class Closable(Protocol):
    """What is closed with the store, such as a consumer."""

    def close(self) -> None:
        """Closes it."""


class StoreCore:
    """Thread-safe. Fields are read and changed with `lock` held, unless stated otherwise."""

    def __init__(
        self,
        paths: StorePaths,
        config: StoreConfig,
        options: StoreOptions,
        *,
        clock_ms: Callable[[], int],
        env: Env,
        process_lock: ProcessLock,
        log: LogFiles,
        reader: CommitLog,
        topics: Topics,
        last_timestamp_ms: int,
    ) -> None:
        self.paths = paths
        self.config = config
        self.options = options
        self.clock_ms = clock_ms
        self.env = env
        self.process_lock = process_lock
        self.log = log
        self.reader = reader
        """The CommitLog for reading; any thread may use it."""
        self.topics = topics
        self.queue_offsets: dict[tuple[bytes, int], int] = {}
        """The next queue offset of each queue."""
        self.last_timestamp_ms = last_timestamp_ms
        """The store time of the last message."""
        self.durable_offset = log.end_offset  # opening syncs what it recovers
        self.durable_timestamp_ms = last_timestamp_ms
        """The store time of the last message that is on disk."""
        self.lock = threading.RLock()
        self.group_commit = GroupCommit(self.lock, self._syncing_active, path=paths.root)
        self.gate = ReaderGate()
        self.wait_slaves: Callable[[int], PutMessageStatus] | None = None
        """Waits until slaves have the log up to an offset; None if no put waits for slaves."""
        self.appended = threading.Event()
        """Is set when something is appended to the log. The dispatch clears it and waits for it."""
        self.flush_wanted = threading.Event()
        """Is set when much of the log is not on disk yet, to wake the thread that flushes it."""
        self.dispatch_wanted = threading.Event()
        """Is set when much was put, or when a thread waits for the dispatch, to wake the thread
        that dispatches."""
        self._dispatch_at = log.end_offset + DISPATCH_AT_BYTES
        """The physical offset behind which tables wake the dispatch the next time."""
        self.closed = self.closing = False
        self._is_slave = options.is_slave
        self.disk_full = False
        """Whether too much of the disk was in use when it was last looked at."""
        self._disk_used = 0.0
        """Which part of the disk was in use then, from 0 to 1."""
        self.stats = StoreStatsService(log.end_offset)
        self._users: WeakSet[Closable] = WeakSet()
        self._unreleased: list[WriteFile] = []
        self._is_unlisted = False
        """Whether the next file is there, and the reader does not know it."""

    # -- state ------------------------------------------------------------------------------------
    @property
    def is_writeable(self) -> bool:
        """Whether messages can be put: the store is open in this process, is not being closed, and
        no write has failed."""
        return not self.closing and self.group_commit.failed is None and self.process_lock.is_own

    @property
    def takes_puts(self) -> bool:
        """Whether callers can put messages: the store is writeable, no slave, and the disk is not
        too full."""
        return not (
            self.closing
            or self.group_commit.failed is not None
            or self._is_slave
            or self.disk_full
            or not self.process_lock.is_own
        )

    @property
    def put_refused(self) -> PutMessageResult:
        """The outcome of a put while the store takes none, with the reason."""
        if self.closing:
            why = "it is closed"
        elif not self.process_lock.is_own:
            why = "this process was forked from the one that opened it"
        elif (failed := self.group_commit.failed) is not None:
            why = f"a write has failed ({failed}); close it and open it again"
        elif self._is_slave:
            why = "it is a slave (is_slave)"
        else:
            limit = _percent(self.options.disk_space_warning_level_ratio)
            used = f"{_percent(self._disk_used)} of the disk is used"
            why = f"{used}, over the limit of {limit} (disk_space_warning_level_ratio)"
        reason = f"the store takes no messages: {why}"
        return PutMessageResult(PutMessageStatus.SERVICE_NOT_AVAILABLE, reason=reason)

    def require_open(self) -> None:
        """Raises `LogClosedError` after `close`."""
        if self.closed:
            raise LogClosedError("the store was closed", path=self.paths.root)

    def require_own(self) -> None:
        """Raises `LogClosedError` after `close`, `LogInUseError` in a forked child."""
        self.require_open()
        if not self.process_lock.is_own:
            raise LogInUseError(
                "only the process that opened the store can use it, not a forked child",
                path=self.paths.root,
                hint="use it there, or open the store after the fork; logdex.open_store reads it in any process",
            )

    def require_usable(self) -> None:
        """As `require_own`; raises `LogFailedError` after a failed write."""
        self.require_own()
        self.group_commit.require_unfailed()

    def look_at_disk(self) -> None:
        """Looks how full the disk is. Above the option's limit puts are refused."""
        self._disk_used = self.env.used_ratio(self.log.directory)
        self.disk_full = self._disk_used > self.options.disk_space_warning_level_ratio

    # -- writing ----------------------------------------------------------------------------------
    def make_room(self, size_bytes: int) -> bool:
        """Begins the next file if `size_bytes` do not fit into this one. Returns False if the next
        file cannot be created; nothing has changed then. Call it with the lock held."""
        if self.log.fits(size_bytes):
            return True
        try:
            self.prepare_file()
        except StorageError:
            return False
        try:
            old = self.log.end_file(self.group_commit.sync)
        except BaseException as error:
            self.group_commit.fail(error)
            raise
        self.durable_offset, self.durable_timestamp_ms = self.log.end_offset, self.last_timestamp_ms
        self.group_commit.all_is_durable()
        if self.group_commit.is_syncing:
            self._unreleased.append(old)  # an fsync of it is running and needs its descriptor
        else:
            old.close()
        return True

    def prepare_file(self) -> None:
        """Makes the next file ahead, if there is none yet, and lets the reader know it."""
        with self.lock:
            self._is_unlisted = self.log.prepare() or self._is_unlisted
            if self._is_unlisted:
                self.reader.refresh()  # if that fails, it is tried again before the file is used
                self._is_unlisted = False

    def append(self, data: bytes | memoryview) -> None:
        """Writes messages at the end of the log, after `make_room`. Call it with the lock held."""
        try:
            self.log.append(data)
        except BaseException as error:
            self.group_commit.fail(error)
            raise
        if not self.appended.is_set():
            self.appended.set()

    def writer(self, waits: bool) -> Callable[[bytes], None]:
        """How a message is written: held, if its put waits for the disk."""
        return self.hold if waits and self.options.flush == "sync" else self.append

    def hold(self, data: bytes) -> None:
        """As `append`, but the messages are written when the log is flushed the next time: threads
        that wait for the same fsync share the write, too. Call it with the lock held."""
        self.log.hold(data)

    def write_held(self) -> None:
        """Writes the messages that are held. Call it with the lock held."""
        try:
            self.log.write_held()
        except BaseException as error:
            self.group_commit.fail(error)
            raise
        if not self.appended.is_set():
            self.appended.set()

    def append_rows(self, data: memoryview) -> None:
        """As `append`, for many messages. Lets them be flushed and dispatched soon."""
        self.append(data)
        end = self.log.end_offset
        if end - self.durable_offset >= FLUSH_AT_BYTES:
            self.flush_wanted.set()
        if end >= self._dispatch_at:
            self._dispatch_at = end + DISPATCH_AT_BYTES
            self.dispatch_wanted.set()

    def write(self, position: int, data: bytes) -> None:
        """Writes bytes of a filler, at a position of the active file. Call it with the lock
        held."""
        try:
            self.log.active.write_at(position, data)
        except BaseException as error:
            self.group_commit.fail(error)
            raise

    # -- durability -------------------------------------------------------------------------------
    @contextmanager
    def _syncing_active(self) -> Iterator[Callable[[], None]]:
        """Yields the fsync of the active file. Earlier files are on disk already."""
        self.require_usable()
        self.write_held()
        end, timestamp_ms = self.log.end_offset, self.last_timestamp_ms
        try:
            yield partial(self.stats.flush, self.log.active.sync)
            self.durable_offset = max(self.durable_offset, end)
            self.durable_timestamp_ms = timestamp_ms
        finally:
            for file in self._unreleased:
                file.close()
            self._unreleased.clear()

    @property
    def dirty_pages(self) -> int:
        """How many pages of the log have been written since the last fsync."""
        return self.log.next_offset // _PAGE_SIZE - self.durable_offset // _PAGE_SIZE

    def flush_log(self) -> None:
        """Writes all messages to disk."""
        with self.lock:
            self.require_usable()
            ticket = self.group_commit.next_ticket()
        self.group_commit.wait(ticket)

    def closes(self, user: Closable) -> None:
        """Lets a user of the store be closed with it, at once if it is closed."""
        with self.lock:
            self._users.add(user)
        if self.closed:
            user.close()

    def close_users(self) -> None:
        """Closes all users, after `close_files`."""
        with self.lock:
            users = list(self._users)
        for user in users:  # without the lock: a thread that polls holds its consumer's, and may wait for this one
            with suppress(LogdexError):  # a consumer whose file cannot be removed has left its group all the same
                user.close()

    def close_files(self) -> None:
        """Closes the log without syncing it, once no thread reads."""
        with self.gate.excluding():
            self.closed = self.closing = True
            self.log.close()
            self.reader.close()
