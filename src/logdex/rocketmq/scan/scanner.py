"""Scans a CommitLog into columns: windows of messages, and where and why the log ends.

Live dispatch, rebuild, verify and searches of unindexed messages all use this scan. As for the
engine, the log ends at the first message that is not whole or has a wrong body CRC. `LogEnd` states
the kind of the end: zeros (never written), torn (cut off) or corrupt.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Generator

import numpy as np

from logdex.errors import UnreadableError, UnusableFileError, VanishedError
from logdex.io.env import DEFAULT_ENV, Env
from logdex.io.mapped.byte_array import ByteArray
from logdex.io.mapped.mapping import has_faults, readable_end, require_readable, take_unreadable
from logdex.io.mapped.partly_loaded import load_pieces, loaded_part, longer_part
from logdex.jobs import look_again
from logdex.kernels.common.crc import crc_function_address, crc_table
from logdex.kernels.compiled import add_plain_work, is_plain_quicker
from logdex.kernels.rocketmq import message_scan as kernel
from logdex.kernels.rocketmq.message_pick import pick_messages
from logdex.layout.rocketmq import BLANK
from logdex.rocketmq.commit_log.commit_log import CommitLog, CommitLogFile
from logdex.rocketmq.commit_log.log_end import EndKind as EndKind
from logdex.rocketmq.commit_log.log_end import (
    LeftOutRange,
    end_at_zeros_of,
    next_file_or_end,
    rest_to_leave_out,
    unreadable_end,
)
from logdex.rocketmq.commit_log.log_end import LogEnd as LogEnd
from logdex.rocketmq.files.store_files import StorePaths
from logdex.rocketmq.scan.plain_window import MESSAGE_US, PlainWindow
from logdex.rocketmq.scan.scan_end import log_end_at
from logdex.rocketmq.scan.topic_table import TopicTable
from logdex.rocketmq.scan.window import Window, make_columns
from logdex.rocketmq.settings.store_config import StoreConfig

WINDOW_MESSAGES = 16_384
"""With this size the columns of a window (about 90 bytes per message) stay in the core's cache
while they are used."""

_LOOKS, _LOOKS_MAX = 5, 50
"""How often a place in a file, and one scan of a log in all, is looked at where a broker may be
writing."""

PART_BLOCK_BYTES, PART_BLOCK_BYTES_MAX = 1 << 12, 1 << 22
"""The size in bytes of the first read of `scan_part`, and the largest size of a later one."""


Behind = Callable[[CommitLogFile, LogEnd], int | None]
"""Returns the position in a file at which a scan goes on behind its end, None if no message follows
in this file."""


class Scanner:
    """Scans files with one set of columns and one table of topics. One thread at a time."""

    def __init__(
        self,
        config: StoreConfig,
        *,
        check_crc: bool = True,
        window_messages: int = WINDOW_MESSAGES,
        table: TopicTable | None = None,
        env: Env = DEFAULT_ENV,
        unreadable_is_damage: bool = False,
        behind: Behind | None = None,
        nobody_writes: bool = False,
    ) -> None:
        """With `behind`, scans go on behind bytes that the disk cannot read, where it says, and
        `left_out` lists them. With `nobody_writes`, bytes that are not whole are looked at once: no
        broker is writing."""
        self._unreadable_is_damage = unreadable_is_damage or behind is not None
        self._behind = behind
        self.left_out: list[LeftOutRange] = []
        """The ranges of the log in which no message could be read."""
        self.table = table or TopicTable()
        self.window_messages = window_messages
        self.messages = 0
        """The number of messages scanned so far."""
        self.end: LogEnd | None = None
        """The end of the log, once a `scan` has reached it."""
        self.stopped_at = 0
        """The position in its file where the last scan of a file or part stopped."""
        self.trimmed: list[str] = []
        """The paths of the files that a broker removed before a `scan` came to them."""
        self._nobody_writes, self._env = nobody_writes, env
        self._looks = 0 if nobody_writes else _LOOKS_MAX
        self._columns = make_columns(window_messages)
        places = [column.ctypes.data for column in self._columns]
        self._addresses = kernel.ColumnAddresses._make([*places, window_messages, self._columns.key_hash.size])
        self._state = np.zeros(kernel.STATE_SIZE, np.int64)
        self._levels = np.array(config.delay_levels_ms, np.int64)
        self._plain = PlainWindow(self._columns, self.table, config)
        self._rules = kernel.Rules(
            check_crc=int(check_crc),
            tags_in_index=int(config.dialect.tags_in_index),
            prepared_in_index=int(config.dialect.prepared_in_index),
            crc_function=crc_function_address(),
            crc_table=crc_table().ctypes.data,
            delay_levels_ms=self._levels.ctypes.data,
            delay_level_count=self._levels.size,
        )

    def __repr__(self) -> str:
        return f"Scanner({self.messages} messages, end={self.end})"

    def _may_be_half_written(self, file: CommitLogFile, look: int = 0) -> bool:
        """Whether a broker may be writing what could not be read, so that it is worth another look.
        Waits for it, longer after each look. This is so a few times, and only while the file
        ``abort`` is there."""
        abort = StorePaths(posixpath.dirname(posixpath.dirname(file.path))).abort
        if look == _LOOKS - 1 or not self._looks or not self._env.exists(abort):
            return False
        self._looks -= 1
        look_again.pause(1 << look)
        return True

    def index_tags(self, tags_in_index: bool) -> None:
        """Sets whether the windows from the next one on have keys for tags; at first the dialect
        decides it."""
        self._rules = self._rules._replace(tags_in_index=int(tags_in_index))

    def check_crcs(self, check_crc: bool) -> None:
        """Sets whether the CRCs of bodies are checked from the next window on."""
        self._rules = self._rules._replace(check_crc=int(check_crc))

    def scan_file(
        self, file: CommitLogFile, start: int = 0, stop: int | None = None
    ) -> Generator[Window, None, LogEnd | None]:
        """Yields windows of the messages that begin in bytes [start, stop) of a file. Returns the
        `LogEnd`, or None if the log continues after the filler or at `stop`. Then `stopped_at` is
        the position where the scan stopped. Where bytes cannot be read or the file was truncated
        meanwhile, `UnreadableError` is raised after the messages before it. With
        `unreadable_is_damage` the log ends there; with `behind` the scan goes on behind them, if a
        message follows in this file."""
        while True:
            end = yield from self._scan_file(file, start, stop)
            if end is None or not end.is_unreadable or self._behind is None:
                return end
            following = self._behind(file, end)
            if following is None:
                return end
            self.left_out.append(LeftOutRange.of(end, file.start_offset + following))
            if stop is not None and following >= stop:
                self.stopped_at = following
                return None
            start = following

    def _scan_file(self, file: CommitLogFile, start: int, stop: int | None) -> Generator[Window, None, LogEnd | None]:
        try:
            mapped = self._env.map_read(file.path, partly=True)
        except UnusableFileError as error:
            if not self._unreadable_is_damage:
                raise
            self.stopped_at = 0
            return unreadable_end(file, 0, error)
        with mapped:
            data = mapped.array
            stop = data.size if stop is None else stop
            self.stopped_at = start
            try:
                look, last = 0, -1
                while True:
                    reason, start = yield from self._windows(file, data, file.start_offset, start, stop)
                    self.stopped_at = start
                    if reason in (kernel.FILE_END, kernel.LIMIT):
                        take_unreadable(data)  # kernels load a few bytes behind the last message, too
                        return None
                    end = log_end_at(file, data, start, reason)
                    require_readable(data, start, data.size)
                    look, last = look + 1 if start == last else 0, start
                    if end.is_clean or not self._may_be_half_written(file, look):
                        return end
            except UnreadableError as error:
                if not self._unreadable_is_damage:
                    raise
                take_unreadable(data)
                return unreadable_end(file, self.stopped_at, error)

    def scan_bytes(
        self, file: CommitLogFile, data: ByteArray, data_offset: int, start: int = 0, stop: int | None = None
    ) -> Generator[Window, None, tuple[bool, int]]:
        """Yields windows of the messages that begin at the positions [start, stop) of `data`, bytes
        of a file from the physical offset `data_offset` on. Returns (whether the file's filler is
        there, the position in `data`) where the scan stopped: at `stop`, or where no whole message
        follows."""
        stop = data.size if stop is None else stop
        self.stopped_at = data_offset + start - file.start_offset
        reason, position = yield from self._windows(file, data, data_offset, start, stop)
        return reason == kernel.FILE_END and position < data.size, position

    def scan_part(self, file: CommitLogFile, start: int, stop: int) -> Generator[Window, None, LogEnd | None]:
        """Yields the windows that `scan_file` yields, for a small part: the bytes are read block by
        block instead of mapping the whole file."""
        with self._env.open_read(file.path) as opened:
            block_bytes = PART_BLOCK_BYTES
            while True:
                data = np.frombuffer(opened.read_at(start, block_bytes), np.uint8)
                reason, done = yield from self._windows(file, data, file.start_offset + start, 0, stop - start)
                is_cut = len(data) == block_bytes and start + block_bytes < opened.size_bytes
                start += done
                self.stopped_at = start
                if is_cut and (reason == kernel.TORN or (reason == kernel.FILE_END and done == len(data))):
                    is_head = len(data) - done >= BLANK.size_bytes
                    size = int.from_bytes(data[done : done + 4].tobytes(), "big") if is_head else 0
                    if start + size <= opened.size_bytes:
                        block_bytes = max(min(2 * block_bytes, PART_BLOCK_BYTES_MAX), size)
                        continue
                if reason in (kernel.FILE_END, kernel.LIMIT):
                    return None
                if reason == kernel.ZEROS:
                    end = end_at_zeros_of(file, start, opened)
                else:
                    with self._env.map_read(file.path, partly=True) as mapped:  # bytes after it decide the error
                        end = log_end_at(file, mapped.array, start, reason)
                if end.is_clean or not self._may_be_half_written(file):
                    return end

    def pick(
        self,
        file: CommitLogFile,
        data: ByteArray,
        places: kernel.Int64s,
        offsets: kernel.Int64s,
        sizes: kernel.Int64s,
        *,
        check_crc: bool,
    ) -> tuple[Window, bool]:
        """Returns (a window of the messages at known places in `data`, with their physical offsets
        and sizes, in that order and at most `window_messages`; whether all of them are whole
        messages of these sizes). If not, the window ends before the first one that is not."""
        places, offsets, sizes = (np.ascontiguousarray(part, np.int64) for part in (places, offsets, sizes))
        load_pieces(data, places, sizes)
        state, rules = np.zeros(kernel.STATE_SIZE, np.int64), self._rules._replace(check_crc=int(check_crc))
        if is_plain_quicker():
            self._plain.pick(data, places, sizes, offsets, state, rules)
            add_plain_work(int(state[kernel.COUNT]) * MESSAGE_US)
        else:
            addresses = (data.ctypes.data, data.size, places.ctypes.data, sizes.ctypes.data, offsets.ctypes.data)
            while True:
                tables = self.table.lookup_tables()
                pick_messages(*addresses, len(places), state.ctypes.data, self._addresses, tables, rules)
                if not self._meet_name(state, data):
                    break
        count, keys = int(state[kernel.COUNT]), int(state[kernel.KEY_COUNT])
        window = Window(self._columns, count, keys, file, data, file.start_offset, places[:count])
        return window, int(state[kernel.REASON]) in (kernel.LIMIT, kernel.WINDOW_FULL)

    def scan(self, log: CommitLog, start_offset: int | None = None) -> Generator[Window, None, LogEnd]:
        """Yields windows of all messages of a log from `start_offset` on, which must be that of a
        message (default: the first).

        Returns the end of the log, which is then also in `end`.
        """
        self._looks = 0 if self._nobody_writes else _LOOKS_MAX
        self.end = yield from self._scan(log, log.min_offset if start_offset is None else start_offset)
        return self.end

    def _scan(self, log: CommitLog, start_offset: int) -> Generator[Window, None, LogEnd]:
        file = log.file_at_or_before(start_offset)
        while True:
            start = min(max(start_offset - file.start_offset, 0), file.size_bytes)
            try:
                stop = yield from self.scan_file(file, start)
            except VanishedError:
                if not log.was_trimmed(file.start_offset):
                    raise
                self.trimmed.append(file.path)
                stop, self.stopped_at = None, 0
            rest = None if self._behind is None else rest_to_leave_out(log, file, stop)
            if rest is not None:
                self.left_out.append(rest)
                stop, self.stopped_at = None, file.size_bytes
            is_damage = self._unreadable_is_damage
            following = next_file_or_end(log, file, self.stopped_at, stop, unreadable_is_damage=is_damage)
            if isinstance(following, LogEnd):
                return following
            file = following

    def _windows(
        self, file: CommitLogFile, data: ByteArray, data_offset: int, start: int, stop: int
    ) -> Generator[Window, None, tuple[int, int]]:
        """Yields windows of the messages that begin in bytes [start, stop) of `data`, whose first
        byte has the physical offset `data_offset`. Returns the kernel's code for why it stopped,
        and the position."""
        state, reason = self._state, kernel.WINDOW_FULL
        state[kernel.POSITION] = start
        while reason == kernel.WINDOW_FULL:
            state[kernel.COUNT] = state[kernel.KEY_COUNT] = 0
            begin = int(state[kernel.POSITION])
            part = loaded_part(data, begin, stop)
            reason = self._fill_shown(file, part, data_offset, stop)
            position, count = int(state[kernel.POSITION]), int(state[kernel.COUNT])
            is_end = reason == kernel.TORN or (reason == kernel.FILE_END and position == part.size)
            if is_end and part.size < data.size:  # only what is loaded ends there
                longer_part(data, part, position)
                reason = kernel.WINDOW_FULL
            readable = readable_end(data, self.stopped_at, position)
            if readable < position:
                count = self._whole_before(data_offset + readable, count)
            if count:
                self.messages += count
                self.stopped_at = self._end_of(count) - file.start_offset
                keys = int(self._columns.key_end[count - 1])
                yield Window(self._columns, count, keys, file, data, data_offset)
                state[kernel.POSITION] = position
            if not self._unreadable_is_damage:  # whoever took the window has read its bytes again
                require_readable(data, begin, position)
            require_readable(data, self.stopped_at, position)
        return reason, position

    def _whole_before(self, offset: int, count: int) -> int:
        """Returns how many of the first `count` messages of the columns end at or before a physical
        offset."""
        ends = self._columns.position[:count] + self._columns.size[:count]
        return int(np.searchsorted(ends, offset, side="right"))

    def _end_of(self, count: int) -> int:
        """Returns the physical offset after the first `count` messages of the columns."""
        return int(self._columns.position[count - 1]) + int(self._columns.size[count - 1])

    def _fill_shown(self, file: CommitLogFile, data: ByteArray, data_offset: int, stop: int) -> int:
        """Runs `_fill`, and again while a broker may be writing the last message: its properties
        end in a zero byte, which no CRC covers. They may have been zeros before that byte was
        looked at, so the message is read once more behind it."""
        state, columns, look = self._state, self._columns, 0
        begin = int(state[kernel.POSITION])
        while True:
            reason, last = self._fill(data, data_offset, stop), int(state[kernel.COUNT]) - 1
            if last < 0 or not columns.properties_length[last] or self._nobody_writes:
                return reason
            if data[self._end_of(last + 1) - 1 - data_offset] or not self._may_be_half_written(file, look):
                return self._fill_last(data, data_offset, reason)
            state[kernel.POSITION], state[kernel.COUNT], state[kernel.KEY_COUNT] = begin, 0, 0
            look += 1

    def _fill_last(self, data: ByteArray, data_offset: int, reason: int) -> int:
        """Reads the last message of the columns again, behind which `_fill` stopped for `reason`.
        Returns the reason to stop, which is another one if the message is not there any more."""
        state, columns = self._state, self._columns
        last = int(state[kernel.COUNT]) - 1
        place = int(columns.position[last]) - data_offset
        keys = int(columns.key_end[last - 1]) if last else 0
        state[kernel.POSITION], state[kernel.COUNT], state[kernel.KEY_COUNT] = place, last, keys
        found = self._fill(data, data_offset, place + 1)
        if found != kernel.LIMIT:
            return found
        state[kernel.REASON] = reason
        return reason

    def _fill(self, data: ByteArray, first_offset: int, stop: int) -> int:
        """Runs the kernel until the window is full or the part of the file ends, and adds new
        topics and queues to the table."""
        state, base = self._state, data.ctypes.data
        if is_plain_quicker():
            reason = self._plain.scan(data, first_offset, stop, state, self._rules)
            add_plain_work(int(state[kernel.COUNT]) * MESSAGE_US)
            return reason
        while True:
            kernel.scan_window(
                base,
                first_offset,
                data.size,
                stop,
                state.ctypes.data,
                self._addresses,
                self.table.lookup_tables(),
                self._rules,
            )
            if not self._meet_name(state, data):
                return int(state[kernel.REASON])

    def _meet_name(self, state: kernel.Int64s, data: ByteArray) -> bool:
        """Adds the unknown topic or queue at which a kernel stopped. Returns False if it stopped
        for another reason, or if the name cannot be read."""
        reason = int(state[kernel.REASON])
        if reason == kernel.NEW_TOPIC:
            at = int(state[kernel.TOPIC_ADDRESS]) - data.ctypes.data
            topic = data[at : at + int(state[kernel.TOPIC_LENGTH])].tobytes()
            if has_faults(data):
                return False
            self.table.add_topic(topic)
        elif reason == kernel.NEW_QUEUE:
            self.table.add_queue(int(state[kernel.TOPIC_ID]), int(state[kernel.QUEUE_ID]))
        else:
            return False
        return True
