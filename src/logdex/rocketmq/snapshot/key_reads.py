"""The look-ups by key of a store that is opened for reading."""

from __future__ import annotations

import threading
from abc import abstractmethod

from logdex import limits
from logdex.errors import UsageError
from logdex.io.env import Env
from logdex.primitives.wrong_questions import require_given, require_longs, require_times
from logdex.rocketmq.commit_log.commit_log import CommitLog
from logdex.rocketmq.commit_log.log_end import LogEnd
from logdex.rocketmq.index_file.index_keys import TAG_INDEX_TYPE
from logdex.rocketmq.index_file.index_service import IndexService, QueryOffsetResult
from logdex.rocketmq.message.stored_message import StoredMessage
from logdex.rocketmq.read.keys.index_coverage import find_missing
from logdex.rocketmq.read.keys.key_question import TIME_MAX_MS, KeyQuestion
from logdex.rocketmq.read.keys.key_search import KeySearch, QuerySource
from logdex.rocketmq.read.query import query_as_broker, query_exact
from logdex.rocketmq.read.queue_reads import QueueReads, Text
from logdex.rocketmq.read.results import OffsetRange, QueryMessageResult
from logdex.rocketmq.settings.store_config import StoreConfig


class KeyReads(QueueReads):
    """The base of `StoreSnapshot`, which has the parts that are named here."""

    root: str
    commit_log: CommitLog
    _env: Env
    _lock: threading.RLock
    _missing: dict[bool, tuple[OffsetRange, ...]]

    @property
    @abstractmethod
    def config(self) -> StoreConfig:
        """The sizes and the version."""

    @property
    @abstractmethod
    def index_service(self) -> IndexService:
        """The IndexFiles."""

    @abstractmethod
    def require_known(self, topic: Text | None, queue_id: int | None = None) -> None:
        """Raises `MissingFileError` for an unknown topic or queue."""

    @abstractmethod
    def _refresh_if_cut(self) -> bool:
        """Looks at the whole store again if its log was cut. Returns whether it was."""

    @property
    @abstractmethod
    def valid_end(self) -> LogEnd:
        """Where and why the log ends."""

    @property
    @abstractmethod
    def valid_end_offset(self) -> int:
        """The physical offset after the last whole message."""

    def query_offset(
        self,
        topic: Text,
        key: Text,
        max_num: int = limits.QUERY_MAX_NUM,
        begin_ms: int = 0,
        end_ms: int = TIME_MAX_MS,
        index_type: str | None = None,
    ) -> QueryOffsetResult:
        """Returns what the broker's index returns: at most 64 offsets, newest first, compared by
        hash and whole seconds."""
        require_given(max_num=max_num, begin_ms=begin_ms, end_ms=end_ms)
        return self.index_service.query_offset(topic, key, max_num, begin_ms, end_ms, index_type)

    def query_message(
        self,
        topic: Text,
        key: Text,
        begin_ms: int | None = None,
        end_ms: int | None = None,
        max: int | None = None,
        *,
        broker_semantics: bool = False,
        scan_missing: bool = False,
        cursor: int | None = None,
        index_type: str | None = None,
    ) -> QueryMessageResult:
        """Returns the messages of a topic with exactly this key (one of KEYS, or UNIQ_KEY), newest
        first. Both times are inclusive.

        Returns everything, or pages of `max` messages; `cursor` is the `next_cursor` of a page.
        `scan_missing` also searches the parts of the log that no IndexFile covers. `index_type`
        ``T`` searches for a tag. `broker_semantics` returns what `query_as_broker` does instead.

        Raises `MissingFileError`, with the nearest name, for an unknown topic, unless
        `broker_semantics` are asked for.
        """
        require_longs(begin_ms=begin_ms, end_ms=end_ms, max=max, cursor=cursor)
        question = KeyQuestion.of(topic, key, begin_ms, end_ms, index_type)
        source = self._query_source(() if broker_semantics else self.missing_ranges(index_type))
        if broker_semantics and (scan_missing or cursor is not None):
            raise UsageError("the broker knows neither scan_missing nor a cursor", hint="leave out broker_semantics")
        if broker_semantics:
            return query_as_broker(source, question, max_num=max)
        self._require_question(topic, question)
        found = query_exact(source, question, cursor, scan_missing=scan_missing, max_num=max)
        if found.unreadable and self._refresh_if_cut():
            source = self._query_source(self.missing_ranges(index_type))
            return query_exact(source, question, cursor, scan_missing=scan_missing, max_num=max)
        return found

    def query(
        self, topic: Text, key: Text, begin_ms: int | None = None, end_ms: int | None = None, max: int | None = None
    ) -> list[StoredMessage]:
        """Returns all messages of a topic with exactly this key, or the newest `max`, newest first,
        whether an IndexFile covers them or not. `query_message` also says what was searched."""
        return [*self.query_message(topic, key, begin_ms, end_ms, max, scan_missing=True).messages]

    def search_messages(
        self,
        topic: Text,
        key: Text,
        begin_ms: int | None = None,
        end_ms: int | None = None,
        *,
        scan_missing: bool = False,
        cursor: int | None = None,
        index_type: str | None = None,
    ) -> KeySearch:
        """Returns the messages of `query_message` as an iterable that reads one after the other.
        Raises what that raises."""
        source = self._query_source(self.missing_ranges(index_type))
        question = KeyQuestion.of(topic, key, begin_ms, end_ms, index_type)
        self._require_question(topic, question)
        return KeySearch(source, question, cursor, scan_missing=scan_missing)

    def _require_question(self, topic: Text, question: KeyQuestion) -> None:
        require_times(question.begin_ms, question.end_ms)
        self.require_known(topic)

    def _query_source(self, missing: tuple[OffsetRange, ...]) -> QuerySource:
        log, index, end = self.commit_log, self.index_service, self.valid_end_offset
        store, is_clean = (None, self.valid_end.is_clean) if log.is_one_file else (self.root, True)
        return QuerySource(log, index, missing, end, self.config, self._env, store, is_clean)

    def missing_ranges(self, index_type: str | None = None) -> tuple[OffsetRange, ...]:
        """The parts of the CommitLog with keys (``T``: and tags) that no IndexFile covers. Found
        once."""
        tags = index_type == TAG_INDEX_TYPE
        with self._lock:
            if tags not in self._missing:
                files, end = self.index_service.files, self.valid_end_offset
                self._missing[tags] = find_missing(files, self.commit_log, end, self.config, self._env, tags=tags)
            return self._missing[tags]
