"""Kafka's hash of keys, murmur2, and the partition that it chooses.

Source: Kafka's Utils.murmur2, BuiltInPartitioner.partitionForKey.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

_SEED = 0x9747B28C
_M = 0x5BD1E995
_MASK = 0xFFFFFFFF


def murmur2(data: bytes) -> int:
    """Returns the hash as a number of 32 bits without sign."""
    value = _SEED ^ len(data)
    whole = len(data) & ~3
    for at in range(0, whole, 4):
        part = int.from_bytes(data[at : at + 4], "little") * _M & _MASK
        part = (part ^ part >> 24) * _M & _MASK
        value = (value * _M & _MASK) ^ part
    if whole < len(data):
        value = (value ^ int.from_bytes(data[whole:], "little")) * _M & _MASK
    value = (value ^ value >> 13) * _M & _MASK
    return value ^ value >> 15


def murmur2_of_all(data: npt.NDArray[np.uint8], offsets: npt.NDArray[np.int64]) -> npt.NDArray[np.uint32]:
    """Returns the hashes of many keys: key i is `data[offsets[i] : offsets[i + 1]]`. All keys are
    hashed at once, four bytes of each at a time."""
    sizes = np.diff(offsets)
    padded = np.concatenate([data, np.zeros(4, np.uint8)])
    m = np.uint32(_M)
    value = np.uint32(_SEED) ^ sizes.astype(np.uint32)
    for step in range(int(sizes.max(initial=0)) // 4):
        rows = np.flatnonzero(sizes >= 4 * step + 4)
        part = _words(padded, offsets[rows] + 4 * step) * m
        part = (part ^ part >> np.uint32(24)) * m
        value[rows] = value[rows] * m ^ part
    rows = np.flatnonzero(sizes & 3)
    left = (sizes[rows] & 3).astype(np.uint32)
    mask = (np.uint32(1) << (left * np.uint32(8))) - np.uint32(1)
    value[rows] = (value[rows] ^ (_words(padded, offsets[rows] + (sizes[rows] & ~3)) & mask)) * m
    value = (value ^ value >> np.uint32(13)) * m
    found: npt.NDArray[np.uint32] = value ^ value >> np.uint32(15)
    return found


def _words(data: npt.NDArray[np.uint8], places: npt.NDArray[np.int64]) -> npt.NDArray[np.uint32]:
    """Returns the four bytes at each place as a number."""
    words = np.zeros(len(places), np.uint32)
    for byte in range(4):
        words |= data[places + byte].astype(np.uint32) << np.uint32(8 * byte)
    return words


def partitions_of_keys(hashes: npt.NDArray[np.uint32], count: int) -> npt.NDArray[np.int32]:
    """Returns the partition of each key of a topic with `count` partitions."""
    return ((hashes & np.uint32(0x7FFFFFFF)) % np.uint32(count)).astype(np.int32)
