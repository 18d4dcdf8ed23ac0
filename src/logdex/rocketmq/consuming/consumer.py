"""`Consumer`: reads the messages of a topic, at least once each.

Source: DefaultLitePullConsumer, RebalanceImpl, RebalancePushImpl.computePullFromWhere.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from types import TracebackType
from typing import Literal

from logdex.errors import LogClosedError, LogdexError, LogInUseError, UsageError
from logdex.io.env import Env
from logdex.jobs.look_again import LOOKS_MAX
from logdex.primitives.java_hash import decode_utf8
from logdex.primitives.shown import repr_of
from logdex.primitives.text import to_bytes
from logdex.primitives.wrong_questions import require_counts, require_given, require_poll, require_seconds
from logdex.rocketmq.consume_queue.tag_filter import TagFilter
from logdex.rocketmq.consuming.home import checked_group
from logdex.rocketmq.consuming.local_offsets import LocalFileOffsetStore
from logdex.rocketmq.consuming.membership import Queue
from logdex.rocketmq.consuming.send_back import as_consumed, require_stored, send_back
from logdex.rocketmq.consuming.share import GroupShare, Share, WholeShare
from logdex.rocketmq.consuming.source import end_of_queue, queue_ids, require_in_queue, source_of
from logdex.rocketmq.message.own_topics import retry_topic_of
from logdex.rocketmq.message.stored_message import StoredMessage
from logdex.rocketmq.message_store.message_store import MessageStore
from logdex.rocketmq.message_store.put.message import PutMessageResult
from logdex.rocketmq.read.results import GetMessageStatus
from logdex.rocketmq.snapshot.store_snapshot import StoreSnapshot

_log = logging.getLogger(__name__)
Text = str | bytes
_PAUSE_S = 0.01
"""How long `poll` waits before it looks again."""
_LOOK_MESSAGES = 4096
"""After how many messages a consumer looks whether the log was cut. So many may come again."""
_AT_END = (GetMessageStatus.OFFSET_OVERFLOW_ONE, GetMessageStatus.NO_MATCHED_LOGIC_QUEUE)


class Consumer:
    """Reads a topic as a member of a group: `poll` returns messages, `commit` marks all that were
    returned as consumed.

    At least once: a message that was not committed comes again, to this member or another, when a
    member leaves, dies, or starts again. The messages of one queue come in their order. The queues
    are shared among the members of a group in all threads and processes. A member takes and gives
    up queues in `poll` only: while it works for long between two polls, it keeps them, and one that
    polls no more must be closed, as it is with its `MessageStore`. With ``mode="broadcasting"`` a
    consumer reads all queues, and keeps its offsets in `offset_store`.

    `store` is the `MessageStore` of this process, or a path or `StoreSnapshot` of a store that
    another process may write. `tags` is ``a || b``. A new group starts with the first message, or
    with ``start="last"`` behind the last one. Thread-safe. Raises `UsageError` for a group that no
    broker accepts, `MissingFileError`, with the nearest name, for a topic that the store does not
    have (a `MessageStore` may get it with its first message), and `LogInUseError` from `commit`
    while a broker runs on the store.

    If messages are removed before they were read, the consumer goes on with the first one that is
    there, logs a warning, and counts them in `lost_messages`. If a broker that recovers cuts the
    log, a member that has the store open as a path or a snapshot goes back to the cut, or up to
    some thousand messages before it, because other messages come there, and logs a warning. Offsets
    that were committed before the cut and belong to no member stay, as in the engine.
    """

    def __init__(
        self,
        store: MessageStore | StoreSnapshot | str | os.PathLike[str],
        group: str,
        topic: Text,
        *,
        mode: Literal["clustering", "broadcasting"] = "clustering",
        tags: Text | None = None,
        start: Literal["first", "last"] = "first",
        offset_store: LocalFileOffsetStore | None = None,
        max_reconsume_times: int | None = None,
        rebalance_interval_s: float = 0.5,
        env: Env | None = None,
    ) -> None:
        if mode not in ("clustering", "broadcasting"):
            raise UsageError(f"mode is {mode!r}", hint="use 'clustering' or 'broadcasting'")
        if start not in ("first", "last"):
            raise UsageError(f"start is {start!r}", hint="use 'first' or 'last'; reset_to_time seeks a time")
        if mode == "broadcasting" and offset_store is None:
            raise UsageError(
                "mode='broadcasting' needs an offset_store, the file in which this consumer keeps its offsets",
                hint="offset_store=LocalFileOffsetStore(path)",
            )
        if mode == "clustering" and offset_store is not None:
            raise UsageError(
                "with an offset_store, a consumer reads all queues by itself", hint="give mode='broadcasting' too"
            )
        if offset_store is not None and not isinstance(offset_store, LocalFileOffsetStore):
            raise UsageError(f"offset_store is {offset_store!r}", hint="offset_store=LocalFileOffsetStore(path)")
        require_counts(max_reconsume_times=max_reconsume_times)
        require_seconds(rebalance_interval_s=rebalance_interval_s)
        self.group, self.topic, self.mode = checked_group(group), to_bytes(topic), mode
        self._tags = None if tags is None else to_bytes(tags)
        TagFilter.parse(self._tags)
        self._retry_topic = retry_topic_of(group)
        self._max_reconsume_times = max_reconsume_times
        self._interval_s = rebalance_interval_s
        self._lock = threading.RLock()
        self._positions: dict[Queue, int] = {}
        """The next offset to read of each queue that is this member's."""
        self._committed: dict[Queue, int] = {}
        self.lost_messages = 0
        """How many messages were removed before this member read them. Each time is logged, too."""
        self._turn = self._since_look = 0
        self._shared_s = float("-inf")
        self._closed = False
        self._source = source_of(store, env)
        try:
            self._source.require_known(self.topic)
            self._share = self._make_share(offset_store)
            if start == "last":
                self._start_last()
        except BaseException:
            self._source.close()
            raise
        self._source.closes(self)

    def _make_share(self, offset_store: LocalFileOffsetStore | None) -> Share:
        if offset_store is not None:
            return WholeShare(offset_store, self.topic)
        return GroupShare(self._source, self.group, [self.topic, self._retry_topic])

    def _start_last(self) -> None:
        """Sets the start of all queues at once, so that queues which are added later are read from
        their first message on."""
        ids = queue_ids(self._source.root, self.topic, self._source.env)
        self._source.refresh()
        self._share.start_at(self.topic, {each: end_of_queue(self._source, self.topic, each) for each in ids})

    def __repr__(self) -> str:
        place = repr(self._source.root), repr(self.group), repr(self.topic)
        queues = f"queues {[each for topic, each in self.assignment if topic == self.topic]}"
        retries = [each for topic, each in self.assignment if topic != self.topic]
        more = [f"queues {retries} of {self._retry_topic!r}"] if retries else []
        return repr_of(self, *place, queues, *more, is_closed=self._closed)

    # -- reading ----------------------------------------------------------------------------------
    @property
    def assignment(self) -> tuple[Queue, ...]:
        """The queues that this member reads, as (topic, queue id), those of the retry topic too."""
        return tuple(sorted(self._positions))

    def poll(self, max_messages: int = 32, timeout: float = 0.0) -> list[StoredMessage]:
        """Returns the next messages, at most `max_messages`. Waits up to `timeout` seconds if there
        are none. A message that comes again has its first topic, and its `reconsume_times`.

        Raises `CorruptError` for a damaged message or entry; `seek` goes on behind it.
        """
        require_poll("max_messages", max_messages, timeout)
        until = time.monotonic() + timeout
        while True:
            with self._lock:
                self._require_open()
                found = self._poll(max_messages)
            left = until - time.monotonic()
            if found or left <= 0:
                return found
            time.sleep(min(left, _PAUSE_S))

    def _poll(self, count: int) -> list[StoredMessage]:
        """Reads the next messages. Looks for a cut of the log now and then, and before it says that
        there are none, because what was read may be of two logs."""
        if self._since_look >= _LOOK_MESSAGES:
            self._look()
        self._rebalance()
        for tried in range(LOOKS_MAX):
            try:
                found = self._take(count)
            except LogdexError:
                if not self._source.is_cut():
                    raise
                found = []
            if found or (tried and not self._source.is_cut()):
                self._since_look += len(found)
                return found
            self._look()
        raise LogInUseError("its log was cut each time it was read", path=self._source.root, hint="poll again")

    def _look(self) -> None:
        """Takes in what was put meanwhile. Goes back where the log was cut, and says so."""
        for queue, at in self._source.look(self._positions).items():
            self._positions[queue] = at
            _log.warning(
                "group %s goes back to offset %d of topic %s, queue %d: the log was cut, or what was read last cannot "
                "be read again, and other messages may come there",
                *(self.group, at, decode_utf8(queue[0]), queue[1]),
            )
        self._since_look = 0

    def _rebalance(self) -> None:
        """Now and then takes this member's share of the queues."""
        if time.monotonic() - self._shared_s < self._interval_s:
            return
        topics = [self.topic] if self.mode == "broadcasting" else [self.topic, self._retry_topic]
        ids = {topic: queue_ids(self._source.root, topic, self._source.env) for topic in topics}
        own = self._share.queues(ids)
        if own != self._positions.keys():
            self._positions = {queue: at for queue, at in self._positions.items() if queue in own}
            committed = self._share.committed()
            self._look()  # an older view may end before what another member has committed
            for queue in own - self._positions.keys():
                self._begin(queue, committed.get(queue, 0))
            self._committed = {queue: at for queue, at in committed.items() if queue in own}
        self._shared_s = time.monotonic()

    def _begin(self, queue: Queue, at: int) -> None:
        self._positions[queue] = at
        self._source.begin(queue, at)

    def _take(self, count: int) -> list[StoredMessage]:
        """Reads the queues in turn. Positions move on only with what is returned."""
        queues = self.assignment
        found: list[StoredMessage] = []
        moved: dict[Queue, int] = {}
        for place in range(len(queues)):
            queue = queues[(self._turn + place) % len(queues)]
            try:
                messages, moved[queue] = self._read(queue, count - len(found))
            except LogdexError:
                if found:
                    break  # the next call begins with this queue or comes to it
                raise
            found += messages
            if len(found) >= count:
                break
        self._turn += 1
        self._positions.update(moved)
        return found

    def _read(self, queue: Queue, count: int) -> tuple[list[StoredMessage], int]:
        """Reads one queue. Returns messages and the next offset; goes on behind what has no wanted
        message."""
        topic, queue_id = queue
        tags = self._tags if topic == self.topic else None
        at = self._positions[queue]
        while True:
            result = self._source.get_message(topic, queue_id, at, count, tags)
            if result.status in _AT_END or result.next_begin_offset == at:
                return [], at
            if result.status is GetMessageStatus.OFFSET_TOO_SMALL and (at or queue in self._committed):
                self._tell_loss(queue, at, result.next_begin_offset)
            at = result.next_begin_offset
            if result.messages:
                return [as_consumed(each) if topic == self._retry_topic else each for each in result.messages], at

    def _tell_loss(self, queue: Queue, at: int, first: int) -> None:
        """Says that messages were removed before they were read. As the engine's client, the
        consumer goes on with the first one that is there."""
        self.lost_messages += first - at
        _log.warning(
            "group %s lost %d messages of topic %s, queue %d: they were removed before it read them, "
            "and it goes on at offset %d",
            *(self.group, first - at, decode_utf8(queue[0]), queue[1], first),
        )

    # -- offsets ----------------------------------------------------------------------------------
    def commit(self) -> None:
        """Marks all messages that `poll` has returned as consumed, on disk when this returns."""
        with self._lock:
            self._require_open()
            moved = {queue: at for queue, at in self._positions.items() if self._committed.get(queue) != at}
            if moved:
                self._source.make_durable()
                self._share.commit(moved)
                self._committed.update(moved)

    def position(self, queue_id: int) -> int:
        """The offset of the next message that `poll` reads of a queue of the topic."""
        return self._positions[self._own(queue_id)]

    def seek(self, queue_id: int, offset: int) -> None:
        """Goes on with a queue of the topic at an offset. A commit then commits that. Raises
        `OffsetOutOfRangeError` for one behind the queue's end, and `UsageError` for a negative
        one."""
        with self._lock:
            self._require_open()
            require_given(queue_id=queue_id, offset=offset)
            require_counts(offset=offset)
            queue = self._own(queue_id)
            self._look()
            require_in_queue(self._source, queue, offset)
            self._begin(queue, offset)

    def reset_to_time(self, timestamp_ms: int) -> None:
        """Goes on with all own queues of the topic at the first message stored at or after a
        time."""
        require_given(timestamp_ms=timestamp_ms)
        with self._lock:
            self._require_open()
            self._shared_s = float("-inf")
            self._rebalance()
            self._look()
            for topic, queue_id in self.assignment:
                if topic == self.topic:
                    self._begin((topic, queue_id), self._source.offset_by_time(topic, queue_id, timestamp_ms))

    def _own(self, queue_id: int) -> Queue:
        queue = (self.topic, queue_id)
        with self._lock:
            if queue not in self._positions:
                self._rebalance()
            if queue not in self._positions:
                raise UsageError(f"queue {queue_id} is not this member's", hint="poll, and look at assignment")
        return queue

    # -- what was not consumed --------------------------------------------------------------------
    def reconsume_later(self, message: StoredMessage, delay_level: int = 0) -> PutMessageResult:
        """Sends a message back: it comes again to the group after a while, each time a longer one,
        and after 16 times (`max_reconsume_times`) goes to ``%DLQ%GROUP``. `commit` afterwards.
        `delay_level` 0 means level 3 and one more per time; below 0, the message goes to
        ``%DLQ%GROUP`` at once, as in the engine.

        Only the process that has the store open as a `MessageStore` can do it (`UsageError`).
        Raises `LogFailedError` if the store does not take the message.
        """
        require_stored(message)
        require_given(delay_level=delay_level)
        live = self._source.live
        if live is None or self.mode == "broadcasting":
            raise UsageError(
                "a message is sent back by a member of a group whose process writes the store",
                hint="give the Consumer a MessageStore, or do not commit: the message comes again",
            )
        self._require_open()
        return send_back(live, self.group, message, delay_level, self._max_reconsume_times)

    # -- closing ----------------------------------------------------------------------------------
    def _require_open(self) -> None:
        if self._closed:
            hint = "open it again; a MessageStore that is closed closes its consumers"
            raise LogClosedError("the consumer was closed", path=self._source.root, hint=hint)
        if not self._share.is_own:
            raise LogClosedError("the consumer is another process's", path=self._source.root)

    def close(self) -> None:
        """Leaves the group. Commits nothing."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            try:
                self._share.leave()
            finally:
                self._source.close()

    def __enter__(self) -> Consumer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
