"""XXH64 of keys in kernels, a column per call. Twin: `logdex.primitives.xxh64`.

All arithmetic is in uint64: in Numba, int64 combined with uint64 is a float64.
"""

from __future__ import annotations

import numpy as np

from logdex import limits
from logdex.kernels.common.memory import load_i64, load_le32, load_le64, load_u8, store_i32, store_i64
from logdex.kernels.compiled import inner_kernel, kernel
from logdex.kernels.kafka.spans import Spans, binary_at
from logdex.primitives.xxh64 import PRIMES

_P1, _P2, _P3, _P4, _P5 = (np.uint64(prime) for prime in PRIMES)
_OFFSET_MAX = limits.RELATIVE_OFFSET_MAX


@inner_kernel
def _rotated(value: int, bits: int) -> int:
    return (value << np.uint64(bits)) | (value >> np.uint64(64 - bits))


@inner_kernel
def _round(lane: int, word: int) -> int:
    return _rotated(lane + word * _P2, 31) * _P1


@inner_kernel
def _stripes(data: int, size: int, seed: int) -> int:
    """The hash after all whole stripes of 32 bytes, of which there is at least one."""
    a, b, c, d = seed + _P1 + _P2, seed + _P2, seed, seed - _P1
    for at in range(data, data + size - 31, 32):
        a = _round(a, load_le64(at))
        b = _round(b, load_le64(at + 8))
        c = _round(c, load_le64(at + 16))
        d = _round(d, load_le64(at + 24))
    value = _rotated(a, 1) + _rotated(b, 7) + _rotated(c, 12) + _rotated(d, 18)
    for lane in (a, b, c, d):
        value = (value ^ _round(np.uint64(0), lane)) * _P1 + _P4
    return value


@inner_kernel
def xxh64(data: int, size: int, seed: int) -> int:
    """The XXH64 of `size` bytes at address `data`; `seed` and the result are uint64."""
    value = _stripes(data, size, seed) if size >= 32 else seed + _P5
    value += np.uint64(size)
    at, end = data + (size & ~31), data + size
    while at + 8 <= end:
        value = _rotated(value ^ _round(np.uint64(0), load_le64(at)), 27) * _P1 + _P4
        at += 8
    if at + 4 <= end:
        word = np.uint64(load_le32(at) & 0xFFFFFFFF)
        value = _rotated(value ^ (word * _P1), 23) * _P2 + _P3
        at += 4
    while at < end:
        value = _rotated(value ^ (np.uint64(load_u8(at)) * _P5), 11) * _P1
        at += 1
    value = (value ^ (value >> np.uint64(33))) * _P2
    value = (value ^ (value >> np.uint64(29))) * _P3
    return value ^ (value >> np.uint64(32))


@kernel
def hash_column(keys: Spans, count: int, seed: int, hashes: int) -> None:
    """Stores the XXH64 of each of `count` keys to the uint64 array at `hashes`; null counts as
    empty."""
    for i in range(count):
        data, size = binary_at(keys, i)
        store_i64(hashes + 8 * i, np.int64(xxh64(data, max(size, 0), np.uint64(seed))))


@kernel
def hash_records(keys: Spans, offsets: int, count: int, base_offset: int, seed: int, hashes: int, places: int) -> int:
    """Stores hash (uint64) and relative offset (uint32) of each record that has a key, to two
    arrays.

    `offsets` is the address of the records' int64 offsets. Returns the number of entries, or -1 - i
    for a record i whose offset is not 0 to 2^31 - 1 above `base_offset`.
    """
    entries = 0
    for i in range(count):
        data, size = binary_at(keys, i)
        if size < 0:
            continue
        place = load_i64(offsets + 8 * i) - base_offset
        if place < 0 or place > _OFFSET_MAX:
            return -1 - i
        store_i64(hashes + 8 * entries, np.int64(xxh64(data, size, np.uint64(seed))))
        store_i32(places + 4 * entries, place)
        entries += 1
    return entries
