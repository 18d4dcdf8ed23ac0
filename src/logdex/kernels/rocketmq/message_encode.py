"""The encode kernel: writes the stored bytes of many messages from their columns.

Twin: `logdex.rocketmq.message.stored_message.encode_message`. The size of a message is computed and
compared with the room before its bytes are written. Source: ``docs/formats/message.md``;
MessageExtEncoder.
"""

from __future__ import annotations

from typing import NamedTuple

from logdex.kernels.common.crc import crc32
from logdex.kernels.common.memory import (
    copy_bytes,
    load_i32,
    load_i64,
    store_be16,
    store_be32,
    store_be64,
    store_i64,
    store_u8,
)
from logdex.kernels.compiled import inner_kernel, kernel
from logdex.layout import rocketmq as layout

ROWS, SIZE = range(2)
"""The elements of `state` (int64), both outputs: the next row, the number of bytes written."""

_HEAD = layout.MESSAGE_HEAD
_AT_MAGIC = _HEAD.offset_of("magic")
_AT_CRC = _HEAD.offset_of("body_crc")
_AT_QUEUE_ID = _HEAD.offset_of("queue_id")
_AT_QUEUE_OFFSET = _HEAD.offset_of("queue_offset")
_AT_PHYSICAL = _HEAD.offset_of("physical_offset")
_AT_BORN = _HEAD.offset_of("born_timestamp_ms")
_BODY_LENGTH_SIZE = 4


PIECE_SIZE = 3
"""The int64s of a piece of the properties: the address of its bytes, of its n + 1 offsets (0: it is
the same in each row), and its size in that case."""


class EncodeColumns(NamedTuple):
    """Addresses. Rows: `queue` (int32, the number of the row's queue), `born_ms` and `size` (int64,
    the size of the whole message), and of the body the bytes and their n + 1 offsets (int64).
    `pieces` are `piece_count` pieces, which give the properties one after the other. Queues:
    `queue_topic` and `queue_id` (int32), `next_offset` (int64, moved on). Topics: the bytes and
    their offsets (int64), and `is_long` (int32, 1 for a message of version 2). `head` is the head
    of a message with everything that all messages have in common."""

    queue: int
    born_ms: int
    size: int
    body: int
    body_offsets: int
    pieces: int
    piece_count: int
    queue_topic: int
    queue_id: int
    next_offset: int
    topic: int
    topic_offsets: int
    is_long: int
    head: int


class EncodeRules(NamedTuple):
    """What all messages have in common: the size of the head, where the store time is in it, how
    many bytes of non-empty properties are left out at their end, the CRC function's address (or 0),
    the address of its table."""

    head_size: int
    store_at: int
    cut: int
    crc_function: int
    crc_table: int


@inner_kernel
def _copy_pieces(at: int, i: int, c: EncodeColumns) -> int:
    """Writes the properties of row `i` at an address. Returns their size."""
    begin = at
    for piece in range(c.pieces, c.pieces + 8 * PIECE_SIZE * c.piece_count, 8 * PIECE_SIZE):
        data, offsets, size = load_i64(piece), load_i64(piece + 8), load_i64(piece + 16)
        if offsets != 0:
            start = load_i64(offsets + 8 * i)
            data, size = data + start, load_i64(offsets + 8 * (i + 1)) - start
        copy_bytes(at, data, size)
        at += size
    return at - begin


@kernel
def encode_messages(
    first: int,
    count: int,
    out: int,
    room: int,
    physical_offset: int,
    store_ms: int,
    c: EncodeColumns,
    r: EncodeRules,
    state: int,
) -> None:
    """Writes messages from row `first` on to address `out`, whose first byte will have the
    `physical_offset`, until all rows are written or the next one is larger than what is left of
    `room` bytes. One byte behind these may be written too."""
    at, i = out, first
    while i < count:
        queue = load_i32(c.queue + 4 * i)
        topic = load_i32(c.queue_topic + 4 * queue)
        topic_at = load_i64(c.topic_offsets + 8 * topic)
        topic_size = load_i64(c.topic_offsets + 8 * (topic + 1)) - topic_at
        is_long = load_i32(c.is_long + 4 * topic)
        body_at = load_i64(c.body_offsets + 8 * i)
        body_size = load_i64(c.body_offsets + 8 * (i + 1)) - body_at
        size = load_i64(c.size + 8 * i)
        if size > room - (at - out):
            break
        copy_bytes(at, c.head, r.head_size)
        store_be32(at, size)
        store_be32(at + _AT_MAGIC, layout.MESSAGE_MAGIC_V2 if is_long else layout.MESSAGE_MAGIC_V1)
        store_be32(at + _AT_CRC, crc32(r.crc_function, r.crc_table, c.body + body_at, body_size) & 0x7FFFFFFF)
        store_be32(at + _AT_QUEUE_ID, load_i32(c.queue_id + 4 * queue))
        queue_offset = load_i64(c.next_offset + 8 * queue)
        store_be64(at + _AT_QUEUE_OFFSET, queue_offset)
        store_i64(c.next_offset + 8 * queue, queue_offset + 1)
        store_be64(at + _AT_PHYSICAL, physical_offset + (at - out))
        store_be64(at + _AT_BORN, load_i64(c.born_ms + 8 * i))
        store_be64(at + r.store_at, store_ms)
        store_be32(at + r.head_size - _BODY_LENGTH_SIZE, body_size)
        at += r.head_size
        copy_bytes(at, c.body + body_at, body_size)
        at += body_size
        if is_long:
            store_be16(at, topic_size)
        else:
            store_u8(at, topic_size)
        at += 1 + is_long
        copy_bytes(at, c.topic + topic_at, topic_size)
        at += topic_size
        properties_size = _copy_pieces(at + 2, i, c)
        if properties_size > 0:
            properties_size -= r.cut
        store_be16(at, properties_size)
        at += 2 + properties_size
        i += 1
    store_i64(state + 8 * ROWS, i)
    store_i64(state + 8 * SIZE, at - out)
