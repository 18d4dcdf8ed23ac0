"""The two-step read into Arrow columns: the entries of one queue, then the messages that they point
to, without a Python object per message.

The rows are those of `get_message`. What is unusual (a gap, a removed file, a light queue, damage)
is left to it. Source: DefaultMessageStore.getMessage.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence

import numpy as np
import pyarrow as pa

from logdex.errors import MissingFileError, UsageError, VanishedError
from logdex.io.env import Env
from logdex.io.mapped.mapping import map_pages
from logdex.io.mapped.partly_loaded import forget_before
from logdex.kernels.rocketmq.message_scan import Int64s
from logdex.primitives.wrong_questions import require_given
from logdex.rocketmq.columns.message_arrow import messages_to_batch
from logdex.rocketmq.columns.message_columns import make_batches, schema_of
from logdex.rocketmq.commit_log.commit_log import CommitLog, CommitLogFile
from logdex.rocketmq.consume_queue.consume_queue import ENTRY_DTYPE, ENTRY_SIZE_BYTES, EntryArray
from logdex.rocketmq.consume_queue.tag_filter import TagFilter
from logdex.rocketmq.read.get_message import QueueView, fills_gap, get_message, outside
from logdex.rocketmq.read.parts.row_filter import RowFilter
from logdex.rocketmq.read.results import GetColumnsResult, GetMessageStatus
from logdex.rocketmq.scan.scanner import WINDOW_MESSAGES, Scanner
from logdex.rocketmq.scan.window import Window
from logdex.rocketmq.settings.store_config import StoreConfig

_PLAIN_COUNT = 32
"""How many messages `get_message` reads where it is asked."""
_DENSE_BYTES = 1 << 16
"""If there is a message of the queue per so many bytes of the log, all pages from the first message
to the last are mapped at once. The system maps about as much for each message by itself."""
_Rows = tuple[Window, Int64s]


class ColumnReader:
    """Reads queues of one store. Thread-safe."""

    def __init__(self, config: StoreConfig, env: Env) -> None:
        self._config = config
        self._env = env
        self._idle: list[Scanner] = []

    def get_columns(
        self,
        view: QueueView | None,
        log: CommitLog,
        offset: int,
        max_count: int,
        columns: Sequence[str] | None = None,
        tags: TagFilter | None = None,
    ) -> GetColumnsResult:
        """Returns at most `max_count` messages of a queue from queue offset `offset` on, with some
        columns (None: all). The CRC is checked only if bodies are read.

        `view` is None if there is no such queue. Raises `CorruptError` for a damaged message before
        which there is none to return, and `UsageError` for an unknown column or a `max_count` below
        1.
        """
        schema = schema_of(columns)
        require_given(offset=offset, max_count=max_count)
        if max_count < 1:
            raise UsageError(f"max_count must be 1 or more, got {max_count}")
        if view is None:
            return GetColumnsResult(GetMessageStatus.NO_MATCHED_LOGIC_QUEUE, 0, schema.empty_table())
        low, high = view.min_offset, view.max_offset
        refused = outside(offset, low, high)
        if refused is not None:
            return GetColumnsResult(*refused, schema.empty_table(), low, high)
        tags = tags or TagFilter()
        bodies = columns is None or "body" in columns
        try:
            scanner = self._idle.pop()
        except IndexError:
            scanner = Scanner(self._config, env=self._env)
        reading = _QueueReading(view, log, scanner, self._env, tags, bodies, offset, max_count)
        batches = list(make_batches(reading.windows(), scanner.table, columns))
        self._idle.append(scanner)
        if batches or reading.at >= high:
            status = GetMessageStatus.FOUND if batches else GetMessageStatus.NO_MATCHED_MESSAGE
            return GetColumnsResult(status, reading.at, pa.Table.from_batches(batches, schema), low, high)
        found = get_message(view, log, reading.at, min(max_count, _PLAIN_COUNT), tags=tags)
        batch = messages_to_batch(zip(found.phy_offsets, found.messages, strict=True)).select(schema.names)
        return GetColumnsResult(found.status, found.next_begin_offset, pa.Table.from_batches([batch]), low, high)


class _QueueReading:
    """One read. `at` is the queue offset that follows the last message that was read, or where the
    read met something unusual."""

    def __init__(
        self,
        view: QueueView,
        log: CommitLog,
        scanner: Scanner,
        env: Env,
        tags: TagFilter,
        bodies: bool,
        at: int,
        count_max: int,
    ) -> None:
        self.at = at
        self._view = view
        self._log = log
        self._scanner = scanner
        self._env = env
        self._tags = tags
        self._bodies = bodies
        self._left = count_max

    def windows(self) -> Iterator[_Rows]:
        """Yields windows of messages with the places of the wanted ones."""
        while self._left and self.at < self._view.max_offset:
            first, entries = self.at, self._entries()
            if not len(entries):
                return
            places = np.flatnonzero(self._tags.match_entries(entries))
            while len(places):
                file = self._log.file_of(int(entries[places[0]]["physical_offset"]))
                if file is None:
                    self.at = first + int(places[0])
                    return
                done = yield from self._of_file(file, first, entries, places)
                if not done:
                    return
                places = places[done:]
            self.at = first + len(entries)

    def _entries(self) -> EntryArray:
        """Returns the next entries, up to one that points to no message of the log."""
        view, at = self._view, self.at
        per_file = view.queue.file_size_bytes // ENTRY_SIZE_BYTES
        count = min(WINDOW_MESSAGES, per_file - at % per_file, view.max_offset - at)
        if self._tags.tags is None:
            count = min(count, self._left)
        try:
            entries = view.queue.entries(at, count)
        except MissingFileError:
            return np.empty(0, ENTRY_DTYPE)
        offsets = entries["physical_offset"]
        unusual = fills_gap(view, at, entries) | (offsets < self._log.min_offset) | (offsets >= view.log_end_offset)
        return entries[: int(np.argmax(unusual))] if unusual.any() else entries

    def _of_file(
        self, file: CommitLogFile, first: int, entries: EntryArray, places: Int64s
    ) -> Generator[_Rows, None, int]:
        """Reads the messages of entries at `places` as long as they lie in one file. Returns how
        many were read, 0 if the read ends there."""
        offsets = entries["physical_offset"][places].astype(np.int64)
        sizes = entries["size"][places].astype(np.int64)
        is_elsewhere = (offsets < file.start_offset) | (offsets >= file.end_offset)
        count = int(np.argmax(is_elsewhere)) if is_elsewhere.any() else len(places)
        try:
            mapped = self._env.map_read(file.path, partly=True)
        except VanishedError:
            self.at = first + int(places[0])
            return 0
        with mapped:
            positions, done = offsets[:count] - file.start_offset, 0
            begin, end = int(positions.min()), int((positions + sizes[:count]).max())
            if end - begin <= count * _DENSE_BYTES:
                map_pages(mapped.array, begin, end)
            while done < count:
                rest = slice(done, count)
                forget_before(mapped.array, int(positions[rest].min()))
                window, is_good = self._scanner.pick(
                    file, mapped.array, positions[rest], offsets[rest], sizes[rest], check_crc=self._bodies
                )
                good = self._agreeing(window)
                rows = np.arange(good)
                if self._tags.tags is not None and good:
                    rows = rows[RowFilter.has_tag(window, rows, self._tags.tags)]
                rows = rows[: self._left]
                if len(rows):
                    yield window, rows
                    self._left -= len(rows)
                    if not self._left:
                        self.at = first + int(places[done + rows[-1]]) + 1
                        return 0
                done += good
                if not is_good or good < window.count:
                    self.at = first + int(places[done])
                    return 0
        return count

    def _agreeing(self, window: Window) -> int:
        """Returns how many messages of a window, from its first on, are of the queue."""
        view, columns, count = self._view, window.columns, window.count
        queue = (view.queue.topic, view.queue.queue_id)
        is_own = np.array([each == queue for each in self._scanner.table.queues], np.bool_)
        if not count:
            return 0
        same = is_own[columns.queue[:count]]
        return count if same.all() else int(np.argmin(same))
