"""`MessageStore`: a RocketMQ store that this process writes and reads.

Source: DefaultMessageStore. `core`, `opening` and `derived` describe what happens after a power
cut, on a full disk and with two writers.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable
from time import perf_counter, time_ns
from types import TracebackType
from typing import Any, Unpack

import pyarrow as pa

from logdex.errors import StoreError, UsageError
from logdex.io.env import DEFAULT_ENV, Env
from logdex.io.path_look import path_text
from logdex.jobs.settings import require_known
from logdex.primitives.host import Host
from logdex.primitives.shown import repr_of
from logdex.primitives.text import to_bytes
from logdex.primitives.wrong_questions import require_given, require_longs
from logdex.rocketmq.message.stored_message import StoredMessage
from logdex.rocketmq.message_store.background import Background
from logdex.rocketmq.message_store.closed_state import closed_state
from logdex.rocketmq.message_store.core import StoreCore
from logdex.rocketmq.message_store.opening import OpenedStore, open_store
from logdex.rocketmq.message_store.options import MessageStoreSettings, StoreOptions
from logdex.rocketmq.message_store.put.append import put_message, put_messages
from logdex.rocketmq.message_store.put.columns import put_columns
from logdex.rocketmq.message_store.put.encode import as_host, require_log_file_size
from logdex.rocketmq.message_store.put.message import (
    Message,
    PutMessageResult,
    PutMessageStatus,
    Text,
    messages_of,
    require_message,
)
from logdex.rocketmq.message_store.put.quick import QuickPuts
from logdex.rocketmq.message_store.reading import ReadableStore
from logdex.rocketmq.message_store.services.retention import ExpiredFiles, RetentionService
from logdex.rocketmq.message_store.services.stats import AT_ONCE_S, StoreStats
from logdex.rocketmq.message_store.services.transactions import TransactionService
from logdex.rocketmq.message_store.topics import QUEUE_NUMS_MAX
from logdex.rocketmq.settings.store_settings import StoreSettings

_YEAR_2000_MS = 946_684_800_000


def wall_clock_ms() -> int:
    """The time in milliseconds since the epoch."""
    return time_ns() // 1_000_000


class MessageStore(ReadableStore):
    """A store directory that only this process writes. `MessageStore.open` opens it, `close` or
    ``with`` closes it.

    Thread-safe. Puts are serialised; with ``flush="sync"`` concurrent puts share their fsyncs.
    Readers do not wait for puts. There is one writer: `LogInUseError` is raised if a broker runs or
    the store is open already. Other processes may read the directory at any time (`logdex.open`).

    After a failed write or fsync nothing more is acknowledged: puts return SERVICE_NOT_AVAILABLE
    until the store is closed and opened again.
    """

    def __init__(self, opened: OpenedStore) -> None:
        if not isinstance(opened, OpenedStore):
            raise UsageError(
                "a MessageStore is not made, but opened",
                hint="MessageStore.open(path) opens one to write it, logdex.open_store(path) only to read it",
            )
        super().__init__(opened)
        core = opened.core
        self._encoder, self._schedule = opened.encoder, opened.schedule
        self._quick = QuickPuts(core, opened.encoder)
        self._transactions = TransactionService(core, opened.dispatch.derived.queues, opened.encoder)
        self._retention = RetentionService(core, opened.dispatch)
        self._background = Background(core, opened.dispatch, self._schedule) if core.options.background else None
        self._close_lock = threading.Lock()

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        *,
        create: bool = True,
        env: Env = DEFAULT_ENV,
        clock_ms: Callable[[], int] = wall_clock_ms,
        store_host: Host | str | None = None,
        born_host: Host | str | None = None,
        **settings: Unpack[MessageStoreSettings],
    ) -> MessageStore:
        """Opens a store directory; creates a missing one, unless `create` is False
        (`MissingFileError`).

        `settings` are fields of `StoreOptions` (``flush="sync"``, …) and what no file of a store
        states, as for `logdex.open` (``mapped_file_size_commit_log=…``, ``rocketmq_version=…``). A
        store that was not closed cleanly is recovered, see `load_report`. Raises `LogInUseError`,
        `UsageError` for settings that the files contradict, `CorruptError` for a log with damage in
        its middle, and `StorageError`.
        """
        require_known(settings, MessageStoreSettings)
        own = StoreOptions.__dataclass_fields__
        options: dict[str, Any] = {name: value for name, value in settings.items() if name in own}
        for name, host in (("store_host", store_host), ("born_host", born_host)):
            if host is not None:
                options[name] = as_host(host)
        given: StoreSettings = {
            name: value for name, value in settings.items() if name not in own and value is not None
        }  # type: ignore[assignment]
        require_log_file_size(given.get("mapped_file_size_commit_log"))
        path = env.real_path(path_text(path))  # the program may change its working directory
        opened = open_store(path, StoreOptions(**options), given, create=create, clock_ms=clock_ms, env=env)
        return cls(opened)

    def __repr__(self) -> str:
        core = self._core
        return repr_of(
            self,
            repr(self.path),
            f"CommitLog offsets {core.reader.min_offset} to {core.log.end_offset}",
            is_closed=core.closed,
        )

    @property
    def path(self) -> str:
        """The store's directory."""
        return self._core.paths.root

    @property
    def core(self) -> StoreCore:
        """The state that the parts of an open store share, for replication."""
        return self._core

    @property
    def stats(self) -> StoreStats:
        """Figures since the store was opened; ``stats.prometheus()`` is their text for
        Prometheus."""
        core = self._core
        return core.stats.snapshot(
            end_offset=core.log.end_offset, durable_offset=core.durable_offset, behind_bytes=self._dispatch.behind_bytes
        )

    # -- putting ----------------------------------------------------------------------------------
    def put_message(self, message: Message) -> PutMessageResult:
        """Puts one message and returns the engine's status with its place. With ``flush="sync"``
        the message is on disk when this returns PUT_OK.

        Raises `UsageError` for a message that no store can hold, and `StorageError` or
        `LogFailedError` if writing fails.
        """
        begin_s = perf_counter()
        try:
            result = self._quick.put(message) or put_message(self._core, self._encoder, message)
        except StoreError:
            self._core.stats.put_failed("ERROR")
            raise
        except (AttributeError, TypeError):
            require_message(message)
            raise
        seconds = perf_counter() - begin_s
        if seconds >= AT_ONCE_S or result[0] is not PutMessageStatus.PUT_OK:
            self._core.stats.put_ended(seconds, result)
        return result

    def put_messages(self, messages: Iterable[Message]) -> PutMessageResult:
        """Puts messages of one topic and queue as one unit: all or none, with consecutive queue
        offsets. Errors are those of `put_message`."""
        return self._core.stats.timed(put_messages, self._core, self._encoder, messages_of(messages))

    def put_columns(self, table: pa.Table | pa.RecordBatch) -> PutMessageResult:
        """Puts all rows of an Arrow table in one go. Its columns are ``topic``, and as many as are
        wanted of ``body``, ``queue_id`` or ``sharding_key``, ``tags``, ``keys`` (a list, or a text
        with spaces between keys), ``properties`` (a map), ``born_timestamp_ms`` and ``unique_key``;
        a row without one gets a new one. A key with a space in a list is a `UsageError`. A row
        whose body is null has an empty body, as all rows have without the column; `put_message`
        refuses a body that is None.

        All rows are checked first, as by `put_message`, so that all or none are put. The result has
        the place of the first row, and the number and size of all. Other threads put their messages
        before or after. A power cut may leave the first rows alone, unless ``flush="sync"``
        acknowledged them.
        """
        return self._core.stats.timed(put_columns, self._core, self._encoder, table)

    # -- transactions -----------------------------------------------------------------------------
    def put_half(self, message: Message, producer_group: Text = "DEFAULT_PRODUCER") -> PutMessageResult:
        """Puts a half message: no consumer sees it before `end_transaction` commits it. A broker
        that takes over the store asks the producers of `producer_group` what has become of it.

        Errors are those of `put_message`; a delay level is a `UsageError`.
        """
        return self._transactions.put_half(message, producer_group)

    def end_transaction(self, half: PutMessageResult | StoredMessage, *, commit: bool) -> PutMessageResult:
        """Commits a half message, given as `put_half` or `pending_transactions` returned it, or
        rolls it back. A commit puts it into its own topic and returns its place there; the result
        of a rollback is that of the message that notes it.

        A commit writes two messages: the one that was committed, then the one that notes it. After
        a kill or a power cut between them, the half message is pending still, as in the broker, and
        committed again, its message is delivered twice. `prepared_transaction_offset` of both is
        that of the half message.

        Raises `UsageError` if it is no half message or has ended already, and the errors of
        `put_message`.
        """
        if not isinstance(half, (PutMessageResult, StoredMessage)):
            raise UsageError(f"no half message is {type(half).__name__}", hint="give what put_half returned")
        if not isinstance(commit, bool):
            raise UsageError(f"commit is {commit!r}", hint="give True to commit, False to roll back")
        return self._transactions.end(half.physical_offset, commit=commit)

    def pending_transactions(self) -> list[StoredMessage]:
        """The half messages that were neither committed nor rolled back, oldest first."""
        self.dispatch()
        return self._transactions.pending()

    def create_topic(self, topic: Text, queue_nums: int | None = None) -> None:
        """Creates a topic, or sets the number of its queues. A message to an unknown topic creates
        it with `default_topic_queue_nums`. `topics` lists it once it has a message.

        With fewer queues than before, messages are put to those alone. Consumers go on with all
        that have had messages, so that none is left unread: `readQueueNums` in topics.json stays as
        large as that.
        """
        count = self._core.options.default_topic_queue_nums if queue_nums is None else queue_nums
        require_given(queue_nums=count)
        if not 1 <= count <= QUEUE_NUMS_MAX:
            raise UsageError(f"queue_nums must be from 1 to {QUEUE_NUMS_MAX}, got {count}")
        known = self._encoder.topic_of(topic)
        if known is None:
            raise UsageError(f"the topic {to_bytes(topic)[:40]!r} is too long")
        core = self._core
        core.require_usable()
        with core.lock:
            used = [queue_id + 1 for each, queue_id in core.queue_offsets if each == known]
        core.topics.create(known, count, core.clock_ms(), read_nums=min(max(used, default=0), QUEUE_NUMS_MAX))

    # -- what threads do otherwise ----------------------------------------------------------------
    def flush(self) -> None:
        """Writes all messages, and what is dispatched of them, to disk."""
        self._dispatch.flush()

    def flush_log(self) -> None:
        """Writes all messages to disk, as a put with ``flush="sync"`` does for its own."""
        self._core.require_usable()
        if self._core.durable_offset < self._core.log.next_offset:
            self._core.flush_log()

    def dispatch(self) -> None:
        """Dispatches all messages put so far, in this thread."""
        self._core.require_own()
        self._dispatch.run()

    def deliver_due(self, now_ms: int | None = None) -> int:
        """Delivers the delayed messages that are due now, or at `now_ms`, in this thread: puts each
        into the topic and queue that it is for, and notes on disk that it did. Returns how many
        messages that were. With background threads they are delivered without it.

        Without `now_ms`, a message that would be due later than its delay from now is delivered at
        once, as in the engine: the clock went back since it was put. A message is delivered at
        least once: after a kill in the midst of it, or a power cut, some are delivered again.

        Raises `UsageError` for a `now_ms` before the year 2000, such as one in seconds, and
        `StorageError` or `LogFailedError` if reading or writing fails.
        """
        require_longs(now_ms=now_ms)
        if now_ms is not None and now_ms < _YEAR_2000_MS:
            raise UsageError(f"now_ms is {now_ms}", hint="give milliseconds since 1970: int(time.time() * 1000)")
        self.dispatch()
        count = self._schedule.deliver_due(now_ms)
        self._schedule.save()
        return count

    def delay_progress(self) -> dict[int, tuple[int, int]]:
        """By delay level: the queue offset of the next message to deliver, and the end of the
        level's queue in SCHEDULE_TOPIC_XXXX."""
        return self._schedule.progress()

    def delete_expired(
        self, hours: float | None = 72, disk_ratio: float | None = None, now_ms: int | None = None
    ) -> ExpiredFiles:
        """Removes files of the CommitLog that were last written `hours` ago or earlier, then the
        ConsumeQueue files and IndexFiles that have nothing else. While more than `disk_ratio` (0 to
        1) of the disk is used, older files are removed before their time, the oldest first. The
        newest file stays in any case. Delayed messages and half messages expire as others do.

        Raises `StorageError` if a file cannot be removed, after which the call can be repeated.
        """
        return self._retention.delete_expired(hours, disk_ratio, self._core.clock_ms() if now_ms is None else now_ms)

    # -- closing ----------------------------------------------------------------------------------
    def close(self) -> None:
        """Dispatches and writes everything, and closes the store and the consumers that were opened
        on it. The next start of a broker, or of Logdex, finds a clean store.

        If anything failed before, or fails now, the store is closed without it, and the next start
        recovers it.
        """
        if not self._core.process_lock.is_own:
            return  # in a forked child the store, and any lock held during the fork, belong to its parent
        with self._close_lock:
            if not self._core.closed:
                self._close()

    def _close(self) -> None:
        self._schedule.stop()
        if self._background is not None:
            self._background.stop()
        with self._retention.lock:
            try:
                with self._dispatch.lock:
                    with self._core.lock:
                        is_good = self._core.is_writeable and self._dispatch.error is None
                        self._core.closing = True
                        self._core.group_commit.wait_until_idle()
                        if is_good:
                            self._core.write_held()
                    if is_good:
                        self._close_cleanly()
            finally:
                self._core.close_files()
                self._dispatch.close_files()
                with self._dispatch.lock:
                    self._close_index()
                self._core.close_users()
                self._core.process_lock.release()

    def _close_cleanly(self) -> None:
        core = self._core
        self._dispatch.run()
        self._dispatch.flush()
        self._schedule.save()
        has_index = self._dispatch.derived.index.is_there
        self._dispatch.derived.index.finish()
        with core.lock:
            core.log.drop_ahead()
            core.env.sync_dir(core.log.directory)
            if not has_index:
                return  # the next opening finds no clean store, and derives what the index lacks
            keyless, queues = self._dispatch.derived.index.keyless, self._queues.extents()
            state = closed_state(core.paths, core.reader, core.log.end_offset, queues, keyless, core.config, core.env)
        if state is not None:
            state.write(core.paths.root, core.env)
        if not core.config.dialect.checkpoint_has_logics_offset:
            self._dispatch.checkpoint.write(logics_physical_offset=0)  # else the store looks like a newer one
        core.env.remove(core.paths.abort)
        core.env.sync_dir(core.paths.root)

    def __enter__(self) -> MessageStore:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
