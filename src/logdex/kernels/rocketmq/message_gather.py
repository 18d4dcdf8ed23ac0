"""The gather kernel: copies selected messages of a scan's window into the buffers of Arrow columns.

Twin: `logdex.rocketmq.columns.message_arrow.messages_to_batch`. Sizes come only from the scan's
columns, never from the file again: the file may change meanwhile, and more than was allocated would
be written.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from logdex.kernels.common.memory import (
    copy_bytes,
    load_be32,
    load_be64,
    load_i32,
    load_i64,
    load_u8,
    store_be64,
    store_i32,
    store_i64,
    store_u8,
)
from logdex.kernels.compiled import inner_kernel, kernel
from logdex.kernels.rocketmq.message_scan import ColumnAddresses
from logdex.layout import rocketmq as layout

_HEAD = layout.MESSAGE_HEAD
_TAIL = layout.MESSAGE_TAIL
_HEAD_SIZE = _HEAD.size_bytes
_TAIL_SIZE = _TAIL.size_bytes
_AT_CRC = _HEAD.offset_of("body_crc")
_AT_QUEUE_ID = _HEAD.offset_of("queue_id")
_AT_FLAG = _HEAD.offset_of("flag")
_AT_RECONSUME = _TAIL.offset_of("reconsume_times")
_AT_PREPARED = _TAIL.offset_of("prepared_transaction_offset")
_HOST_V4 = layout.HOST_V4_SIZE_BYTES
_HOST_V6 = layout.HOST_V6_SIZE_BYTES
_BORN_V6 = layout.SYS_FLAG_BORN_HOST_V6
_STORE_V6 = layout.SYS_FLAG_STORE_HOST_V6


class GatherTargets(NamedTuple):
    """The addresses of the outputs.

    Numbers are int32, or int64 (`body_crc`, `prepared_transaction_offset`). The others have Arrow's
    int32 ends (the first is 0) and bytes. `msg_id` is text, the others are as stored.
    """

    queue_id: int
    flag: int
    reconsume_times: int
    body_crc: int
    prepared_transaction_offset: int
    born_host_ends: int
    born_host_data: int
    store_host_ends: int
    store_host_data: int
    body_ends: int
    body_data: int
    properties_ends: int
    properties_data: int
    msg_id_ends: int
    msg_id_data: int


@inner_kernel
def _append(row: int, source: int, size: int, ends: int, data: int) -> None:
    """Appends `size` bytes as `row`; does nothing if `data` is 0."""
    if data == 0:
        return
    used = load_i32(ends + 4 * row)
    copy_bytes(data + used, source, size)
    store_i32(ends + 4 * row + 4, used + size)


@inner_kernel
def _put_hex(target: int, source: int, size: int) -> None:
    """Writes `size` bytes as upper-case hexadecimal digits."""
    for k in range(size):
        byte = load_u8(source + k)
        high, low = byte >> 4, byte & 15
        store_u8(target + 2 * k, high + (48 if high < 10 else 55))
        store_u8(target + 2 * k + 1, low + (48 if low < 10 else 55))


@inner_kernel
def _put_msg_id(row: int, host: int, host_size: int, offset: int, scratch: int, ends: int, data: int) -> None:
    """Appends the MessageID: store host and physical offset; does nothing if `data` is 0."""
    if data == 0:
        return
    used = load_i32(ends + 4 * row)
    _put_hex(data + used, host, host_size)
    store_be64(scratch, offset)
    _put_hex(data + used + 2 * host_size, scratch, 8)
    store_i32(ends + 4 * row + 4, used + 2 * host_size + 16)


@kernel
def gather_messages(
    base: int, places: int, rows: int, count: int, c: ColumnAddresses, t: GatherTargets, scratch: int
) -> None:
    """Copies the messages at the indexes `rows` (the address of `count` int64s) of a window, in
    that order.

    `base` is the address of the window's bytes, `places` the address of `count` int64s: the byte at
    which each of these messages begins. `scratch` has 8 bytes. The caller must allocate enough:
    bytes as in the columns, hosts of 8 or 20 bytes, message ids of 32 or 56. A column of bytes is
    left out if the address of its data is 0; its ends need room for one int32 all the same.
    """
    for ends in (t.born_host_ends, t.store_host_ends, t.body_ends, t.properties_ends, t.msg_id_ends):
        store_i32(ends, 0)
    for row in range(count):
        i = load_i64(rows + 8 * row)
        position, sys_flag = load_i64(c.position + 8 * i), load_i32(c.sys_flag + 4 * i)
        at = base + load_i64(places + 8 * row)
        born_size = _HOST_V6 if sys_flag & _BORN_V6 else _HOST_V4
        store_size = _HOST_V6 if sys_flag & _STORE_V6 else _HOST_V4
        store_host = at + _HEAD_SIZE + born_size + 8
        tail = store_host + store_size
        store_i32(t.queue_id + 4 * row, load_be32(at + _AT_QUEUE_ID))
        store_i32(t.flag + 4 * row, load_be32(at + _AT_FLAG))
        store_i32(t.reconsume_times + 4 * row, load_be32(tail + _AT_RECONSUME))
        store_i64(t.body_crc + 8 * row, load_be32(at + _AT_CRC) & np.int64(0xFFFFFFFF))
        store_i64(t.prepared_transaction_offset + 8 * row, load_be64(tail + _AT_PREPARED))
        _append(row, at + _HEAD_SIZE, born_size, t.born_host_ends, t.born_host_data)
        _append(row, store_host, store_size, t.store_host_ends, t.store_host_data)
        _append(row, tail + _TAIL_SIZE, load_i32(c.body_length + 4 * i), t.body_ends, t.body_data)
        properties, size = at + load_i32(c.properties_at + 4 * i), load_i32(c.properties_length + 4 * i)
        _append(row, properties, size, t.properties_ends, t.properties_data)
        _put_msg_id(row, store_host, store_size, position, scratch, t.msg_id_ends, t.msg_id_data)
