"""Putting an Arrow table: checks, then its rows in bulk through the encode kernel."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from logdex.errors import UsageError
from logdex.frames.arrow import require_table
from logdex.layout.rocketmq import BLANK, HOST_V4_SIZE_BYTES, MESSAGE_HEAD
from logdex.primitives.wrong_questions import require_names
from logdex.rocketmq.columns.message_arrow import SCHEMA
from logdex.rocketmq.index_file.index_keys import KeyBatch, hash_keys
from logdex.rocketmq.message import properties as props
from logdex.rocketmq.message.stored_message import head_struct
from logdex.rocketmq.message_store.core import StoreCore
from logdex.rocketmq.message_store.put.append import acknowledged
from logdex.rocketmq.message_store.put.encode import Encoded, Encoder
from logdex.rocketmq.message_store.put.light_rows import RowPuts, encoded_rows, has_light_queues
from logdex.rocketmq.message_store.put.message import PutMessageResult, PutMessageStatus, Refusal, illegal
from logdex.rocketmq.message_store.put.property_checks import PROPERTIES_SIZE_BYTES_MAX, properties_exceed
from logdex.rocketmq.message_store.put.table_columns import (
    NOTHING,
    Bytes,
    Int64s,
    bytes_of,
    keys_of,
    maps_of,
    numbered_texts,
    numbers_of,
    texts_of,
)

_COLUMNS = (
    *("topic", "body", "queue_id", "sharding_key", "tags", "keys"),
    *("properties", "born_timestamp_ms", "unique_key"),
)
UNIQ_KEY_NAME = props.UNIQ_KEY.decode()
_BUFFER_BYTES = 512 << 10
"""What is encoded and written at once: it stays in the core's cache between the two."""
Int32s = npt.NDArray[np.int32]


Pieces = list[Bytes | bytes]
"""The properties of each row: the values of columns, and bytes that are the same in each row, one
after the other. There is a separator after the last property."""


class Prepared(NamedTuple):
    """The rows of a table, ready for the kernel; `queues` has topic number and queue id of each
    queue."""

    body: Bytes
    properties: Pieces
    born_ms: Int64s
    queue: Int32s
    queues: list[tuple[int, int]]
    topics: list[bytes]
    sizes: Int64s
    """The size of each message."""


def put_columns(core: StoreCore, encoder: Encoder, table: pa.Table | pa.RecordBatch) -> PutMessageResult:
    """See `MessageStore.put_columns`."""
    require_table(table, "put_columns")
    if not core.takes_puts:
        return core.put_refused
    if not table.num_rows:
        return PutMessageResult(PutMessageStatus.PUT_OK)
    prepared = _prepare(core, encoder, table)
    if isinstance(prepared, Refusal):
        return prepared.result
    with core.lock:
        if core.closing or core.group_commit.failed is not None:
            return core.put_refused
        writing = _Writing(core, encoder, prepared) if isinstance(prepared, Prepared) else RowPuts(core, prepared)
        result = writing.run()
        if result.msg_num:
            core.stats.puts += 1
            core.stats.more_messages += result.msg_num - 1
        ticket = core.group_commit.next_ticket()
    return acknowledged(core, result, ticket, result.is_stored)


# -- checking ------------------------------------------------------------------------------------
def _require_columns(names: list[str]) -> None:
    """Raises `UsageError` for columns that are no message's, of which a scan has some, and if the
    topic is missing."""
    others = [name for name in names if name in SCHEMA.names and name not in _COLUMNS]
    if others and "topic" in names:
        kept = [name for name in names if name in _COLUMNS]
        told = f"put_columns has no place for {', '.join(others)}"
        raise UsageError(told, hint=f"table.select({kept}) has the rest")
    require_names("column", names, _COLUMNS)
    if "topic" not in names:
        raise UsageError("a column topic is missing")
    if len(set(names)) < len(names):
        raise UsageError(f"the columns are {', '.join(names)}", hint="name each once")


def _prepare(core: StoreCore, encoder: Encoder, table: pa.Table | pa.RecordBatch) -> Prepared | list[Encoded] | Refusal:
    """Checks all rows as single puts are checked, before anything is written. Returns messages if
    some are for light queues."""
    names = table.schema.names
    _require_columns(names)
    now_ms, count = core.clock_ms(), table.num_rows
    found = _topics(core, encoder, table, now_ms)
    if isinstance(found, Refusal):
        return found
    topics, topic_of = found
    queue_of = _queues(core, table, topics, topic_of)
    born = np.full(count, now_ms, np.int64)
    if "born_timestamp_ms" in names:
        born = numbers_of(table, "born_timestamp_ms").fill_null(now_ms).to_numpy(zero_copy_only=False)
    if "properties" in names and has_light_queues(maps_of(table)):
        return encoded_rows(encoder, table, [topics[number] for number in topic_of], queue_of.tolist(), now_ms)
    queues, queue = _numbered(topic_of, queue_of)
    body = Bytes(NOTHING, np.zeros(count + 1, np.int64))
    if "body" in names:
        body = bytes_of(texts_of(table, "body"), count)
    properties = _properties(encoder, table, now_ms)
    if isinstance(properties, Refusal):
        return properties
    properties_sizes = np.zeros(count, np.int64)
    for piece in properties:
        properties_sizes += len(piece) if isinstance(piece, bytes) else piece.sizes
    if int(properties_sizes.max()) > PROPERTIES_SIZE_BYTES_MAX:
        return properties_exceed(int(properties_sizes.max()))
    topic_sizes = np.array([len(topic) + 1 + encoder.is_long(topic) for topic in topics], np.int64)
    head = head_struct(encoder.host_flags).size
    cut = np.minimum(properties_sizes, 0 if core.config.dialect.separator_at_end else 1)
    sizes = head + body.sizes + topic_sizes[topic_of] + 2 + properties_sizes - cut
    if not encoder.admits(int(body.sizes.max()), int(sizes.max())):
        row = next(row for row in range(count) if not encoder.admits(int(body.sizes[row]), int(sizes[row])))
        return encoder.too_large(int(body.sizes[row]), int(sizes[row]))
    born = np.ascontiguousarray(born, np.int64)
    return Prepared(body, properties, born, queue, queues, topics, sizes)


def _topics(
    core: StoreCore, encoder: Encoder, table: pa.Table | pa.RecordBatch, now_ms: int
) -> tuple[list[bytes], Int64s] | Refusal:
    """The topics, which are created if they are new, and of each row the number of its topic.
    Refuses a row without a topic, or with one that is too long, and then all rows while the page
    cache is busy; no topic is created then."""
    column = numbered_texts(table, "topic")
    topics: list[bytes] = []
    for text in column.dictionary.to_pylist():
        topic = None if text is None else encoder.topic_of(text)
        if topic is None:
            return illegal("a row has no topic") if text is None else encoder.topic_too_long(text)
        topics.append(topic)
    if column.null_count:
        return illegal("a row has no topic")
    if core.options.page_cache_busy():
        return Refusal(PutMessageStatus.OS_PAGE_CACHE_BUSY)
    for topic in topics:
        core.topics.require(topic, None, now_ms)
    return topics, column.indices.to_numpy(zero_copy_only=False).astype(np.int64)


def _numbered(topic_of: Int64s, queue_of: Int64s) -> tuple[list[tuple[int, int]], Int32s]:
    """The queues of some rows as (topic number, queue id), and of each row the number of its
    queue."""
    width = int(queue_of.max()) + 1
    packed = topic_of * width + queue_of
    known = np.flatnonzero(np.bincount(packed))
    numbers = np.zeros(int(known[-1]) + 1, np.int32)
    numbers[known] = np.arange(len(known), dtype=np.int32)
    return [divmod(value, width) for value in known.tolist()], numbers[packed]


def _queues(core: StoreCore, table: pa.Table | pa.RecordBatch, topics: list[bytes], topic_of: Int64s) -> Int64s:
    """The queue id of each row: as given, by the hash of the sharding key, or the topic's queues in
    turn."""
    nums = np.array([core.topics.queue_nums(topic) for topic in topics], np.int64)[topic_of]
    names = table.schema.names
    if "queue_id" in names:
        column = numbers_of(table, "queue_id")
        if column.null_count:
            raise UsageError("queue_id has nulls", hint="leave the column out to have queues chosen")
        found = column.to_numpy(zero_copy_only=False)
        for row in np.flatnonzero((found < 0) | (found >= nums))[:1]:
            core.topics.require(topics[topic_of[row]], int(found[row]), 0)
        return np.asarray(found, np.int64)
    if "sharding_key" in names:
        keys = bytes_of(texts_of(table, "sharding_key"), table.num_rows)
        start = int(keys.offsets[0])
        data = keys.data[start : int(keys.offsets[-1])]
        return hash_keys(KeyBatch(data, keys.offsets[1:] - start)).astype(np.int64) % nums
    found = np.zeros(len(topic_of), np.int64)
    for number, topic in enumerate(topics):
        rows = np.flatnonzero(topic_of == number)
        found[rows] = (core.topics.choose_queues(topic, len(rows)) + np.arange(len(rows))) % nums[rows]
    return found


def _properties(encoder: Encoder, table: pa.Table | pa.RecordBatch, now_ms: int) -> Pieces | Refusal:
    """The stored properties of each row, with a separator after the last one; or why the first row
    with properties that the engine refuses is refused."""
    names, count = table.schema.names, table.num_rows
    tags = texts_of(table, "tags") if "tags" in names else None
    keys = keys_of(table) if "keys" in names else None
    unique = texts_of(table, "unique_key") if "unique_key" in names else None
    if "properties" in names:
        own = maps_of(table).to_pylist()
        if unique is not None:
            given = unique.to_pylist()
            own = [
                each if key is None else [*(each or ()), (UNIQ_KEY_NAME, key)]
                for each, key in zip(own, given, strict=True)
            ]
        rows: list[bytes] = []
        for i, each in enumerate(own):
            tag, key = (None if column is None else column[i].as_py() for column in (tags, keys))
            raw = encoder.stored_properties(tag, key, each, now_ms)
            if isinstance(raw, Refusal):
                return raw
            rows.append(raw)
        return [bytes_of(pa.array(rows, pa.large_binary()), count)]
    for column in (keys, unique, tags):
        if column is not None:
            _require_storable(bytes_of(column, count))
    if encoder.unique_keys is not None and (unique is None or unique.null_count):
        new = encoder.unique_keys.column(count, now_ms)
        unique = new if unique is None else pc.coalesce(unique, new)
    return _pieces(((props.KEYS, keys), (props.UNIQ_KEY, unique), (props.TAGS, tags)), count)


def _pieces(columns: Iterable[tuple[bytes, Any]], count: int) -> Pieces:
    """Properties from their names and values, in the order of Java's map. A row whose value is null
    lacks the property."""
    pieces: Pieces = []
    before = b""
    for name, column in columns:
        if column is None:
            continue
        if column.null_count:
            pairs = pc.binary_join_element_wise(_binary(name + b"\x01"), column, _binary(b"\x02"), _binary(b""))
            pieces += [before, bytes_of(pairs, count)]
            before = b""
        else:
            pieces += [before + name + b"\x01", bytes_of(column, count)]
            before = b"\x02"
    return [piece for piece in (*pieces, before) if piece]


def _binary(data: bytes) -> Any:
    return pa.scalar(data, pa.large_binary())


def _require_storable(values: Bytes) -> None:
    data = values.data[int(values.offsets[0]) : int(values.offsets[-1])]
    if not data.all() or (data == props.PROPERTY_SEPARATOR[0]).any():
        raise UsageError(
            "tags or keys have a character that separates properties (U+0002) or a zero byte",
            hint="leave such characters out",
        )


# -- writing -------------------------------------------------------------------------------------
def _addresses(piece: Bytes | bytes) -> tuple[int, int, int]:
    """A piece of the properties as the kernel takes it."""
    if isinstance(piece, Bytes):
        return piece.data.ctypes.data, piece.offsets.ctypes.data, 0
    return np.frombuffer(piece, np.uint8).ctypes.data, 0, len(piece)


class _Writing:
    """Writes prepared rows, as many at once as file and buffer take. The lock is held."""

    def __init__(self, core: StoreCore, encoder: Encoder, rows: Prepared) -> None:
        from logdex.kernels.common.crc import crc_function_address, crc_table
        from logdex.kernels.rocketmq.message_encode import EncodeColumns, EncodeRules

        self._core, self._rows, self._host = core, rows, encoder.store_host
        self._keys = [(rows.topics[topic], queue_id) for topic, queue_id in rows.queues]
        self._next = np.array([core.queue_offsets.get(key, 0) for key in self._keys], np.int64)
        head = encoder.common_head()
        pieces = [_addresses(piece) for piece in rows.properties]
        self._arrays: list[npt.NDArray[Any]] = [
            np.array(pieces, np.int64),
            np.array([topic for topic, _ in rows.queues], np.int32),
            np.array([queue_id for _, queue_id in rows.queues], np.int32),
            np.frombuffer(b"".join(rows.topics) + bytes(8), np.uint8),
            np.cumsum([0, *map(len, rows.topics)], dtype=np.int64),
            np.array([encoder.is_long(topic) for topic in rows.topics], np.int32),
            np.frombuffer(head, np.uint8),
        ]
        properties, topic, queue_id, data, offsets, is_long, template = (array.ctypes.data for array in self._arrays)
        self._columns = EncodeColumns(
            rows.queue.ctypes.data,
            rows.born_ms.ctypes.data,
            rows.sizes.ctypes.data,
            rows.body.data.ctypes.data,
            rows.body.offsets.ctypes.data,
            properties,
            len(pieces),
            topic,
            queue_id,
            self._next.ctypes.data,
            data,
            offsets,
            is_long,
            template,
        )
        self._rules = EncodeRules(
            head_size=len(head),
            store_at=MESSAGE_HEAD.size_bytes + HOST_V4_SIZE_BYTES + encoder.born_host_more,
            cut=0 if core.config.dialect.separator_at_end else 1,
            crc_function=crc_function_address(),
            crc_table=crc_table().ctypes.data,
        )
        self._state = np.zeros(2, np.int64)

    def run(self) -> PutMessageResult:
        """Writes all rows; fewer if the next file cannot be created, which the status says."""
        core, rows = self._core, self._rows
        begin, done, count = core.log.next_offset, 0, len(rows.queue)
        first_queue = int(rows.queue[0])
        first_offset, status = int(self._next[first_queue]), PutMessageStatus.PUT_OK
        buffer = np.empty(min(_BUFFER_BYTES, int(rows.sizes.sum())) + 1, np.uint8)
        while done < count:
            needed = int(rows.sizes[done])
            if not core.make_room(needed):
                status = PutMessageStatus.CREATE_MAPPED_FILE_FAILED
                break
            if needed >= len(buffer):
                buffer = np.empty(needed + 1, np.uint8)
            if done == 0:
                begin = core.log.next_offset
            done = self._write_some(done, count, buffer)
        core.queue_offsets.update(zip(self._keys, self._next.tolist(), strict=True))
        written = int(rows.sizes[:done].sum())
        key = self._keys[first_queue]
        return PutMessageResult(
            status, begin, first_offset, written, core.last_timestamp_ms, key[0], key[1], self._host, done
        )

    def _write_some(self, done: int, count: int, buffer: npt.NDArray[np.uint8]) -> int:
        from logdex.kernels.rocketmq.message_encode import ROWS, SIZE, encode_messages

        core, log = self._core, self._core.log
        room = min(log.file_size_bytes - log.position - BLANK.size_bytes, len(buffer) - 1)
        now_ms = core.clock_ms()
        encode_messages(
            done,
            count,
            buffer.ctypes.data,
            room,
            log.next_offset,
            now_ms,
            self._columns,
            self._rules,
            self._state.ctypes.data,
        )
        core.append_rows(memoryview(buffer[: int(self._state[SIZE])]))  # type: ignore[arg-type]  # arrays are buffers
        core.last_timestamp_ms = now_ms
        return int(self._state[ROWS])
