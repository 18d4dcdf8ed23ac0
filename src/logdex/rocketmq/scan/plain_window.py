"""Fills windows with messages that are decoded one by one: as the scan kernel and the pick kernel
do, but without Numba. For a few messages this is quicker than loading Numba
(`logdex.kernels.compiled.is_plain_quicker`). Property tests compare the windows of both."""

from __future__ import annotations

from dataclasses import replace

from logdex import limits
from logdex.io.mapped.byte_array import ByteArray
from logdex.io.mapped.mapping import has_faults
from logdex.kernels.rocketmq import message_scan as kernel
from logdex.layout.rocketmq import MESSAGE_FIXED_SIZE_BYTES_MIN, MESSAGE_MAGIC_V2
from logdex.rocketmq.index_file.index_keys import message_key_hashes
from logdex.rocketmq.message import properties as props
from logdex.rocketmq.message.stored_message import StoredMessage
from logdex.rocketmq.message.tags_code import tags_code
from logdex.rocketmq.scan.plain_scan import next_message
from logdex.rocketmq.scan.topic_table import TopicTable
from logdex.rocketmq.settings.store_config import StoreConfig

MESSAGES_MAX = 64
"""The messages of a window, so that a reader that stops early has decoded few for nothing."""
MESSAGE_US = 40
"""About how long a message of 100 bytes takes."""


class PlainWindow:
    """Puts messages into `columns`. Of a kernel's state, the counts, the position and the reason
    are kept."""

    def __init__(self, columns: kernel.Columns, table: TopicTable, config: StoreConfig) -> None:
        self._columns, self._table, self._config = columns, table, config

    def scan(self, data: ByteArray, first_offset: int, stop: int, state: kernel.Int64s, rules: kernel.Rules) -> int:
        """Does what `kernel.scan_window` does, and returns the reason why it stopped."""
        at = int(state[kernel.POSITION])
        while True:
            if at >= stop:
                reason = kernel.LIMIT
            elif self._is_full(state):
                reason = kernel.WINDOW_FULL
            else:
                reason, size = self._put_next(data, at, first_offset + at, None, state, rules)
            if reason >= 0:
                state[kernel.POSITION], state[kernel.REASON] = at, reason
                return reason
            at += size

    def pick(
        self,
        data: ByteArray,
        places: kernel.Int64s,
        sizes: kernel.Int64s,
        offsets: kernel.Int64s,
        state: kernel.Int64s,
        rules: kernel.Rules,
    ) -> int:
        """Does what `kernel.pick_messages` does, and returns the reason why it stopped."""
        for place, size, offset in zip(places.tolist(), sizes.tolist(), offsets.tolist(), strict=True):
            reason = kernel.WINDOW_FULL
            if not self._is_full(state):
                reason, _ = self._put_next(data, place, offset, size, state, rules)
            if reason >= 0:
                break
        else:
            reason = kernel.LIMIT
        state[kernel.REASON] = reason
        return reason

    def _is_full(self, state: kernel.Int64s) -> bool:
        count, keys = int(state[kernel.COUNT]), int(state[kernel.KEY_COUNT])
        room = min(len(self._columns.position), MESSAGES_MAX)
        return count >= room or keys + kernel.KEYS_PER_MESSAGE_MAX > len(self._columns.key_hash)

    def _put_next(
        self, data: ByteArray, at: int, offset: int, size: int | None, state: kernel.Int64s, rules: kernel.Rules
    ) -> tuple[int, int]:
        """Puts the message at a position, which has a physical offset and, if it is known, a size.
        Returns (-1 or the reason not to, its size)."""
        if not 0 <= at < data.size:
            return (kernel.FILE_END if at == data.size else kernel.TORN), 0
        head = data[at : at + 4].tobytes()
        stated = int.from_bytes(head, "big", signed=True)
        enough = max(min(stated, limits.MESSAGE_SIZE_BYTES_MAX), MESSAGE_FIXED_SIZE_BYTES_MIN)
        reason, message = next_message(data[at : at + enough].tobytes(), 0, bool(rules.check_crc))
        if message is None:
            return reason, 0
        if size is not None and size != message.size_bytes:
            return kernel.BAD_SIZE, 0
        code = tags_code(message, self._config)
        if code is None:
            return kernel.BAD_DELAY, 0
        if has_faults(data):  # no topic is taken from bytes that could not be read
            return kernel.NEW_TOPIC, 0
        self._put(message, offset, code, state, bool(rules.tags_in_index))
        return -1, message.size_bytes

    def _put(self, message: StoredMessage, offset: int, code: int, state: kernel.Int64s, tags_in_index: bool) -> None:
        columns = self._columns
        i, keys = int(state[kernel.COUNT]), int(state[kernel.KEY_COUNT])
        dialect = self._config.dialect
        if dialect.tags_in_index != tags_in_index:
            dialect = replace(dialect, tags_in_index=tags_in_index)
        hashes = message_key_hashes(message, dialect)
        columns.key_hash[keys : keys + len(hashes)] = hashes
        keys += len(hashes)
        properties_at = message.size_bytes - len(message.properties_raw)
        topic_at = properties_at - 2 - len(message.topic)
        columns.position[i] = offset
        columns.stored_offset[i] = message.physical_offset
        columns.queue_offset[i] = message.queue_offset
        columns.store_timestamp_ms[i] = message.store_timestamp_ms
        columns.born_timestamp_ms[i] = message.born_timestamp_ms
        columns.tags_code[i] = code
        columns.size[i] = message.size_bytes
        columns.sys_flag[i] = message.sys_flag
        columns.queue[i] = self._table.number_of(message.topic, message.queue_id)
        columns.body_at[i] = topic_at - (2 if message.magic == MESSAGE_MAGIC_V2 else 1) - len(message.body)
        columns.body_length[i] = len(message.body)
        columns.properties_at[i] = properties_at
        columns.properties_length[i] = len(message.properties_raw)
        columns.is_dispatched[i] = bool(
            message.properties.get(props.MULTI_DISPATCH) and message.properties.get(props.MULTI_QUEUE_OFFSET)
        )
        columns.key_end[i] = keys
        state[kernel.COUNT], state[kernel.KEY_COUNT] = i + 1, keys
