"""XXH32, the checksum of the header, and optionally of the blocks, of an LZ4 frame."""

from __future__ import annotations

import struct

_P1, _P2, _P3, _P4, _P5 = 0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D, 0x27D4EB2F, 0x165667B1
_MASK = 0xFFFFFFFF
_STRIPES = struct.Struct("<4I")


def _rotated(value: int, bits: int) -> int:
    value &= _MASK
    return (value << bits | value >> (32 - bits)) & _MASK


def xxh32(data: bytes | memoryview) -> int:
    """The XXH32 of `data` with seed 0, an unsigned 32-bit number."""
    size, at = len(data), 0
    if size >= 16:
        lanes = [(_P1 + _P2) & _MASK, _P2, 0, -_P1 & _MASK]
        while at + 16 <= size:
            words = _STRIPES.unpack_from(data, at)
            lanes = [_rotated(lane + word * _P2, 13) * _P1 & _MASK for lane, word in zip(lanes, words, strict=True)]
            at += 16
        value = sum(_rotated(lane, bits) for lane, bits in zip(lanes, (1, 7, 12, 18), strict=True))
    else:
        value = _P5
    value += size
    while at + 4 <= size:
        value = _rotated(value + int.from_bytes(data[at : at + 4], "little") * _P3, 17) * _P4
        at += 4
    for byte in data[at:]:
        value = _rotated(value + byte * _P5, 11) * _P1
    value &= _MASK
    value = (value ^ value >> 15) * _P2 & _MASK
    value = (value ^ value >> 13) * _P3 & _MASK
    return value ^ value >> 16
