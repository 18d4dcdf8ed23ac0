"""The plain twin of the scan kernel: it computes the same columns from messages decoded one by one.

Property tests compare the kernel with it. Programs use `logdex.rocketmq.scan.scanner`, which
decodes only a few messages in this way.
"""

from __future__ import annotations

from dataclasses import dataclass

from logdex.errors import CorruptError, CrcMismatchError, TruncatedError
from logdex.kernels.rocketmq import message_scan as kernel
from logdex.layout.rocketmq import BLANK_MAGIC, MESSAGE_HEAD
from logdex.rocketmq.index_file.index_keys import message_key_hashes
from logdex.rocketmq.message.stored_message import StoredMessage, decode_message
from logdex.rocketmq.message.tags_code import tags_code
from logdex.rocketmq.settings.store_config import StoreConfig


@dataclass(frozen=True, slots=True)
class PlainRow:
    """The columns of one message: the fields of `logdex.kernels.rocketmq.message_scan.Columns`,
    with the keys as a tuple."""

    position: int
    stored_offset: int
    queue_offset: int
    store_timestamp_ms: int
    born_timestamp_ms: int
    tags_code: int
    size: int
    sys_flag: int
    topic: bytes
    queue_id: int
    body: bytes
    properties: bytes
    key_hashes: tuple[int, ...]


def scan_plain(
    data: bytes, config: StoreConfig, *, first_offset: int = 0, check_crc: bool = True
) -> tuple[list[PlainRow], int, int]:
    """Returns the rows of the messages in one file's bytes, the position where the scan stopped,
    and the kernel's code for the reason."""
    rows: list[PlainRow] = []
    at = 0
    while at < len(data):
        reason, message = next_message(data, at, check_crc)
        if message is None:
            return rows, at, reason
        code = tags_code(message, config)
        if code is None:
            return rows, at, kernel.BAD_DELAY
        rows.append(_row(message, first_offset + at, code, config))
        at += message.size_bytes
    return rows, at, kernel.LIMIT


def pick_plain(
    data: bytes, places: list[tuple[int, int, int]], config: StoreConfig, *, check_crc: bool = True
) -> tuple[list[PlainRow], bool]:
    """The plain twin of the pick kernel. Returns the rows of the messages at (position in `data`,
    size, physical offset), and whether each of them is there. The rows end before the first one
    that is not."""
    rows: list[PlainRow] = []
    for at, size, position in places:
        reason, message = next_message(data, at, check_crc)
        code = None if message is None or reason >= 0 else tags_code(message, config)
        if message is None or code is None or message.size_bytes != size:
            return rows, False
        rows.append(_row(message, position, code, config))
    return rows, True


def _row(message: StoredMessage, position: int, code: int, config: StoreConfig) -> PlainRow:
    return PlainRow(
        position=position,
        stored_offset=message.physical_offset,
        queue_offset=message.queue_offset,
        store_timestamp_ms=message.store_timestamp_ms,
        born_timestamp_ms=message.born_timestamp_ms,
        tags_code=code,
        size=message.size_bytes,
        sys_flag=message.sys_flag,
        topic=message.topic,
        queue_id=message.queue_id,
        body=message.body,
        properties=message.properties_raw,
        key_hashes=tuple(message_key_hashes(message, config.dialect)),
    )


def next_message(data: bytes, at: int, check_crc: bool) -> tuple[int, StoredMessage | None]:
    """Returns (-1, the message at a position of a file's bytes), or the kernel's code for why there
    is none, and None."""
    head = data[at : at + 8]
    if len(head) == 8 and int.from_bytes(head[4:], "big") == BLANK_MAGIC:
        return kernel.FILE_END, None
    if head == bytes(8):
        return kernel.ZEROS, None
    try:
        return -1, decode_message(data, at, check_crc=check_crc)[0]
    except TruncatedError:
        return kernel.TORN, None
    except CrcMismatchError:
        return kernel.BAD_CRC, None
    except CorruptError as error:
        if error.field == "magic":
            return kernel.BAD_MAGIC, None
        is_size = error.field == "total_size" and error.position == at and len(data) - at >= MESSAGE_HEAD.size_bytes
        return kernel.BAD_SIZE if is_size and "possible" in error.message else kernel.BAD_LENGTHS, None
