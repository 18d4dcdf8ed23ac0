"""Scanning a CommitLog into columns: windows of messages, and where and why the log ends.

Live dispatch, rebuild, verify, look-ups in what the index has lost, all go through this one. The log ends, as for the
engine, at the first message that is not whole or whose body CRC is wrong; `LogEnd` says which of the three it was:
zeros (never written), torn (cut off), corrupt.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from logdex.errors import CorruptError
from logdex.io.env import DEFAULT_ENV, ByteArray, Env
from logdex.kernels.common.crc import crc_function_address, crc_table
from logdex.kernels.rocketmq import message_scan as kernel
from logdex.layout.rocketmq import MESSAGE_FIXED_SIZE_BYTES_MIN
from logdex.rocketmq.commit_log.commit_log import CommitLog, CommitLogFile
from logdex.rocketmq.commit_log.log_end import EndKind as EndKind
from logdex.rocketmq.commit_log.log_end import LogEnd as LogEnd
from logdex.rocketmq.commit_log.log_end import end_at_zeros, next_file_or_end
from logdex.rocketmq.message.stored_message import decode_message
from logdex.rocketmq.scan.topic_table import TopicTable
from logdex.rocketmq.settings.store_config import StoreConfig

WINDOW_MESSAGES = 16_384
"""Columns of a window (about 90 bytes a message) then stay in the core's cache while they are used."""


@dataclass(slots=True)
class Window:
    """`count` messages in `columns` (the first `count` places; `key_count` places of `key_hash`), valid until the next
    window is asked for. `file` holds all of them; `data` is its mapped bytes."""

    columns: kernel.Columns
    count: int
    key_count: int
    file: CommitLogFile
    data: ByteArray


def make_columns(messages: int) -> kernel.Columns:
    """Room for a window of `messages` messages."""

    def column(name: str) -> npt.NDArray[Any]:
        size = 4 * messages + kernel.KEYS_PER_MESSAGE_MAX if name == "key_hash" else messages
        return np.zeros(size, np.int64 if name in kernel.WIDE_COLUMNS else np.int32)

    return kernel.Columns(*map(column, kernel.Columns._fields))


class Scanner:
    """Scans files with one set of columns and one table of topics. One thread at a time."""

    def __init__(
        self,
        config: StoreConfig,
        *,
        check_crc: bool = True,
        window_messages: int = WINDOW_MESSAGES,
        env: Env = DEFAULT_ENV,
    ) -> None:
        self.table = TopicTable()
        self.messages = 0
        """Messages scanned so far."""
        self.end: LogEnd | None = None
        """Where the last `scan` that ran to its end found the end of the log."""
        self._env = env
        self._columns = make_columns(window_messages)
        places = [column.ctypes.data for column in self._columns]
        self._addresses = kernel.ColumnAddresses._make([*places, window_messages, self._columns.key_hash.size])
        self._state = np.zeros(kernel.STATE_SIZE, np.int64)
        self._levels = np.array(config.delay_levels_ms, np.int64)
        dialect = config.dialect
        self._rules = kernel.Rules(
            check_crc=int(check_crc),
            tags_in_index=int(dialect.tags_in_index),
            prepared_in_index=int(dialect.prepared_in_index),
            crc_function=crc_function_address(),
            crc_table=crc_table().ctypes.data,
            delay_levels_ms=self._levels.ctypes.data,
            delay_level_count=self._levels.size,
        )

    def scan_file(
        self, file: CommitLogFile, start: int = 0, stop: int | None = None
    ) -> Generator[Window, None, LogEnd | None]:
        """Windows of the messages that begin in bytes [start, stop) of a file. What it returns is its `LogEnd`, or None
        where the log goes on: behind the filler, or at `stop`."""
        with self._env.map_read(file.path) as mapped:
            data = mapped.array
            state, reason = self._state, kernel.WINDOW_FULL
            state[kernel.POSITION] = start
            while reason == kernel.WINDOW_FULL:
                state[kernel.COUNT] = state[kernel.KEY_COUNT] = 0
                reason = self._fill(data, file.start_offset, data.size if stop is None else stop)
                if state[kernel.COUNT]:
                    count = int(state[kernel.COUNT])
                    self.messages += count
                    yield Window(self._columns, count, int(state[kernel.KEY_COUNT]), file, data)
            position = int(state[kernel.POSITION])
            if reason in (kernel.FILE_END, kernel.LIMIT):
                return None
            return _log_end(file, data, position, reason)

    def scan(self, log: CommitLog, start_offset: int | None = None) -> Generator[Window, None, LogEnd]:
        """Windows of all messages of a log from `start_offset` (a message's; default: the first) on.

        Where the log ended is returned, and then in `end`.
        """
        self.end = yield from self._scan(log, log.min_offset if start_offset is None else start_offset)
        return self.end

    def _scan(self, log: CommitLog, start_offset: int) -> Generator[Window, None, LogEnd]:
        file = log.file_at_or_before(start_offset)
        while True:
            start = min(max(start_offset - file.start_offset, 0), file.size_bytes)
            stop = yield from self.scan_file(file, start)
            following = next_file_or_end(log, file, int(self._state[kernel.POSITION]), stop)
            if isinstance(following, LogEnd):
                return following
            file = following

    def _fill(self, data: ByteArray, first_offset: int, stop: int) -> int:
        """Runs the kernel until the window is full or the file's part ends; meets new topics and queues."""
        state = self._state
        base = data.ctypes.data
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
            reason = int(state[kernel.REASON])
            if reason == kernel.NEW_TOPIC:
                at = int(state[kernel.TOPIC_ADDRESS]) - base
                self.table.add_topic(data[at : at + int(state[kernel.TOPIC_LENGTH])].tobytes())
            elif reason == kernel.NEW_QUEUE:
                self.table.add_queue(int(state[kernel.TOPIC_ID]), int(state[kernel.QUEUE_ID]))
            else:
                return reason


def _log_end(file: CommitLogFile, data: ByteArray, position: int, reason: int) -> LogEnd:
    if reason == kernel.ZEROS:
        return end_at_zeros(file, position, data)
    if reason == kernel.BAD_DELAY:
        error = CorruptError(
            "the DELAY property is no number: the engine stops here", path=file.path, position=position, field="DELAY"
        )
    else:
        try:
            decode_message(memoryview(data), position, path=file.path)  # type: ignore[arg-type]
        except CorruptError as located:
            error = located
        else:
            error = CorruptError("the message changed while it was read", path=file.path, position=position)
    kind = EndKind.TORN if reason == kernel.TORN or _is_torn(data, position) else EndKind.CORRUPT
    return LogEnd(kind, file.start_offset + position, file.path, position, error.message, error)


def _is_torn(data: ByteArray, position: int) -> bool:
    """Whether the message at `position` was not written to its end: it ends in zeros, and zeros alone follow.

    A whole message ends in its last property, or in a properties length of 0 after a topic; then two bytes are zero.
    """
    if position + 4 > data.size:
        return False
    size = int.from_bytes(data[position : position + 4].tobytes(), "big")
    end = position + size
    if not MESSAGE_FIXED_SIZE_BYTES_MIN <= size <= data.size - position:
        return False
    return not data[end - 3 :].any()
