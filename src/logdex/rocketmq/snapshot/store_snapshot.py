"""A RocketMQ store opened for reading: its log, queues and index together. Changes nothing and
takes no lock.

Source: ``docs/formats/store-directory.md``; DefaultMessageStore.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Unpack

from logdex.errors import MissingFileError, StoreError, UsageError
from logdex.io.env import DEFAULT_ENV, Env
from logdex.io.path_look import StrPath
from logdex.primitives.shown import counted, repr_of
from logdex.primitives.text import to_bytes
from logdex.primitives.wrong_questions import require_counts, require_longs, require_times
from logdex.rocketmq.commit_log.commit_log import CommitLog
from logdex.rocketmq.commit_log.log_end import LogEnd
from logdex.rocketmq.consume_queue.consume_queue import ConsumeQueue, discover_queues
from logdex.rocketmq.consume_queue.offset_by_time import Boundary
from logdex.rocketmq.consume_queue.tag_filter import TagFilter
from logdex.rocketmq.files.store_files import StorePaths
from logdex.rocketmq.index_file.index_service import IndexService
from logdex.rocketmq.message.message_id import MessageId
from logdex.rocketmq.message.stored_message import StoredMessage
from logdex.rocketmq.read.get_message import QueueView
from logdex.rocketmq.read.keys.key_offsets import KeyIndex
from logdex.rocketmq.read.look_message import look_message, look_message_by_offset
from logdex.rocketmq.read.message_scan import LogScan
from logdex.rocketmq.read.plan import PlanSource, ReadPlan, plan_read
from logdex.rocketmq.read.queue_reads import Text
from logdex.rocketmq.read.read_filter import ReadFilter, only_queue
from logdex.rocketmq.read.results import OffsetRange, QueueInfo
from logdex.rocketmq.recognise.store_path import StorePath
from logdex.rocketmq.recognise.unfinished import opened_path
from logdex.rocketmq.scan.log_extent import LogExtent, scan_extent
from logdex.rocketmq.settings.store_config import StoreConfig
from logdex.rocketmq.settings.store_settings import StoreSettings
from logdex.rocketmq.snapshot.key_reads import KeyReads
from logdex.rocketmq.snapshot.known_queues import KnownQueues, OpenQueues, no_such_queue
from logdex.rocketmq.snapshot.known_sizes import KnownSizes
from logdex.rocketmq.snapshot.read_mark import ReadMark, ScanEnd
from logdex.rocketmq.snapshot.store_end import find_store_end, was_cut
from logdex.rocketmq.snapshot.time_lookup import offset_by_time


class StoreSnapshot(KeyReads):
    """A read-only view of a store as it was when it was first read through this object, or first
    since the last `refresh`.

    It changes no byte and no mtime, and takes no lock. A broker may go on writing; nothing after
    the log's valid end at that time is returned, except by scans with a limit. `root` may be one
    CommitLog file, which is then the whole store: queues and keys are found by scans of it.

    Safe to share between threads, except for `refresh` and `close`, which do not wait for other
    calls. A context manager. Takes either a `config` or the settings of `resolve_config`; raises
    `UsageError` if both are given, and `NotAStoreError` or a related error if `root` is not a
    store.
    """

    def __init__(
        self,
        root: StrPath | StorePath,
        *,
        config: StoreConfig | None = None,
        env: Env | None = None,
        **geometry: Unpack[StoreSettings],
    ) -> None:
        self._env = env or DEFAULT_ENV
        self.root = opened_path(root, self._env).path
        self.paths = StorePaths(self.root)
        self._closed = False
        self._known: set[tuple[bytes | None, int | None]] = set()
        self._lock = threading.RLock()
        self._names: tuple[tuple[bytes, int, str], ...] | None = None
        self._views: dict[tuple[bytes, int], QueueView] = {}
        self._index: IndexService | None = None
        self._valid_end: LogEnd | None = None
        self._near: LogEnd | None = None
        self._missing: dict[bool, tuple[OffsetRange, ...]] = {}
        self._extent: LogExtent | None = None
        self._sizes = KnownSizes(self.root, config, geometry, self._env)
        self.commit_log = self._open_log()
        self._queues = OpenQueues(self.paths.consume_queue, self.commit_log, self._env)

    def __repr__(self) -> str:
        place = f"CommitLog from offset {self.commit_log.min_offset} on"  # where it ends may not be known yet
        files = counted(len(self.commit_log.files), "file")
        return repr_of(self, repr(self.root), place, files, is_closed=self._closed)

    # -- the parts --------------------------------------------------------------------------------
    @property
    def config(self) -> StoreConfig:
        """The sizes and the version; what no file shows yet is looked for again."""
        return self._sizes.config

    def _open_log(self) -> CommitLog:
        return CommitLog.of_config(self.root, self.config, env=self._env)

    @property
    def index_service(self) -> IndexService:
        """The IndexFiles, opened on first use. Raises `GeometryError` if no file has the size that
        the config gives."""
        with self._lock:
            if self._index is None:
                self._index = self._sizes.open_index()
            return self._index

    def consume_queue(self, topic: Text, queue_id: int) -> ConsumeQueue:
        """Returns one queue, opened on first use. Raises `MissingFileError` if it does not
        exist."""
        name = (to_bytes(topic), queue_id)
        with self._lock:
            return self._queues.open(*name, self.config)

    def queues(self) -> list[QueueInfo]:
        """Returns all queues with a ConsumeQueue directory, by topic and queue id; for one
        CommitLog file the queues of its messages. Reads the ends of each queue."""
        found = []
        for topic, queue_id, directory in self._queue_names():
            view = self._view(topic, queue_id)
            if view is not None:
                found.append(view.info(self.commit_log.min_offset, directory))
        return found

    def _queue_names(self) -> Sequence[tuple[bytes, int, str]]:
        if self.commit_log.is_one_file:
            return [(*name, self.root) for name in sorted(self.log_extent().queues)]
        with self._lock:
            if self._names is None:
                self._names = tuple(discover_queues(self.root, env=self._env))
            return self._names

    def topics(self) -> dict[str, list[int]]:
        """Returns queue ids by topic, of the queues that `queues` returns."""
        found: dict[str, list[int]] = {}
        for topic, queue_id, _ in self._queue_names():
            found.setdefault(topic.decode("utf-8", "surrogateescape"), []).append(queue_id)
        return found

    def require_known(self, topic: Text | None, queue_id: int | None = None) -> None:
        """Raises `MissingFileError`, with the nearest name, for a topic or a queue that has no
        ConsumeQueue, is not in topics.json, and has no message in the log. Where only the log could
        tell and it is damaged, messages of it may be behind the damage, and nothing is raised."""
        name = None if topic is None else to_bytes(topic)
        if (name is None and queue_id is None) or (name, queue_id) in self._known:
            return
        has_folder = self._queues.has_folder(name, queue_id)
        known = None if has_folder else KnownQueues.read(self.root, self._env)
        if known is not None and not known.has(name, queue_id):
            wanted = ReadFilter(topic=name, queue_ids=only_queue(queue_id))
            scan = LogScan(self.plan_source(wanted), wanted, 1, None, self.plan_source)
            is_there = next(iter(scan), None) is not None
            if not is_there and (known or scan.end is None or scan.end.is_clean):
                raise no_such_queue(known or self.log_extent().queues, name, queue_id, self.root)
        self._known.add((name, queue_id))

    def log_extent(self) -> LogExtent:
        """Returns where and why the log ends, and the queues of its messages. The first call scans
        the whole log."""
        with self._lock:
            if self._extent is None:
                self._extent = scan_extent(self.commit_log, None, self.config, env=self._env)
            return self._extent

    @property
    def valid_end(self) -> LogEnd:
        """Where and why the log ends, by its newest known message, or in one file by a scan."""
        with self._lock:
            if self._valid_end is None:
                near, found = self._near, self._find_valid_end(look_behind=True)
                has_grown = near is not None and near.offset < found.offset
                self._valid_end = near if near is not None and has_grown else found
            return self._valid_end

    @property
    def valid_end_offset(self) -> int:
        """The physical offset after the last whole message."""
        return self.near_end().offset

    def near_end(self, *, is_kept: bool = True) -> LogEnd:
        """Returns `valid_end`, but zeros for a hole, because what follows them was not read."""
        with self._lock:
            end = self._near or self._valid_end or self._find_valid_end(look_behind=False)
            if is_kept:
                self._near = end
            return end

    def newest_mark(self) -> ReadMark | None:
        """Returns the mark of the log's last message, None if there is none."""
        return ReadMark.at(self.commit_log, self.near_end().last_message)

    def _find_valid_end(self, *, look_behind: bool) -> LogEnd:
        if self.commit_log.is_one_file:
            return self.log_extent().end
        if self._near is None and self._valid_end is None:
            self.commit_log.refresh()  # a writer may have made files since it was listed
        found = self.root, self.commit_log, self._open_queues(), self.config, self._env
        return find_store_end(*found, look_behind=look_behind).end

    def _open_queues(self) -> Iterator[ConsumeQueue]:
        """Yields all queues that can be opened."""
        for topic, queue_id, _ in self._queue_names():
            with suppress(StoreError):  # reading this queue raises the error
                yield self.consume_queue(topic, queue_id)

    def _view(self, topic: bytes, queue_id: int) -> QueueView | None:
        """Returns a queue with its bounds, or None if it does not exist."""
        with self._lock:
            name, end = (topic, queue_id), self.valid_end_offset
            if name not in self._views:
                try:
                    queue = self.consume_queue(*name)
                    self._views[name] = QueueView.looking_again(queue, self.commit_log.min_offset, end)
                except MissingFileError:
                    self._queues.forget(*name)
                    return None
            return self._views[name]

    def _look_again(self, view: QueueView) -> bool:
        with self._lock:
            if not self._refresh_if_cut() and self._views.get((view.queue.topic, view.queue.queue_id)) is view:
                self._views.clear()
                self._queues.refresh()
        return True

    def _refresh_if_cut(self) -> bool:
        with self._lock:
            is_cut = was_cut(self.commit_log, self.near_end())
            if is_cut:
                self.refresh()
            return is_cut

    # -- reading ----------------------------------------------------------------------------------
    @contextmanager
    def _queue(self, topic: bytes, queue_id: int) -> Iterator[tuple[QueueView | None, CommitLog]]:
        yield self._view(topic, queue_id), self.commit_log

    def _how(self) -> tuple[StoreConfig, Env]:
        return self.config, self._env

    def look_message_by_offset(self, phy_offset: int) -> StoredMessage:
        """Returns the message at a physical offset. Raises `MissingFileError` outside the log, and
        `CorruptError` if no message begins there."""
        return self._found_by(lambda: look_message_by_offset(self.commit_log, self.valid_end_offset, phy_offset))

    def _found_by(self, look: Callable[[], StoredMessage]) -> StoredMessage:
        """Returns what a look finds, or a second one if a broker has cut the log meanwhile."""
        try:
            return look()
        except StoreError:
            if not self._refresh_if_cut():
                raise
        return look()

    def look_message(self, msg_id: str | MessageId) -> StoredMessage:
        """Returns the message with a server's MessageID (32 or 56 hexadecimal digits). Raises
        `UsageError` for other text, `MissingFileError` or `CorruptError` if it is not there."""
        wanted = MessageId.of(msg_id)
        return self._found_by(lambda: look_message(self.commit_log, self.valid_end_offset, wanted))

    def get_offset_in_queue_by_time(
        self, topic: Text, queue_id: int, timestamp_ms: int, boundary: Boundary = "lower"
    ) -> int:
        """Returns the queue offset that the engine of the store's dialect returns for a timestamp;
        0 if the queue does not exist."""
        view = self._view(to_bytes(topic), queue_id)
        if view is None:
            return 0
        return offset_by_time(view, self.commit_log, timestamp_ms, boundary, self.config.dialect, self._env)

    def scan(
        self,
        topic: Text | None = None,
        queue_id: int | None = None,
        begin_ms: int | None = None,
        end_ms: int | None = None,
        *,
        start_offset: int | None = None,
        queue_offset: int | None = None,
        limit: int | None = None,
        tags: Text | None = None,
        time_slack_ms: int | None = None,
        decompress: bool = False,
    ) -> LogScan:
        """Returns the messages that pass the filter (see `ReadFilter`), in log order and at most
        `limit`, as an iterable. After the iteration its `end` states where and why the log ends.
        `start_offset` is the physical offset of a message to begin at, `queue_offset` the first
        offset wanted of each queue, `tags` an expression: ``a || b`` or ``*``. Times exclude no
        file unless `time_slack_ms` states by how much store times go back at most. `decompress`
        decompresses bodies. Raises `MissingFileError`, with the nearest name, for an unknown topic
        or queue, and `UsageError` for `begin_ms` after `end_ms`.
        """
        require_times(begin_ms, end_ms)
        require_longs(queue_id=queue_id)
        require_counts(start_offset=start_offset, queue_offset=queue_offset)
        self.require_known(topic, queue_id)
        self._require_before_end(start_offset)
        wanted = ReadFilter(
            topic=None if topic is None else to_bytes(topic),
            queue_ids=only_queue(queue_id),
            begin_ms=begin_ms,
            end_ms=end_ms,
            begin_offset=start_offset,
            begin_queue_offset=queue_offset,
            tags=TagFilter.parse(tags).tags,
        )
        source, find_end = self.plan_source(wanted), lambda: self._scan_end(limit)
        return LogScan(source, wanted, limit, time_slack_ms, self.plan_source, find_end, decompress=decompress)

    def _scan_end(self, limit: int | None) -> ScanEnd | None:
        """Returns where the log ended when it was first read, so that no scan runs after a broker.
        Returns None if there is damage, and for a single file, because a scan finds that end by
        itself; and if finding the end could take longer than a scan with a limit."""
        if limit is not None and not self._env.is_dir(self.paths.consume_queue):
            return None
        with suppress(StoreError):  # the scan meets it itself
            end = None if self.commit_log.is_one_file else self.near_end(is_kept=limit is None)
            if end is not None and end.is_clean:
                return ScanEnd(self.commit_log, end, self._open_log, lambda: self.valid_end)
        return None

    def _require_before_end(self, phy_offset: int | None) -> None:
        """Raises `UsageError`, which states where the log ends, for an offset behind that. An
        offset behind damage passes, because messages may be there."""
        if phy_offset is None or phy_offset <= self.valid_end_offset:
            return
        if phy_offset >= self.commit_log.end_offset or self.valid_end.is_clean:
            raise UsageError(
                f"physical offset {phy_offset} is behind the end of the log",
                hint=f"the log has offsets {self.commit_log.min_offset} to {self.valid_end_offset} (exclusive)",
            )

    def plan_read(
        self,
        wanted: ReadFilter,
        *,
        columns: Sequence[str] | None = None,
        split_bytes: int | None = None,
        time_slack_ms: int | None = None,
        known_offsets: Iterable[int] = (),
    ) -> ReadPlan:
        """Plans a read (see `logdex.rocketmq.read.plan.plan_read`). Each of the plan's splits can
        be read by itself, also in another process."""
        more = {"split_bytes": split_bytes, "time_slack_ms": time_slack_ms}
        return plan_read(self.plan_source(wanted), wanted, columns=columns, known_offsets=known_offsets, **more)

    def plan_source(self, wanted: ReadFilter) -> PlanSource:
        """Returns what `plan_read` and `LogScan` read for a filter."""
        if self.commit_log.is_one_file:
            return PlanSource(self.commit_log, self.config, None, self._env)
        index = None
        if wanted.key is not None and self._sizes.index_error is None:
            missing = self.missing_ranges(wanted.index_type)
            index = KeyIndex(self.index_service.files, missing, self.valid_end_offset)
        return PlanSource(self.commit_log, self.config, self.root, self._env, index)

    # -- the store as a whole ---------------------------------------------------------------------
    def refresh(self) -> None:
        """Reads what a broker has written meanwhile: files, messages, queues, index entries."""
        with self._lock:
            self.commit_log.refresh()
            if self._sizes.refresh():
                self._close_derived()
            self._queues.refresh()
            if self._index is not None:
                self._index.reload()
            self._views.clear()
            self._names = None
            self._valid_end = self._near = self._extent = None
            self._missing, self._known = {}, set()

    def close(self) -> None:
        """Closes all files."""
        with self._lock:
            self._closed = True
            self._close_derived()
            self.commit_log.close()

    def _close_derived(self) -> None:
        self._queues.close()
        if self._index is not None:
            self._index.close()
        self._index = None

    def __enter__(self) -> StoreSnapshot:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
