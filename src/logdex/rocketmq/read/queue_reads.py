"""The reads of queues that a snapshot and a live store offer alike."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from logdex.errors import CorruptError, VanishedError
from logdex.frames.opened_log import OpenedLog
from logdex.io.env import Env
from logdex.primitives.text import to_bytes
from logdex.primitives.wrong_questions import require_counts, require_given
from logdex.rocketmq.commit_log.commit_log import CommitLog
from logdex.rocketmq.consume_queue.consume_queue import LOOKS_MAX
from logdex.rocketmq.consume_queue.tag_filter import TagFilter
from logdex.rocketmq.message.stored_message import StoredMessage
from logdex.rocketmq.read.get_message import QueueView, get_message
from logdex.rocketmq.read.results import GetColumnsResult, GetMessageResult
from logdex.rocketmq.read.tail import QueueTail, read_tail
from logdex.rocketmq.settings.store_config import StoreConfig

if TYPE_CHECKING:
    from logdex.rocketmq.read.queue_columns import ColumnReader

T = TypeVar("T")
Text = str | bytes
"""A topic, a key or a tag, as text or as the stored bytes."""


class QueueReads(OpenedLog[StoredMessage]):
    """The base of what reads a store. Thread-safe."""

    _column_reader: ColumnReader | None = None

    def _queue(self, topic: bytes, queue_id: int) -> AbstractContextManager[tuple[QueueView | None, CommitLog]]:
        """Opens a queue, or None if there is none, with its log. Both can be read in the block."""
        raise NotImplementedError

    def _how(self) -> tuple[StoreConfig, Env]:
        """Returns the settings by which messages are read."""
        raise NotImplementedError

    def _behind_bytes(self) -> int:
        """Returns how much of the log no queue has yet, as far as this is known."""
        return 0

    def _look_again(self, view: QueueView) -> bool:
        """Opens the queue of `view` anew, and the log if it was cut. Returns False if no other
        process can have changed them."""
        return False

    def _read(
        self,
        topic: Text,
        queue_id: int,
        act: Callable[[QueueView | None, CommitLog], T],
        problems_of: Callable[[T], object] = lambda _: None,
    ) -> T:
        """Returns the result of `act`, which reads a queue. Where it meets a problem, it is called
        again, until the same problem is there: a broker may have removed files of the queue,
        deleted it or created it again, or cut it and the log."""
        told, looks = "", 0
        while True:
            error = None
            with self._queue(to_bytes(topic), queue_id) as (view, log):
                try:
                    found = act(view, log)
                    problem = str(problems_of(found) or "")
                except (CorruptError, VanishedError) as raised:
                    error, problem = raised, str(raised)
            if problem not in ("", told) and looks < LOOKS_MAX and view is not None and self._look_again(view):
                told, looks = problem, looks + 1
            elif error is not None:
                raise error
            else:
                return found

    def _counted(self) -> AbstractContextManager[list[GetMessageResult | GetColumnsResult]]:
        """Opens a list for the result of a read, for who counts them."""
        return nullcontext([])

    def get_message(
        self,
        topic: Text,
        queue_id: int,
        offset: int,
        max_count: int = 32,
        max_bytes: int | None = None,
        tags: Text | None = None,
    ) -> GetMessageResult:
        """Reads messages through the ConsumeQueue from queue offset `offset` on. Returns them with
        the engine's status. `tags` is ``a || b``, or ``*`` for all."""
        require_given(queue_id=queue_id)
        wanted = TagFilter.parse(tags)
        with self._counted() as results:
            found = self._read(
                topic,
                queue_id,
                lambda view, log: get_message(view, log, offset, max_count, max_bytes, wanted),
                lambda found: found.problem,
            )
            results.append(found)
        behind = self._behind_bytes() if found.message_count < max_count else 0
        return replace(found, dispatch_behind_bytes=behind) if behind else found

    def get_tail(
        self,
        topic: Text,
        queue_id: int,
        count: int,
        passes: Callable[[int, StoredMessage], bool] = lambda *_: True,
        first_offset: int = 0,
    ) -> QueueTail:
        """Reads the last `count` messages of a queue for which `passes` returns True, given the
        physical offset and the message, backwards through the ConsumeQueue; none if there is no
        such queue."""
        require_given(queue_id=queue_id, count=count, first_offset=first_offset)
        require_counts(count=count)
        return self._read(
            topic,
            queue_id,
            lambda view, log: QueueTail() if view is None else read_tail(view, log, count, passes, first_offset),
            lambda found: found.problems,
        )

    def get_columns(
        self,
        topic: Text,
        queue_id: int,
        offset: int,
        max_count: int = 4096,
        *,
        columns: Sequence[str] | None = None,
        tags: Text | None = None,
    ) -> GetColumnsResult:
        """Reads messages as `get_message` does, and returns them as an Arrow table with some of the
        columns of a scan (None: all). It is made without a Python object per message, and bodies
        are read only if `columns` has them.

        The table may have fewer rows than `max_count`; continue at `next_begin_offset`. Raises
        `CorruptError` for a damaged message before which there is none to return, and `UsageError`
        for an unknown column or a `max_count` below 1.
        """
        require_given(queue_id=queue_id)
        if self._column_reader is None:
            from logdex.rocketmq.read.queue_columns import ColumnReader

            self._column_reader = ColumnReader(*self._how())
        reader, wanted = self._column_reader, TagFilter.parse(tags)
        with self._counted() as results:
            found = self._read(
                topic, queue_id, lambda view, log: reader.get_columns(view, log, offset, max_count, columns, wanted)
            )
            results.append(found)
        behind = self._behind_bytes() if found.message_count < max_count else 0
        return replace(found, dispatch_behind_bytes=behind) if behind else found
