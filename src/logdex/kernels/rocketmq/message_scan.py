"""The scan kernel: reads the messages of a mapped CommitLog file into columns.

Twin: `logdex.rocketmq.scan.plain_scan`. The kernel never changes the tables of topics and queues:
at an unknown topic or queue it stops, Python adds it and calls again. Every length is compared with
the end of the bytes before use; there is no other check of addresses.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from logdex import limits
from logdex.kernels.common.crc import crc32
from logdex.kernels.common.memory import (
    load_be16,
    load_be32,
    load_be64,
    load_i64,
    load_u8,
    prefetch,
    store_i32,
    store_i64,
)
from logdex.kernels.compiled import inner_kernel, kernel
from logdex.kernels.rocketmq.java_hash import index_key_hash, java_hash
from logdex.kernels.rocketmq.name_table import TOPIC_RECORD, LookupTables, find_queue, find_topic
from logdex.kernels.rocketmq.property_text import (
    DELAY_AT,
    DISPATCH_AT,
    DISPATCH_OFFSETS_AT,
    FOUND_SIZE,
    KEYS_AT,
    TAGS_AT,
    UNIQ_AT,
    find_properties,
    hash_keys,
    parse_int,
)
from logdex.layout import rocketmq as layout

Int64s = npt.NDArray[np.int64]
Int32s = npt.NDArray[np.int32]

# Why a call of the kernel stopped: `state[REASON]`.
(
    WINDOW_FULL,
    FILE_END,
    ZEROS,
    TORN,
    BAD_MAGIC,
    BAD_SIZE,
    BAD_LENGTHS,
    BAD_CRC,
    BAD_DELAY,
    NEW_TOPIC,
    NEW_QUEUE,
    LIMIT,
) = range(12)

# The first elements of `state` (int64).
POSITION, COUNT, KEY_COUNT, REASON, TOPIC_ADDRESS, TOPIC_LENGTH, TOPIC_ID, QUEUE_ID = range(8)
STATE_SIZE = 8 + 8 + FOUND_SIZE
"""The number of int64s in the state: the eight above, then scratch for a message's parts and
properties."""
_PARTS = 8 * 8
_FOUND = 8 * 16

KEYS_PER_MESSAGE_MAX = 16_386
"""KEYS of 32,767 bytes can have 16,384 keys of one letter; UNIQ_KEY and TAGS are added."""

SCHEDULE_TOPIC = 1
"""The flag of the topic whose tagsCode is a delivery time."""

_HEAD = layout.MESSAGE_HEAD
_AT_CRC = _HEAD.offset_of("body_crc")
_AT_QUEUE_ID = _HEAD.offset_of("queue_id")
_AT_QUEUE_OFFSET = _HEAD.offset_of("queue_offset")
_AT_PHYSICAL = _HEAD.offset_of("physical_offset")
_AT_SYS_FLAG = _HEAD.offset_of("sys_flag")
_AT_BORN = _HEAD.offset_of("born_timestamp_ms")
_HEAD_SIZE = _HEAD.size_bytes
_TAIL_SIZE = layout.MESSAGE_TAIL.size_bytes
_AT_BODY_LENGTH = layout.MESSAGE_TAIL.offset_of("body_length")
_MAGIC_V1 = layout.MESSAGE_MAGIC_V1 - (1 << 32)
_MAGIC_V2 = layout.MESSAGE_MAGIC_V2 - (1 << 32)
_BLANK = layout.BLANK_MAGIC - (1 << 32)
_SIZE_MIN = layout.MESSAGE_FIXED_SIZE_BYTES_MIN
_SIZE_MAX = limits.MESSAGE_SIZE_BYTES_MAX
_HOST_V4 = layout.HOST_V4_SIZE_BYTES
_HOST_MORE = layout.HOST_V6_SIZE_BYTES - layout.HOST_V4_SIZE_BYTES
_BORN_V6 = layout.SYS_FLAG_BORN_HOST_V6
_STORE_V6 = layout.SYS_FLAG_STORE_HOST_V6
_TRANSACTION = layout.SYS_FLAG_TRANSACTION_MASK
_PREPARED = layout.SYS_FLAG_PREPARED
_ROLLBACK = layout.SYS_FLAG_ROLLBACK
_PREFETCH_AHEAD = 2048
_MESSAGES_AHEAD = 8


class Columns(NamedTuple):
    """A window of messages, one element per message (int64 or int32); `key_hash` has one per key.

    `position` is the physical offset. `body_at` and `properties_at` are relative to the message's
    start. `queue` is an index into `TopicTable.queues`. The keys of message i end at `key_end[i]`
    in `key_hash`. `is_dispatched` is 1 for a message with entries in light message queues as well,
    which its properties name, else 0.
    """

    position: Int64s
    stored_offset: Int64s
    queue_offset: Int64s
    store_timestamp_ms: Int64s
    born_timestamp_ms: Int64s
    tags_code: Int64s
    size: Int32s
    sys_flag: Int32s
    queue: Int32s
    body_at: Int32s
    body_length: Int32s
    properties_at: Int32s
    properties_length: Int32s
    is_dispatched: Int32s
    key_end: Int32s
    key_hash: Int32s


WIDE_COLUMNS = frozenset(
    ("position", "stored_offset", "queue_offset", "store_timestamp_ms", "born_timestamp_ms", "tags_code")
)
"""The columns of int64; the others are int32."""


class ColumnAddresses(NamedTuple):
    """The addresses of the arrays of a `Columns`, and their lengths."""

    position: int
    stored_offset: int
    queue_offset: int
    store_timestamp_ms: int
    born_timestamp_ms: int
    tags_code: int
    size: int
    sys_flag: int
    queue: int
    body_at: int
    body_length: int
    properties_at: int
    properties_length: int
    is_dispatched: int
    key_end: int
    key_hash: int
    capacity: int
    key_capacity: int


class Rules(NamedTuple):
    """Options of caller and dialect (0 or 1); addresses of the CRC function (or 0), its table, the
    delay levels."""

    check_crc: int
    tags_in_index: int
    prepared_in_index: int
    crc_function: int
    crc_table: int
    delay_levels_ms: int
    delay_level_count: int


@inner_kernel
def head_problem(at: int, end: int) -> int:
    """FILE_END, a reason to stop, or -1 if a message of a possible size starts at `at`."""
    if end - at < 8:
        return FILE_END if end == at else TORN
    magic = load_be32(at + 4)
    size = load_be32(at)
    if magic == _BLANK:
        return FILE_END
    if magic != _MAGIC_V1 and magic != _MAGIC_V2:
        return ZEROS if magic == 0 and size == 0 else BAD_MAGIC
    if size < _SIZE_MIN or size > _SIZE_MAX:
        return BAD_SIZE
    return TORN if size > end - at else -1


@inner_kernel
def _tags_code(found: int, schedule: bool, store_ms: int, r: Rules) -> int:
    """The tagsCode: the hash of TAGS, or a delayed message's delivery time; -(1 << 62) for a bad
    DELAY."""
    if schedule and load_i64(found + DELAY_AT) != 0:
        level = parse_int(load_i64(found + DELAY_AT), load_i64(found + DELAY_AT + 8))
        if level == -(1 << 40):
            return -(1 << 62)
        if level > 0:
            return store_ms + load_i64(r.delay_levels_ms + 8 * (min(level, r.delay_level_count) - 1))
    tags = load_i64(found + TAGS_AT)
    if tags == 0:
        return 0
    return np.int64(np.int32(np.uint32(java_hash(tags, load_i64(found + TAGS_AT + 8), 0))))


@inner_kernel
def _put_hashes(found: int, limit: int, topic: int, tags_too: int, out: int, count: int) -> int:
    """Stores the index hashes of one message in the engine's order: UNIQ_KEY, KEYS, then TAGS if
    indexed."""
    seed = load_i64(topic + 16)
    unique = load_i64(found + UNIQ_AT)
    if unique != 0:
        store_i32(out + 4 * count, index_key_hash(unique, load_i64(found + UNIQ_AT + 8), seed))
        count += 1
    keys = load_i64(found + KEYS_AT)
    if keys != 0:
        count = hash_keys(keys, load_i64(found + KEYS_AT + 8), limit, seed, out, count)
    tags = load_i64(found + TAGS_AT)
    if tags_too and tags != 0:
        store_i32(out + 4 * count, index_key_hash(tags, load_i64(found + TAGS_AT + 8), load_i64(topic + 24)))
        count += 1
    return count


@inner_kernel
def _measure(at: int, size: int, parts: int) -> bool:
    """Fills int64s at `parts`: addresses of store time, body, topic, properties; lengths of the
    last three.

    Returns False if the parts do not add up to the message's size. As in the engine, negative
    lengths of body and properties count as 0.
    """
    sys_flag = load_be32(at + _AT_SYS_FLAG)
    store_at = at + _HEAD_SIZE + _HOST_V4 + (_HOST_MORE if sys_flag & _BORN_V6 else 0)
    tail_at = store_at + 8 + _HOST_V4 + (_HOST_MORE if sys_flag & _STORE_V6 else 0)
    body_at = tail_at + _TAIL_SIZE
    last = at + size - 2
    if body_at > last:
        return False
    body_length = max(load_be32(tail_at + _AT_BODY_LENGTH), 0)
    wide = np.int64(load_be32(at + 4) == _MAGIC_V2)
    topic_at = body_at + body_length + 1 + wide
    if topic_at > last:
        return False
    topic_length = load_be16(topic_at - 2) if wide else np.int64(np.int8(load_u8(topic_at - 1)))
    properties_at = topic_at + topic_length + 2
    if topic_length < 0 or properties_at - 2 > last:
        return False
    properties_length = max(load_be16(properties_at - 2), 0)
    store_i64(parts, store_at)
    store_i64(parts + 8, body_at)
    store_i64(parts + 16, topic_at)
    store_i64(parts + 24, properties_at)
    store_i64(parts + 32, body_length)
    store_i64(parts + 40, topic_length)
    store_i64(parts + 48, properties_length)
    return properties_at + properties_length == at + size


@inner_kernel
def _crc_is_right(at: int, body_at: int, body_length: int, r: Rules) -> bool:
    if body_length == 0 or not r.check_crc:
        return True
    crc = crc32(r.crc_function, r.crc_table, body_at, body_length) & 0x7FFFFFFF
    return crc == (load_be32(at + _AT_CRC) & 0xFFFFFFFF)


@inner_kernel
def _put_columns(at: int, i: int, size: int, parts: int, store_ms: int, c: ColumnAddresses) -> None:
    store_i64(c.stored_offset + 8 * i, load_be64(at + _AT_PHYSICAL))
    store_i64(c.queue_offset + 8 * i, load_be64(at + _AT_QUEUE_OFFSET))
    store_i64(c.store_timestamp_ms + 8 * i, store_ms)
    store_i64(c.born_timestamp_ms + 8 * i, load_be64(at + _AT_BORN))
    store_i32(c.size + 4 * i, size)
    store_i32(c.sys_flag + 4 * i, load_be32(at + _AT_SYS_FLAG))
    store_i32(c.body_at + 4 * i, load_i64(parts + 8) - at)
    store_i32(c.body_length + 4 * i, load_i64(parts + 32))
    store_i32(c.properties_at + 4 * i, load_i64(parts + 24) - at)
    store_i32(c.properties_length + 4 * i, load_i64(parts + 48))


@inner_kernel
def one_message(at: int, limit: int, size: int, state: int, c: ColumnAddresses, t: LookupTables, r: Rules) -> int:
    """Stores the message at address `at` in the columns; returns -1, or the reason not to."""
    parts, found = state + _PARTS, state + _FOUND
    if not _measure(at, size, parts):
        return BAD_LENGTHS
    if not _crc_is_right(at, load_i64(parts + 8), load_i64(parts + 32), r):
        return BAD_CRC
    topic_at, topic_length = load_i64(parts + 16), load_i64(parts + 40)
    topic = find_topic(topic_at, topic_length, limit, t)
    queue_id = load_be32(at + _AT_QUEUE_ID)
    queue = find_queue(topic, queue_id, t) if topic >= 0 else -1
    if queue < 0:
        store_i64(state + 8 * TOPIC_ADDRESS, topic_at)
        store_i64(state + 8 * TOPIC_LENGTH, topic_length)
        store_i64(state + 8 * TOPIC_ID, topic)
        store_i64(state + 8 * QUEUE_ID, queue_id)
        return NEW_TOPIC if topic < 0 else NEW_QUEUE
    store_ms = load_be64(load_i64(parts))
    record = t.topics + TOPIC_RECORD * topic
    properties_at = load_i64(parts + 24)
    find_properties(properties_at, properties_at + load_i64(parts + 48), limit, found)
    tags_code = _tags_code(found, load_i64(record + 32) == SCHEDULE_TOPIC, store_ms, r)
    if tags_code == -(1 << 62):
        return BAD_DELAY
    kind = load_be32(at + _AT_SYS_FLAG) & _TRANSACTION
    i, keys = load_i64(state + 8 * COUNT), load_i64(state + 8 * KEY_COUNT)
    if kind != _ROLLBACK and (kind != _PREPARED or r.prepared_in_index):
        keys = _put_hashes(found, limit, record, r.tags_in_index, c.key_hash, keys)
    _put_columns(at, i, size, parts, store_ms, c)
    store_i64(c.tags_code + 8 * i, tags_code)
    is_dispatched = load_i64(found + DISPATCH_AT) != 0 and load_i64(found + DISPATCH_OFFSETS_AT) != 0
    store_i32(c.is_dispatched + 4 * i, np.int64(is_dispatched))
    store_i32(c.queue + 4 * i, queue)
    store_i32(c.key_end + 4 * i, keys)
    store_i64(state + 8 * COUNT, i + 1)
    store_i64(state + 8 * KEY_COUNT, keys)
    return -1


@kernel
def scan_window(
    base: int, first_offset: int, end: int, stop: int, state: int, c: ColumnAddresses, t: LookupTables, r: Rules
) -> None:
    """Scans from `state[POSITION]` (a position in the file mapped at `base`) until there is a
    reason to stop.

    `end` is the number of mapped bytes. No message is started at position `stop` or later.
    `first_offset` is the file's physical offset, `state` the address of `STATE_SIZE` int64s.
    """
    at = base + load_i64(state + 8 * POSITION)
    limit = base + end
    reason = -1
    while reason < 0:
        i = load_i64(state + 8 * COUNT)
        if at - base >= stop:
            reason = LIMIT
        elif i >= c.capacity or load_i64(state + 8 * KEY_COUNT) + KEYS_PER_MESSAGE_MAX > c.key_capacity:
            reason = WINDOW_FULL
        else:
            reason = head_problem(at, limit)
        if reason >= 0:
            break
        size = load_be32(at)
        if r.check_crc:
            for ahead in range(0, min(size, limit - at - _PREFETCH_AHEAD), 64):
                prefetch(at + _PREFETCH_AHEAD + ahead)
        else:  # No body is looked at then. Later messages are likely as large as this one.
            for ahead in range(0, 192, 64):
                prefetch(at + _MESSAGES_AHEAD * size - ahead)
        reason = one_message(at, limit, size, state, c, t, r)
        if reason < 0:
            store_i64(c.position + 8 * i, first_offset + (at - base))
            at += size
    store_i64(state + 8 * POSITION, at - base)
    store_i64(state + 8 * REASON, reason)
