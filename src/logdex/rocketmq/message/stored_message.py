"""Decodes and encodes a message as stored in the CommitLog.

Source: ``docs/formats/message.md``; MessageDecoder, MessageExtEncoder,
CommitLog.checkMessageAndReturnSize.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import product

from logdex import limits
from logdex.errors import CorruptError, CrcMismatchError, TruncatedError
from logdex.layout.rocketmq import (
    BLANK_MAGIC,
    HOST_V4_SIZE_BYTES,
    HOST_V6_SIZE_BYTES,
    MESSAGE_FIXED_SIZE_BYTES_MIN,
    MESSAGE_HEAD,
    MESSAGE_MAGIC_V1,
    MESSAGE_MAGIC_V2,
    MESSAGE_TAIL,
    SYS_FLAG_BORN_HOST_V6,
    SYS_FLAG_PREPARED,
    SYS_FLAG_ROLLBACK,
    SYS_FLAG_STORE_HOST_V6,
    SYS_FLAG_TRANSACTION_MASK,
)
from logdex.primitives.crc import body_crc
from logdex.primitives.host import Host
from logdex.rocketmq.message import properties as props
from logdex.rocketmq.message.message_id import MessageId


@dataclass(frozen=True, kw_only=True)
class StoredMessage:
    """A message as stored. Immutable, so it can be shared between threads.

    `body` and `properties_raw` are the stored bytes (see `body.py` for compressed bodies),
    `physical_offset` is the stored one.
    """

    size_bytes: int
    magic: int
    body_crc: int
    queue_id: int
    flag: int
    queue_offset: int
    physical_offset: int
    sys_flag: int
    born_timestamp_ms: int
    born_host: Host
    store_timestamp_ms: int
    store_host: Host
    reconsume_times: int
    prepared_transaction_offset: int
    body: bytes
    topic: bytes
    properties_raw: bytes

    @cached_property
    def properties(self) -> dict[bytes, bytes]:
        """The parsed properties; names and values are bytes."""
        return props.parse_properties(self.properties_raw)

    @property
    def tags(self) -> bytes | None:
        """The TAGS property."""
        return self.properties.get(props.TAGS)

    @property
    def keys(self) -> list[bytes]:
        """The keys of the KEYS property, repeated ones kept."""
        return props.split_keys(self.properties.get(props.KEYS, b""))

    @property
    def unique_key(self) -> bytes | None:
        """The client's message id (UNIQ_KEY)."""
        return self.properties.get(props.UNIQ_KEY)

    @property
    def msg_id(self) -> str:
        """The server's MessageID, with which `look_message` finds it."""
        return str(MessageId(self.store_host, self.physical_offset))

    @property
    def transaction_type(self) -> int:
        """0, SYS_FLAG_PREPARED, SYS_FLAG_COMMIT or SYS_FLAG_ROLLBACK."""
        return self.sys_flag & SYS_FLAG_TRANSACTION_MASK

    @property
    def is_queued(self) -> bool:
        """Whether the engine writes a ConsumeQueue entry for it: not if it is PREPARED or
        ROLLBACK."""
        return self.transaction_type not in (SYS_FLAG_PREPARED, SYS_FLAG_ROLLBACK)


def host_sizes(sys_flag: int) -> tuple[int, int]:
    """The sizes of born host and store host in bytes."""
    return (
        HOST_V6_SIZE_BYTES if sys_flag & SYS_FLAG_BORN_HOST_V6 else HOST_V4_SIZE_BYTES,
        HOST_V6_SIZE_BYTES if sys_flag & SYS_FLAG_STORE_HOST_V6 else HOST_V4_SIZE_BYTES,
    )


def body_at(sys_flag: int) -> int:
    """The position in a message at which its body begins."""
    return MESSAGE_HEAD.size_bytes + sum(host_sizes(sys_flag)) + 8 + MESSAGE_TAIL.size_bytes


class _Cursor:
    """Reads consecutive fields of one message, never beyond its end."""

    def __init__(self, data: memoryview, end: int, path: str, shift: int) -> None:
        self.data, self.end, self.path, self.shift = data, end, path, shift
        self.at = 0

    def take(self, size: int, field: str) -> memoryview:
        if size < 0 or self.at + size > self.end:
            raise CorruptError(
                "the field extends beyond the message",
                path=self.path,
                position=self.shift + self.at,
                field=field,
                expected=f"at most {self.end - self.at} bytes",
                found=size,
                hint="logdex verify lists all damage",
            )
        part = self.data[self.at : self.at + size]
        self.at += size
        return part


def decode_message(
    data: bytes | memoryview,
    offset: int = 0,
    *,
    path: str = "<bytes>",
    position: int | None = None,
    check_crc: bool = True,
) -> tuple[StoredMessage, int]:
    """Decodes the message at `offset` of `data` and returns (message, size in bytes).

    Errors name `path` and `position` (default: `offset`). Raises `TruncatedError` if `data` ends
    inside the message, `CrcMismatchError` for a wrong body CRC (if `check_crc` is set), and
    `CorruptError` for any other damage.
    """
    if isinstance(data, bytes):
        message = decode_whole(data, offset, check_crc=check_crc)
        if message is not None:
            return message, message.size_bytes
    position = offset if position is None else position
    view = memoryview(data)[offset:]
    size = checked_size(view, len(view), path, position)
    return _decode_field_by_field(view, size, path, position, check_crc), size


def decode_whole(data: bytes, offset: int = 0, *, check_crc: bool = True) -> StoredMessage | None:
    """Returns the message at `offset` of `data`, or None where `decode_message` raises an error."""
    flag_at = offset + _SYS_FLAG_AT + 3
    if flag_at >= len(data):
        return None
    head = _HEADS[data[flag_at] & _HOST_FLAGS]
    body_at = offset + head.size
    if body_at > len(data):
        return None
    fields = head.unpack_from(data, offset)
    size, magic, crc, body_size = fields[0], fields[1], fields[2], fields[14]
    end, topic_at = offset + size, body_at + (body_size if body_size > 0 else 0)
    if (
        end > len(data)
        or topic_at + 3 > end
        or not MESSAGE_FIXED_SIZE_BYTES_MIN <= size <= limits.MESSAGE_SIZE_BYTES_MAX
        or magic not in _MAGICS
    ):
        return None
    length, name_at = data[topic_at], topic_at + 1
    if magic == MESSAGE_MAGIC_V2:
        length, name_at = length << 8 | data[name_at], name_at + 1
    rest_at = name_at + length
    if length > (0x7F if magic == MESSAGE_MAGIC_V1 else 0x7FFF) or rest_at + 2 > end:
        return None
    properties_size = data[rest_at] << 8 | data[rest_at + 1]
    if rest_at + 2 + (properties_size if properties_size <= 0x7FFF else 0) != end:
        return None
    body = data[body_at:topic_at]
    if check_crc and body and body_crc(body) != crc:
        return None
    message = object.__new__(StoredMessage)
    message.__dict__.update(  # a frozen dataclass sets each field by a call
        size_bytes=size,
        magic=magic,
        body_crc=crc,
        queue_id=fields[3],
        flag=fields[4],
        queue_offset=fields[5],
        physical_offset=fields[6],
        sys_flag=fields[7],
        born_timestamp_ms=fields[8],
        born_host=_host(fields[9]),
        store_timestamp_ms=fields[10],
        store_host=_host(fields[11]),
        reconsume_times=fields[12],
        prepared_transaction_offset=fields[13],
        body=body,
        topic=data[name_at:rest_at],
        properties_raw=data[rest_at + 2 : end],
    )
    return message


def _decode_field_by_field(view: memoryview, size: int, path: str, position: int, check_crc: bool) -> StoredMessage:
    """Returns the message at the start of `view`. Raises the error that names the first damaged
    field."""
    cursor = _Cursor(view, size, path, position)
    head = MESSAGE_HEAD.struct.unpack(cursor.take(MESSAGE_HEAD.size_bytes, "head"))
    _, magic, stored_crc, queue_id, flag, queue_offset, physical_offset, sys_flag, born_ms = head
    born_size, store_size = host_sizes(sys_flag)
    born = Host.unpack(cursor.take(born_size, "born_host"))
    (store_ms,) = struct.unpack(">q", cursor.take(8, "store_timestamp_ms"))
    stored_at = Host.unpack(cursor.take(store_size, "store_host"))
    tail = MESSAGE_TAIL.struct.unpack(cursor.take(MESSAGE_TAIL.size_bytes, "tail"))
    reconsume_times, prepared_offset, body_length = tail
    body_at = cursor.at
    body = bytes(cursor.take(max(body_length, 0), "body"))
    length_size = 2 if magic == MESSAGE_MAGIC_V2 else 1
    topic_length = int.from_bytes(cursor.take(length_size, "topic"), "big", signed=True)
    topic = bytes(cursor.take(topic_length, "topic"))
    (properties_length,) = struct.unpack(">h", cursor.take(2, "properties"))
    raw = bytes(cursor.take(max(properties_length, 0), "properties"))
    if cursor.at != size:
        raise CorruptError(
            "the parts do not add up to the message's size",
            path=path,
            position=position,
            field="total_size",
            expected=cursor.at,
            found=size,
        )
    if check_crc and body and body_crc(body) != stored_crc:
        raise CrcMismatchError(
            "the body's CRC is wrong",
            path=path,
            position=position + body_at,
            field="body",
            expected=f"{stored_crc:#010x}",
            found=f"{body_crc(body):#010x}",
        )
    return StoredMessage(
        size_bytes=size,
        magic=magic,
        body_crc=stored_crc,
        queue_id=queue_id,
        flag=flag,
        queue_offset=queue_offset,
        physical_offset=physical_offset,
        sys_flag=sys_flag,
        born_timestamp_ms=born_ms,
        born_host=born,
        store_timestamp_ms=store_ms,
        store_host=stored_at,
        reconsume_times=reconsume_times,
        prepared_transaction_offset=prepared_offset,
        body=body,
        topic=topic,
        properties_raw=raw,
    )


def checked_size(head: bytes | memoryview, available_bytes: int, path: str, position: int) -> int:
    """Returns total_size of the message that begins with `head` (at least its first 8 bytes).

    `available_bytes` bytes are left from its start. Raises `TruncatedError` if they end inside the
    message, and `CorruptError` if no message starts here.
    """
    if len(head) < 8:
        raise TruncatedError(
            "the message is truncated",
            path=path,
            position=position,
            field="total_size",
            expected="8 bytes",
            found=len(head),
        )
    size, magic = int.from_bytes(head[:4], "big", signed=True), int.from_bytes(head[4:8], "big")
    if magic not in _MAGICS:
        raise CorruptError(
            "this is a blank, not a message" if magic == BLANK_MAGIC else "no message starts here",
            path=path,
            position=position + 4,
            field="magic",
            expected=f"{MESSAGE_MAGIC_V1:08x} or {MESSAGE_MAGIC_V2:08x}",
            found=f"{magic:08x}",
        )
    if not MESSAGE_FIXED_SIZE_BYTES_MIN <= size <= limits.MESSAGE_SIZE_BYTES_MAX:
        raise CorruptError(
            "the message size is invalid",
            path=path,
            position=position,
            field="total_size",
            expected=f"{MESSAGE_FIXED_SIZE_BYTES_MIN} to {limits.MESSAGE_SIZE_BYTES_MAX}",
            found=size,
        )
    if size > available_bytes:
        raise TruncatedError(
            "the bytes end inside the message",
            path=path,
            position=position,
            field="total_size",
            expected=f"{size} bytes",
            found=available_bytes,
        )
    return size


def head_struct(sys_flag: int) -> struct.Struct:
    """The format of all fields before the body, for the hosts that `sys_flag` tells of."""
    return _HEADS[sys_flag & _HOST_FLAGS]


def _head_struct(sizes: tuple[int, int]) -> struct.Struct:
    tail = MESSAGE_TAIL.struct.format[1:]
    return struct.Struct(f"{MESSAGE_HEAD.struct.format}{sizes[0]}sq{sizes[1]}s{tail}")


_MAGICS = MESSAGE_MAGIC_V1, MESSAGE_MAGIC_V2
_SYS_FLAG_AT = MESSAGE_HEAD.offset_of("sys_flag")
_HOST_FLAGS = SYS_FLAG_BORN_HOST_V6 | SYS_FLAG_STORE_HOST_V6
"""The bits of sysFlag that tell the sizes of the hosts. They are in its last byte."""
_HEADS = {
    born | store: _head_struct(host_sizes(born | store))
    for born, store in product((0, SYS_FLAG_BORN_HOST_V6), (0, SYS_FLAG_STORE_HOST_V6))
}
_host = lru_cache(1024)(Host.unpack)


def encode_rest(magic: int, body: bytes, topic: bytes, properties_raw: bytes) -> bytes:
    """The bytes from the body on."""
    return b"".join(
        (
            body,
            len(topic).to_bytes(2 if magic == MESSAGE_MAGIC_V2 else 1, "big"),
            topic,
            len(properties_raw).to_bytes(2, "big"),
            properties_raw,
        )
    )


def encode_message(message: StoredMessage) -> bytes:
    """The stored bytes of `message`. `size_bytes` is recomputed; the CRC is the message's."""
    head = head_struct(message.sys_flag)
    rest = encode_rest(message.magic, message.body, message.topic, message.properties_raw)
    return (
        head.pack(
            head.size + len(rest),
            message.magic,
            message.body_crc,
            message.queue_id,
            message.flag,
            message.queue_offset,
            message.physical_offset,
            message.sys_flag,
            message.born_timestamp_ms,
            message.born_host.pack(),
            message.store_timestamp_ms,
            message.store_host.pack(),
            message.reconsume_times,
            message.prepared_transaction_offset,
            len(message.body),
        )
        + rest
    )
