"""XXH64, the hash of keys in a key index, after the published specification of xxHash."""

from __future__ import annotations

import struct

PRIMES = (0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5)
_P1, _P2, _P3, _P4, _P5 = PRIMES
_MASK = (1 << 64) - 1
_STRIPE = struct.Struct("<4Q")


def _rotated(value: int, bits: int) -> int:
    value &= _MASK
    return (value << bits | value >> (64 - bits)) & _MASK


def _round(lane: int, word: int) -> int:
    return _rotated(lane + word * _P2, 31) * _P1 & _MASK


def xxh64(data: bytes, seed: int = 0) -> int:
    """The XXH64 of `data`, an unsigned 64-bit number."""
    size, at = len(data), 0
    if size >= 32:
        lanes = [seed + _P1 + _P2, seed + _P2, seed, seed - _P1]
        while at + 32 <= size:
            lanes = [_round(lane, word) for lane, word in zip(lanes, _STRIPE.unpack_from(data, at), strict=True)]
            at += 32
        value = sum(_rotated(lane, bits) for lane, bits in zip(lanes, (1, 7, 12, 18), strict=True))
        for lane in lanes:
            value = (value ^ _round(0, lane)) * _P1 + _P4 & _MASK
    else:
        value = seed + _P5
    value = value + size & _MASK
    while at + 8 <= size:
        value = _rotated(value ^ _round(0, int.from_bytes(data[at : at + 8], "little")), 27) * _P1 + _P4
        at += 8
    if at + 4 <= size:
        value = _rotated(value ^ int.from_bytes(data[at : at + 4], "little") * _P1, 23) * _P2 + _P3
        at += 4
    for byte in data[at:]:
        value = _rotated(value ^ byte * _P5, 11) * _P1
    value &= _MASK
    value = (value ^ value >> 33) * _P2 & _MASK
    value = (value ^ value >> 29) * _P3 & _MASK
    return value ^ value >> 32
