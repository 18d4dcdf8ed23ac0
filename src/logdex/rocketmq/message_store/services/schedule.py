"""Delivers delayed messages: what is due in the queues of SCHEDULE_TOPIC_XXXX, one queue per level,
is put again into the topic that it is for.

How far each level is delivered stands in ``config/delayOffset.json``. Deliveries are on disk before
the file counts them, so that a crash can repeat deliveries but loses none. They are counted soon,
while many are delivered too, so that a program that is killed again and again repeats few.

Source: ``docs/formats/config-json.md``; ScheduleMessageService.
"""

from __future__ import annotations

import math
import threading
import time

from logdex.errors import CorruptError, MissingFileError
from logdex.io.atomic_file import write_atomically
from logdex.primitives.wrong_questions import LONG_MAX
from logdex.rocketmq.files.config_files import DelayOffsets, next_data_version
from logdex.rocketmq.files.config_json import format_config_json
from logdex.rocketmq.message.own_topics import HALF_TOPIC_NAME
from logdex.rocketmq.message.stored_message import StoredMessage
from logdex.rocketmq.message.tags_code import SCHEDULE_TOPIC_NAME
from logdex.rocketmq.message_store.core import StoreCore
from logdex.rocketmq.message_store.derived.queues import LiveQueues
from logdex.rocketmq.message_store.put.encode import Encoder
from logdex.rocketmq.message_store.put.message import PutMessageStatus
from logdex.rocketmq.message_store.put.stored import properties_of, put_stored, real_place
from logdex.rocketmq.read.get_message import QueueView

_FILE = "delayOffset.json"
_ENTRIES_AT_ONCE = 32
_PAUSE_PER_SAVE = 20
"""How long a delivery of many messages goes on until they are counted again, as a multiple of the
time that counting took, if that is longer than the store's interval: it waits for the disk."""


class ScheduleMessageService:
    """Delivers the delayed messages of one store. Thread-safe. `StoreCore.lock` is never held while
    its lock is taken."""

    def __init__(self, core: StoreCore, queues: LiveQueues, encoder: Encoder, known: DelayOffsets) -> None:
        """`known` is what ``config/delayOffset.json`` says."""
        self._core, self._queues, self._encoder = core, queues, encoder
        self._lock = threading.Lock()
        self._raw = dict(known.file.raw)
        self._offsets = dict(known.offsets)
        self._is_saved = known.file.path is not None
        self._stopped = False
        self._clock_s = time.monotonic
        self._saved_s, self._saving_s = -math.inf, 0.0
        """When deliveries were counted the last time, and how long that took."""
        self._correct()

    def _view(self, level: int) -> QueueView | None:
        queue = self._queues.view(SCHEDULE_TOPIC_NAME, level - 1)
        core = self._core
        return None if queue is None else QueueView.of(queue, core.reader.min_offset, core.log.end_offset)

    def _correct(self) -> None:
        """Moves offsets of the file into their queues: a log that was cut has fewer messages."""
        for level in range(1, len(self._core.config.delay_levels_ms) + 1):
            if level in self._offsets:
                view = self._view(level)
                low, high = (0, 0) if view is None else (view.min_offset, view.max_offset)
                self._note(level, min(max(self._offsets[level], low), high))

    def _note(self, level: int, offset: int) -> None:
        if self._offsets.get(level) != offset:
            self._offsets[level] = offset
            self._is_saved = False

    def progress(self) -> dict[int, tuple[int, int]]:
        """By level: the queue offset of the next message to deliver, and the end of the level's
        queue."""
        found = {}
        self._core.require_own()
        with self._core.gate.reading():
            self._core.require_open()
            for level in range(1, len(self._core.config.delay_levels_ms) + 1):
                view = self._view(level)
                if view is not None:
                    found[level] = (max(self._offsets.get(level, 0), view.min_offset), view.max_offset)
        return found

    # -- delivering -------------------------------------------------------------------------------
    def deliver_due(self, at_ms: int | None = None) -> int:
        """Delivers what is due at a time, by default now, level by level, and returns how many
        messages that were.

        A message is due when its entry's tagsCode says so. Now, it is due too if that is further
        away than the level's delay: the clock went back since. A level stops at a message that is
        refused, and tries it again next time. Now and then it is saved how far deliveries are.
        """
        if self._core.options.is_slave:
            return 0
        with self._lock:
            now_ms, count = self._core.clock_ms() if at_ms is None else at_ms, 0
            for level, delay_ms in enumerate(self._core.config.delay_levels_ms, 1):
                count += self._deliver_level(level, now_ms, now_ms + delay_ms if at_ms is None else LONG_MAX)
            self._save_if_due(0)
            return count

    def _deliver_level(self, level: int, now_ms: int, believed_ms: int) -> int:
        count = 0
        while due := self._due(level, now_ms, believed_ms):
            for message in due:
                if self._stopped:
                    return count
                put = None if message is None else self._deliver(message)
                if put is not None and put is not PutMessageStatus.PUT_OK:
                    return count
                count += put is not None
                self._core.stats.delivered += put is not None
                self._core.stats.passed_over += put is None
                self._note(level, self._offsets[level] + 1)
            self._save_if_due(_PAUSE_PER_SAVE * self._saving_s)
        return count

    def _due(self, level: int, now_ms: int, believed_ms: int) -> list[StoredMessage | None]:
        """The next messages of a level that are due, which are those too that would be due after
        `believed_ms`; None for an entry without its message. The level's offset is that of the
        first."""
        core = self._core
        with core.gate.reading():
            core.require_usable()
            view = self._view(level)
            if view is None:
                return []
            start = max(self._offsets.get(level, 0), view.min_offset)
            entries = view.queue.entries(start, min(_ENTRIES_AT_ONCE, view.max_offset - start)).tolist()
            if entries:
                self._note(level, start)
            found: list[StoredMessage | None] = []
            for at, (phy_offset, _, deliver_ms) in enumerate(entries, start):
                if now_ms < deliver_ms <= believed_ms:
                    break
                found.append(self._read(phy_offset, level, at))
            return found

    def _read(self, phy_offset: int, level: int, queue_offset: int) -> StoredMessage | None:
        """The message that an entry points to; None if it is gone, damaged or another queue's."""
        try:
            message = self._core.reader.read_message(phy_offset)
        except (MissingFileError, CorruptError):
            return None
        place = (message.topic, message.queue_id, message.queue_offset)
        return message if place == (SCHEDULE_TOPIC_NAME, level - 1, queue_offset) else None

    def _deliver(self, message: StoredMessage) -> PutMessageStatus | None:
        """Puts a message where it belongs. Returns None for one that does not say where, or is half
        of a transaction: the broker passes over it too."""
        pairs = properties_of(message)
        place = real_place(pairs)
        if place is None or place[0] == HALF_TOPIC_NAME:
            return None
        return put_stored(self._core, self._encoder, message, place, pairs, sys_flag=message.sys_flag).status

    def stop(self) -> None:
        """Ends deliveries, before the store is closed."""
        self._stopped = True

    # -- saving -----------------------------------------------------------------------------------
    def save(self) -> None:
        """Writes all deliveries to disk, then how far they are, if that has changed."""
        with self._lock:
            if not self._is_saved:
                self._save()

    def _save_if_due(self, pause_s: float) -> None:
        """As `save`, unless it was saved within `pause_s` or the store's interval. Call it with the
        lock held."""
        begin_s = self._clock_s()
        pause_s = max(pause_s, self._core.options.flush_delay_offset_interval_ms / 1000)
        if self._is_saved or begin_s - self._saved_s < pause_s:
            return
        try:
            self._save()
        finally:  # after a failure, too, messages are delivered before the next try
            self._saved_s = self._clock_s()
            self._saving_s = self._saved_s - begin_s

    def _save(self) -> None:
        core, dialect = self._core, self._core.config.dialect
        core.flush_log()
        raw = dict(self._raw)
        if dialect.topics_have_attributes:
            now_ms = core.clock_ms()
            raw["dataVersion"] = next_data_version(raw.get("dataVersion"), now_ms, has_state=True)
        raw["offsetTable"] = dict(sorted(self._offsets.items()))
        raw = dict(sorted(raw.items()))
        data = format_config_json(raw, number_keys_share_a_line=dialect.number_keys_share_a_line)
        path = f"{core.paths.config}/{_FILE}"
        write_atomically(path, data, backup=f"{path}.bak", env=core.env)
        self._raw, self._is_saved = raw, True
