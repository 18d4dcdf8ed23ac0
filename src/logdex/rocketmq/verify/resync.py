"""Finding the next message behind a place where none can be read, and what the bytes there are.

A message says where it lies (its physical offset), so magic and offset together are a mark that chance does not make.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from logdex.io.env import ByteArray
from logdex.layout.rocketmq import (
    BLANK,
    BLANK_MAGIC,
    MESSAGE_FIXED_SIZE_BYTES_MIN,
    MESSAGE_HEAD,
    MESSAGE_MAGIC_V1,
    MESSAGE_MAGIC_V2,
)

_CHUNK = 1 << 20
_AT_MAGIC = MESSAGE_HEAD.offset_of("magic")
_AT_OFFSET = MESSAGE_HEAD.offset_of("physical_offset")


def number_at(data: ByteArray, position: int, size_bytes: int, *, signed: bool = True) -> int:
    """The big-endian number at a position that lies within the data."""
    return int.from_bytes(data[position : position + size_bytes].tobytes(), "big", signed=signed)


def find_next(data: ByteArray, start: int, first_offset: int) -> int | None:
    """The first position from `start` on of a message that names its own place, or of a filler of the right size."""
    size = len(data)
    for chunk in range(start, size - BLANK.size_bytes + 1, _CHUNK):
        part = data[chunk + _AT_MAGIC : min(chunk + _CHUNK, size - _AT_MAGIC) + _AT_MAGIC]
        if not part.any():
            continue
        hits = np.flatnonzero((part == MESSAGE_MAGIC_V1 >> 24) | (part == BLANK_MAGIC >> 24))
        for position in (hits[_second_byte_fits(data, chunk + _AT_MAGIC + hits)] + chunk).tolist():
            if _is_start(data, position, first_offset):
                return int(position)
    return None


def _second_byte_fits(data: ByteArray, places: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    second = data[np.minimum(places + 1, len(data) - 1)]
    fits = (second == (MESSAGE_MAGIC_V1 >> 16) & 0xFF) | (second == (BLANK_MAGIC >> 16) & 0xFF)
    return np.asarray(fits)


def _is_start(data: ByteArray, position: int, first_offset: int) -> bool:
    left = len(data) - position
    if left < BLANK.size_bytes:
        return False
    size, magic = number_at(data, position, 4), number_at(data, position + _AT_MAGIC, 4, signed=False)
    if magic == BLANK_MAGIC:
        return size == left
    if magic not in (MESSAGE_MAGIC_V1, MESSAGE_MAGIC_V2) or not MESSAGE_FIXED_SIZE_BYTES_MIN <= size <= left:
        return False
    return number_at(data, position + _AT_OFFSET, 8) == first_offset + position


def first_nonzero(data: ByteArray, start: int) -> int | None:
    """The first byte from `start` on that is not zero."""
    for chunk in range(start, len(data), _CHUNK):
        part = data[chunk : chunk + _CHUNK]
        if part.any():
            return chunk + int(np.argmax(part != 0))
    return None


def last_nonzero(data: ByteArray, start: int) -> int | None:
    """The last byte from `start` on that is not zero."""
    end = len(data)
    while end > start:
        chunk = max(start, end - _CHUNK)
        part = data[chunk:end]
        if part.any():
            return end - 1 - int(np.argmax(part[::-1] != 0))
        end = chunk
    return None
