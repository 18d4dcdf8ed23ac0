"""Reading an open store: what consumers and queries see.

Source: DefaultMessageStore.getMessage, queryMessage, lookMessageByOffset.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from sys import is_finalizing
from typing import Unpack

from logdex.errors import MissingFileError, UsageError
from logdex.io.env import Env
from logdex.primitives.text import to_bytes
from logdex.primitives.wrong_questions import require_longs, require_names, require_seconds, require_times
from logdex.rocketmq.commit_log.commit_log import CommitLog
from logdex.rocketmq.consume_queue.offset_by_time import (
    Boundary,
    QueueBounds,
    offset_in_queue_by_time,
    require_boundary,
)
from logdex.rocketmq.index_file.index_service import IndexService
from logdex.rocketmq.message.message_id import MessageId
from logdex.rocketmq.message.stored_message import StoredMessage
from logdex.rocketmq.message_store.opening import OpenedStore
from logdex.rocketmq.message_store.put.message import Text
from logdex.rocketmq.read.get_message import QueueView
from logdex.rocketmq.read.keys.key_question import KeyQuestion
from logdex.rocketmq.read.keys.key_search import QuerySource
from logdex.rocketmq.read.look_message import look_message, look_message_by_offset
from logdex.rocketmq.read.message_scan import LogScan, ScanOptions
from logdex.rocketmq.read.query import query_as_broker, query_exact
from logdex.rocketmq.read.queue_reads import QueueReads
from logdex.rocketmq.read.results import GetColumnsResult, GetMessageResult, QueryMessageResult, QueueInfo
from logdex.rocketmq.settings.store_config import StoreConfig
from logdex.rocketmq.snapshot.store_snapshot import StoreSnapshot

_OF_SCAN = ("topic", "queue_id", "begin_ms", "end_ms")
_INDEX_DESCRIPTORS_MAX = 8
"""They stay open, so there are few: the ConsumeQueues need descriptors as well."""


class LiveStoreSnapshot(StoreSnapshot):
    """What the scans of an open store read: its files, as another process does. They are closed
    with the last scan."""

    def __del__(self) -> None:
        if hasattr(self, "commit_log") and not is_finalizing():  # a thread that has ended may hold a lock
            self.close()


class ReadableStore(QueueReads):
    """The reads of a `MessageStore`. They see what is dispatched; `wait_dispatched` waits for
    that. Thread-safe. In a forked child they raise `LogInUseError`, as all uses of the store do."""

    def __init__(self, opened: OpenedStore) -> None:
        self._core = opened.core
        self._dispatch = opened.dispatch
        self.load_report = opened.report
        """What opening the store found and changed."""
        self._queues = opened.dispatch.derived.queues
        self._index: IndexService | None = None
        self._index_changes = self._index_upto = 0

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """Keeps files where they are during the block."""
        self._core.require_own()  # a forked child may have inherited locks as held, and dispatches nothing
        with self._core.gate.reading():
            self._core.require_open()
            yield

    def _counted(self) -> AbstractContextManager[list[GetMessageResult | GetColumnsResult]]:
        return self._core.stats.getting()

    # -- offsets ----------------------------------------------------------------------------------
    @property
    def min_phy_offset(self) -> int:
        """The physical offset of the first byte of the log."""
        return self._core.reader.min_offset

    @property
    def max_phy_offset(self) -> int:
        """The physical offset after the last message."""
        return self._core.log.end_offset

    @property
    def dispatch_behind_bytes(self) -> int:
        """How many bytes of the log the ConsumeQueues and IndexFiles lack. With 0, every message
        that was put can be read and found by its keys."""
        return self._dispatch.behind_bytes

    def _behind_bytes(self) -> int:
        return self._dispatch.behind_bytes

    def wait_dispatched(self, timeout: float | None = None) -> bool:
        """Waits until all messages put so far are dispatched, at most `timeout` seconds. Returns
        whether they are. Without background threads it dispatches them.

        Raises the error that stopped the dispatch.
        """
        self._core.require_own()
        require_seconds(timeout=timeout)
        if not self._core.options.background:
            self._dispatch.run()
        return self._dispatch.wait(timeout)

    def queues(self) -> list[QueueInfo]:
        """All queues that have messages, by topic and queue id."""
        with self._reading():
            found = []
            for topic, queue_id in sorted(self._queues.names.values()):
                view = self._view(topic, queue_id)
                if view is not None:
                    found.append(view.info(self._core.reader.min_offset))
            return found

    def topics(self) -> dict[str, list[int]]:
        """Queue ids by topic, of the queues that have messages: a topic is listed once its first
        message is dispatched."""
        self._core.require_own()
        found: dict[str, list[int]] = {}
        for topic, queue_id in sorted(self._queues.names.values()):
            found.setdefault(topic.decode("utf-8", "surrogateescape"), []).append(queue_id)
        return found

    # -- in log order -----------------------------------------------------------------------------
    def scan(
        self,
        topic: Text | None = None,
        queue_id: int | None = None,
        begin_ms: int | None = None,
        end_ms: int | None = None,
        **options: Unpack[ScanOptions],
    ) -> LogScan:
        """Returns the messages that pass the filter, in log order, as `StoreSnapshot.scan` does and
        with its errors. It needs nothing of the store while it reads, and ends where the log ends
        then; what is removed meanwhile is left out."""
        if "offset" in options:
            hint = "queue_offset is a place in a queue, start_offset a byte of the log"
            raise UsageError("unknown option of scan: offset", hint=hint)
        require_names("option of scan", options, (*ScanOptions.__annotations__, *_OF_SCAN))
        return self._own_snapshot().scan(topic, queue_id, begin_ms, end_ms, **options)

    def _own_snapshot(self) -> LiveStoreSnapshot:
        with self._reading():
            return LiveStoreSnapshot(self._core.paths.root, config=self._core.config, env=self._core.env)

    # -- by queue ---------------------------------------------------------------------------------
    def _view(self, topic: bytes, queue_id: int) -> QueueView | None:
        queue = self._queues.view(topic, queue_id)
        if queue is None:
            return None
        high = queue.max_offset  # all entries point into the log
        low = min(queue.min_offset(self._core.reader.min_offset), high)
        return QueueView(queue, low, high, self._core.log.end_offset)

    @contextmanager
    def _queue(self, topic: bytes, queue_id: int) -> Iterator[tuple[QueueView | None, CommitLog]]:
        with self._reading():
            yield self._view(topic, queue_id), self._core.reader

    def _how(self) -> tuple[StoreConfig, Env]:
        return self._core.config, self._core.env

    def get_offset_in_queue_by_time(
        self, topic: Text, queue_id: int, timestamp_ms: int, boundary: Boundary = "lower"
    ) -> int:
        """Returns the queue offset that the engine of the store's version returns for a timestamp;
        0 if the queue does not exist."""
        require_boundary(boundary)
        with self._reading():
            view = self._view(to_bytes(topic), queue_id)
            if view is None:
                return 0
            env, reader = self._core.env, self._core.reader
            return offset_in_queue_by_time(
                view.queue,
                timestamp_ms,
                reader.pickup_store_timestamp_ms,
                QueueBounds(view.min_offset, view.max_offset, reader.min_offset),
                boundary=boundary,
                dialect=self._core.config.dialect,
                modified_ms=lambda path: env.modified_ns(path) // 1_000_000,
            )

    # -- by offset and by key ---------------------------------------------------------------------
    def look_message_by_offset(self, phy_offset: int) -> StoredMessage:
        """Returns the message at a physical offset. Raises `MissingFileError` outside the log, and
        `CorruptError` if no message begins there."""
        with self._reading():
            return look_message_by_offset(self._core.reader, self._core.log.end_offset, phy_offset)

    def look_message(self, msg_id: str | MessageId) -> StoredMessage:
        """Returns the message with a server's MessageID. Raises `UsageError` for other text, and
        `MissingFileError` or `CorruptError` if the log does not hold that message."""
        wanted = MessageId.of(msg_id)
        with self._reading():
            return look_message(self._core.reader, self._core.log.end_offset, wanted)

    def query_message(
        self,
        topic: Text,
        key: Text,
        begin_ms: int | None = None,
        end_ms: int | None = None,
        max: int | None = None,
        *,
        broker_semantics: bool = False,
        cursor: int | None = None,
        index_type: str | None = None,
    ) -> QueryMessageResult:
        """Returns the messages of a topic with exactly this key (one of KEYS, or UNIQ_KEY), newest
        first. Both times are inclusive.

        Returns everything, or pages of `max` messages; `cursor` is the `next_cursor` of a page.
        Messages that are not dispatched yet are found too, by a scan of them. `index_type` ``T``
        searches for a tag. With `broker_semantics` it returns what the broker would: compared by
        hash, at most 64, and nothing that is not dispatched.

        Returns nothing for an unknown topic, which may get its first message at any moment.
        """
        require_longs(begin_ms=begin_ms, end_ms=end_ms, max=max, cursor=cursor)
        if not broker_semantics:
            require_times(begin_ms, end_ms)
        elif cursor is not None:
            raise UsageError("the broker knows no cursor", hint="leave out broker_semantics")
        question = KeyQuestion.of(topic, key, begin_ms, end_ms, index_type)
        core, dispatch = self._core, self._dispatch
        core.require_own()
        with core.gate.reading(), dispatch.lock:
            core.require_open()
            end, reput_from = core.log.end_offset, dispatch.reput_from
            missing = ((reput_from, end),) if reput_from < end else ()
            source = QuerySource(core.reader, self._index_service(), missing, end, core.config, core.env)
            if broker_semantics:
                return query_as_broker(source, question, max_num=max)
            return query_exact(source, question, cursor, scan_missing=True, max_num=max)

    def query(
        self, topic: Text, key: Text, begin_ms: int | None = None, end_ms: int | None = None, max: int | None = None
    ) -> list[StoredMessage]:
        """Returns all messages of a topic with exactly this key, or the newest `max`, newest first.
        Raises `MissingFileError`, with the nearest name, for an unknown topic, and `UsageError` for
        `begin_ms` after `end_ms`."""
        found = self.query_message(topic, key, begin_ms, end_ms, max).messages
        if not found:
            self._own_snapshot().require_known(topic)
        return [*found]

    def _index_service(self) -> IndexService:
        """Returns the IndexFiles as they are now. They stay open until files are created or
        removed. Call it with the dispatch's lock held, and use what it returns while it is held."""
        changes, upto, service = self._dispatch.derived.index.changes, self._dispatch.reput_from, self._index
        if service is not None and service.files and self._index_changes == changes:
            if self._index_upto != upto:
                service.files[-1].reload()  # the others are full
                self._index_upto = upto
            return service
        self._close_index()
        self._index = IndexService(
            self._core.paths.index, self._core.config, env=self._core.env, own_descriptors_max=_INDEX_DESCRIPTORS_MAX
        )
        known = {file.path for file in self._index.files} | {error.path for error in self._index.unusable}
        for path in self._dispatch.derived.index.paths:
            if path not in known:
                hint = "close the store and open it again, which derives the file"
                self._index.unusable.append(MissingFileError("the IndexFile is gone, or empty", path=path, hint=hint))
        self._index_changes, self._index_upto = changes, upto
        return self._index

    def _close_index(self) -> None:
        if self._index is not None:
            self._index.close()
            self._index = None
