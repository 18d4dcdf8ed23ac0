"""What is at a byte of a CommitLog file: a message that stores this physical offset, the filler, or
bytes that were never written; and where a damaged message ends by its own fields.

`logdex.rocketmq.scan.resume` uses this to decide where reading continues after damage.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from logdex import limits
from logdex.errors import CorruptError
from logdex.io.env import Env
from logdex.io.mapped.byte_array import ByteArray
from logdex.io.mapped.mapping import readable_end
from logdex.layout.rocketmq import (
    BLANK,
    BLANK_MAGIC,
    MESSAGE_FIXED_SIZE_BYTES_MIN,
    MESSAGE_HEAD,
    MESSAGE_MAGIC_V1,
    MESSAGE_MAGIC_V2,
    MESSAGE_TAIL,
)
from logdex.primitives.crc import body_crc
from logdex.rocketmq.message.stored_message import StoredMessage, body_at, decode_message

_CHUNK = 1 << 20
_NEAR_BYTES = 1 << 16
_AT_MAGIC = MESSAGE_HEAD.offset_of("magic")
_AT_OFFSET = MESSAGE_HEAD.offset_of("physical_offset")
_AT_CRC = MESSAGE_HEAD.offset_of("body_crc")
_AT_SYS_FLAG = MESSAGE_HEAD.offset_of("sys_flag")
_BODY_LENGTH_BEFORE_BODY = MESSAGE_TAIL.size_bytes - MESSAGE_TAIL.offset_of("body_length")
_START = struct.Struct(f">iI{_AT_OFFSET - 8}xq")
"""Size, magic and physical offset of a message."""
_TOPIC_LENGTH_SIZES = {MESSAGE_MAGIC_V1: (1,), MESSAGE_MAGIC_V2: (2,)}
_PROPERTIES_LENGTH_SIZE = 2
_FIRST_BYTES = MESSAGE_MAGIC_V1 >> 24, BLANK_MAGIC >> 24
_REST_SIZE_MIN = 3
"""The bytes after the body: a topic length of one byte, no topic, a properties length, no
properties."""
_SIZE_MAX = limits.MESSAGE_SIZE_BYTES_MAX
_REST_SIZE_MAX = 2 + 2 + 2 * ((1 << 15) - 1)
"""Both lengths are signed numbers of at most 16 bits."""


class DamagedMessage(NamedTuple):
    """Where a damaged message may end by its own fields."""

    ends: tuple[int, ...]
    """The positions where it may end, in rising order, none after the end of the file."""
    least: int
    """It does not end before this position."""
    is_length_right: bool = False
    """Whether its body has the stated length, so that `ends` are after the body."""
    is_sure: bool = False
    """Whether its size and the lengths of its parts give the same end."""


def data_end_of(path: str, position: int, env: Env) -> int:
    """Returns where the hole begins that a file ends with, at `position` or behind it. Brokers make
    their files in advance, and what they have not written takes long to read as zeros."""
    with env.open_read(path) as file:
        return file.data_end(position)


class LogBytes:
    """The mapped bytes of one CommitLog file whose first byte has the physical offset
    `start_offset`. From `data_end` on there is a hole, which is not read. Not thread-safe."""

    def __init__(self, data: ByteArray, start_offset: int, data_end: int | None = None) -> None:
        self.size = len(data)
        self._data_end = self.size if data_end is None else min(data_end, self.size)
        self.start_offset = start_offset
        self._data = data
        self._view = memoryview(data)  # type: ignore[arg-type]  # arrays are buffers

    def number(self, at: int, size_bytes: int, *, signed: bool = True) -> int:
        """Returns the big-endian number at a position inside the file."""
        return int.from_bytes(self._view[at : at + size_bytes], "big", signed=signed)

    # -- what is at a place -----------------------------------------------------------------------
    def message_end(self, at: int) -> int | None:
        """Returns the end of the message at `at`, None unless the head of one is there: its magic,
        a size that fits, and this place as its physical offset."""
        left = self.size - at
        if left < MESSAGE_FIXED_SIZE_BYTES_MIN:
            return None
        size, magic, offset = _START.unpack_from(self._view, at)
        if offset != self.start_offset + at or magic not in _TOPIC_LENGTH_SIZES:
            return None
        return at + size if MESSAGE_FIXED_SIZE_BYTES_MIN <= size <= min(left, _SIZE_MAX) else None

    def message(self, at: int) -> StoredMessage | None:
        """Returns the message at `at`, None unless it is whole: its parts add up to its size and
        its CRC is right."""
        try:
            return decode_message(self._view, at)[0]
        except CorruptError:
            return None

    def is_filler(self, at: int) -> bool:
        """Returns whether a filler that reaches to the end of the file begins at `at`."""
        left = self.size - at
        return left >= BLANK.size_bytes and BLANK.struct.unpack_from(self._view, at) == (left, BLANK_MAGIC)

    def is_unwritten(self, at: int) -> bool:
        """Returns whether the file ends at `at`, or only zeros follow."""
        near = min(at + _NEAR_BYTES, self._data_end)
        if any(self._view[at : at + BLANK.size_bytes]) or self._data[at:near].any():
            return False  # the last byte that was written takes long to find
        return at > self._last_written

    def is_written_up_to(self, at: int) -> bool:
        """Returns whether only zeros follow `at`, and the bytes before it are not zeros already. A
        message ends with its properties, or with a properties length of 0 after a topic."""
        return self.is_unwritten(at) and at - _PROPERTIES_LENGTH_SIZE <= self._last_written + 1

    @cached_property
    def _last_written(self) -> int:
        """The last byte that is not zero. Where bytes behind it cannot be read nobody knows it, and
        no place counts as unwritten."""
        last = self.last_nonzero(0)
        first_zero = 0 if last is None else last + 1
        all_read = readable_end(self._data, first_zero, self._data_end) == self._data_end
        return first_zero - 1 if all_read else self.size

    def goes_on(self, at: int) -> bool:
        """Returns whether a message may end at `at`: another message begins there by its head or by
        the lengths of its parts, or the filler begins there, or nothing was written from there
        on."""
        is_start = self.message_end(at) is not None or self.is_filler(at)
        return is_start or self.is_unwritten(at) or self.damaged(at).is_sure

    # -- a damaged message ------------------------------------------------------------------------
    def damaged(self, at: int) -> DamagedMessage:
        """Returns where the message at `at`, which cannot be read, may end by its own fields.

        Its size is stated twice: in its first field, and by the lengths of its parts. One damaged
        byte leaves one of the two right. The body has the stated length if its CRC is right, or if
        the size leaves just enough bytes after the body for a topic and properties. Then the
        message does not end inside the body, whatever the body contains.
        """
        nothing = DamagedMessage((), at + 1)
        if self.size - at < MESSAGE_FIXED_SIZE_BYTES_MIN:
            return nothing
        size, magic = self.number(at, 4), self.number(at + _AT_MAGIC, 4, signed=False)
        body = at + body_at(self.number(at + _AT_SYS_FLAG, 4))
        if body > self.size:
            return nothing
        body_end = body + max(self.number(body - _BODY_LENGTH_BEFORE_BODY, 4), 0)
        by_size = at + size if MESSAGE_FIXED_SIZE_BYTES_MIN <= size <= limits.MESSAGE_SIZE_BYTES_MAX else -1
        by_parts = [self._end_of_parts(body_end, wide) for wide in _TOPIC_LENGTH_SIZES.get(magic, (1, 2))]
        if by_size > 0 and by_size in by_parts:
            return DamagedMessage((by_size,), by_size, is_length_right=True, is_sure=True)
        least = body_end + _REST_SIZE_MIN
        # An empty body is no evidence: a head overwritten with zeros has one whose CRC is right.
        if self._has_right_crc(at, body, body_end) and (body_end > body or magic in _TOPIC_LENGTH_SIZES):
            ends = {end for end in (by_size, *by_parts) if least <= end <= self.size}
            return DamagedMessage(tuple(sorted(ends)), least, is_length_right=True)
        ends = {by_size} if at < by_size <= self.size else set()
        if least <= by_size <= body_end + _REST_SIZE_MAX:
            return DamagedMessage(tuple(ends), least, is_length_right=True)
        return DamagedMessage(tuple(ends), at + 1)

    def _end_of_parts(self, body_end: int, topic_length_size: int) -> int:
        """Returns the position after the properties of a message whose body ends at `body_end`, -1
        if that is after the end of the file."""
        at = body_end + topic_length_size
        if at > self.size:
            return -1
        at += self.number(body_end, topic_length_size) + 2
        if not body_end + topic_length_size + 2 <= at <= self.size:
            return -1
        end = at + max(self.number(at - 2, 2), 0)
        return end if end <= self.size else -1

    def _has_right_crc(self, at: int, body: int, body_end: int) -> bool:
        stated = self.number(at + _AT_CRC, 4, signed=False)
        return body_end <= self.size and body_crc(self._view[body:body_end]) == stated

    # -- searching --------------------------------------------------------------------------------
    def starts(self, begin: int, end: int) -> Iterator[int]:
        """Yields the positions in [begin, end) where the head of a message or a filler is, in
        rising order."""
        last = min(end, self.size - BLANK.size_bytes + 1, self._data_end)
        for chunk in range(begin, last, _CHUNK):
            part = self._data[chunk + _AT_MAGIC : min(chunk + _CHUNK, last) + _AT_MAGIC]
            hits = chunk + np.flatnonzero((part == _FIRST_BYTES[0]) | (part == _FIRST_BYTES[1]))
            magics = self._numbers(hits + _AT_MAGIC, ">u4")
            is_blank = magics == BLANK_MAGIC
            is_own = (magics == MESSAGE_MAGIC_V1) | (magics == MESSAGE_MAGIC_V2)
            offsets = self._numbers(hits[is_own] + _AT_OFFSET, ">i8")
            is_own[is_own] = offsets == self.start_offset + hits[is_own]
            for at in hits[is_own | is_blank].tolist():
                if self.message_end(at) is not None or self.is_filler(at):
                    yield at

    def _numbers(self, places: npt.NDArray[np.int64], dtype: str) -> npt.NDArray[np.int64]:
        """Returns the big-endian numbers at some places. For a place too near the end of the file
        it returns the number in the last bytes of the file."""
        size = np.dtype(dtype).itemsize
        at = np.minimum(places, self.size - size)[:, np.newaxis] + np.arange(size)
        return np.ascontiguousarray(self._data[at]).view(dtype).reshape(-1).astype(np.int64)

    def first_nonzero(self, begin: int) -> int | None:
        """Returns the position of the first byte from `begin` on that is not zero."""
        for chunk in range(begin, self._data_end, _CHUNK):
            part = self._data[chunk : min(chunk + _CHUNK, self._data_end)]
            if part.any():
                return chunk + int(np.argmax(part != 0))
        return None

    def last_nonzero(self, begin: int) -> int | None:
        """Returns the position of the last byte from `begin` on that is not zero."""
        end = self._data_end
        while end > begin:
            chunk = max(begin, end - _CHUNK)
            part = self._data[chunk:end]
            if part.any():
                return end - 1 - int(np.argmax(part[::-1] != 0))
            end = chunk
        return None
