"""Reads in one CommitLog file: bytes, a message, and where in the log the file lies according to
its first messages."""

from __future__ import annotations

from typing import NamedTuple

from logdex.errors import CorruptError, MissingFileError, TruncatedError, UnreadableError
from logdex.io.open_files import OpenFiles
from logdex.layout.rocketmq import BLANK, BLANK_MAGIC
from logdex.rocketmq.files.offset_files import OFFSET_MAX, OffsetFile
from logdex.rocketmq.message.stored_message import StoredMessage, checked_size, decode_message, decode_whole

_HEAD_SIZE_BYTES = 8


def read_in(opened: OpenFiles, file: OffsetFile, position: int, size_bytes: int) -> bytes:
    """Returns exactly `size_bytes` bytes of a file. Raises `TruncatedError` if it has become
    shorter."""
    data = opened.read_at(file.path, position, size_bytes)
    if len(data) != size_bytes:
        raise TruncatedError(
            "the file has become shorter",
            path=file.path,
            position=position + len(data),
            expected=f"{size_bytes} bytes from {position}",
            found=len(data),
        )
    return data


def message_in(
    opened: OpenFiles, file: OffsetFile, position: int, *, check_crc: bool = True, ahead_bytes: int = 0
) -> StoredMessage:
    """Returns the message at a position in a file. Reads only its bytes, or `ahead_bytes` at once
    and then what is missing, and never past the end of the file. Raises `CorruptError` or a
    subclass if no whole message is there."""
    left = file.size_bytes - position
    size = min(max(ahead_bytes, _HEAD_SIZE_BYTES), left)
    try:
        data = opened.read_at(file.path, position, size)
        message = decode_whole(data, check_crc=check_crc)
        if message is not None:
            return message
    except UnreadableError:
        if size <= _HEAD_SIZE_BYTES:
            raise
        data = b""
    if len(data) < size:  # the bytes after the message may be the ones that cannot be read
        data = read_in(opened, file, position, min(_HEAD_SIZE_BYTES, left))
    size = checked_size(data, left, file.path, position)
    if size > len(data):
        data += read_in(opened, file, position + len(data), size - len(data))
    return decode_message(data, path=file.path, position=position, check_crc=check_crc)[0]


class StatedPlace(NamedTuple):
    """The physical offset at which a file begins according to its messages. `is_sure` states that
    two of them agree, or one and the file's name; a single message may be damaged."""

    start: int
    is_sure: bool


def stated_place(opened: OpenFiles, file: OffsetFile) -> StatedPlace | None:
    """Returns where a file lies by its first messages, None if they do not say it or the disk
    cannot read them. Raises `StorageError` if the system refuses to read the file."""
    try:
        message = message_in(opened, file, 0)
        start = message.physical_offset
        if start == file.start_offset:
            return StatedPlace(start, is_sure=True)
        if not 0 <= start <= OFFSET_MAX - file.size_bytes:
            return None
        if _ends_at(opened, file, message.size_bytes):
            return StatedPlace(start, is_sure=False)
        second = message_in(opened, file, message.size_bytes)
    except (CorruptError, MissingFileError, UnreadableError):  # a broker may have removed it
        return None
    return StatedPlace(start, is_sure=True) if second.physical_offset == start + message.size_bytes else None


def _ends_at(opened: OpenFiles, file: OffsetFile, position: int) -> bool:
    """Whether nothing was written behind a position, or a blank fills the rest."""
    head = opened.read_at(file.path, position, min(BLANK.size_bytes, file.size_bytes - position))
    if not any(head):
        return True
    return len(head) == BLANK.size_bytes and BLANK.struct.unpack(head) == (file.size_bytes - position, BLANK_MAGIC)
