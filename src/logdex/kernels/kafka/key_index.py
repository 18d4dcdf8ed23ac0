"""Key indexes: sorts entries, writes a file's body, looks keys up. Twin:
`logdex.kafka.key_index.plain`.

Entries are sorted by the highest `fan_out_bits + 32` bits of their hash, stably, so that equal ones
stay oldest first. The sort partitions by the highest bits into parts that fit the cache, then
radix-sorts each part by the other bits, in the same time for all keys. Source:
``docs/formats/kafka-key-index.md``.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from logdex.kernels.common.crc32c import crc32c
from logdex.kernels.common.memory import load_be32, load_i64, load_u8, prefetch, store_be32, store_i64, store_u8
from logdex.kernels.compiled import inner_kernel, kernel
from logdex.kernels.kafka.batch_columns import Int64s
from logdex.layout import kafka as layout

UInt64s = npt.NDArray[np.uint64]
UInt32s = npt.NDArray[np.uint32]

FILTER_BLOCK_SIZE_BYTES = 64
"""All bits of a key are in one block, which is a cache line."""
FILTER_BITS = 6
FILTER_FACTOR = 0x9E3779B97F4A7C15
_FILTER_FACTOR = np.uint64(FILTER_FACTOR)

_DIGIT_BITS = 11
_DIGITS = 1 << _DIGIT_BITS
_DIGIT_MASK = np.uint64(_DIGITS - 1)
_PASSES = 4
_PART_BITS = 13
"""A part has about 2^13 entries: 100 KB, or 200 KB with their copy."""
_LOW_32 = np.uint64(0xFFFFFFFF)
_BLOCK = layout.KEY_INDEX_BLOCK_SIZE_BYTES
_ENTRY = layout.KEY_INDEX_ENTRY.size_bytes
_LOOKAHEAD = 16


@inner_kernel
def _scatter(
    keys: UInt64s, places: UInt32s, to_keys: UInt64s, to_places: UInt32s, start: int, end: int, shift: int, ends: Int64s
) -> bool:
    """Sorts [start, end) stably by the digit at `shift`, to the same range of the other arrays.

    `ends` is a work array: it becomes the end of each digit's part. Returns False if all have the
    same digit; then nothing is moved.
    """
    ends[:] = 0
    down = np.uint64(shift)
    for i in range(start, end):
        ends[np.int64((keys[i] >> down) & _DIGIT_MASK)] += 1
    if ends[np.int64((keys[start] >> down) & _DIGIT_MASK)] == end - start:
        return False
    at = start
    for digit in range(_DIGITS):
        at, ends[digit] = at + ends[digit], at
    for i in range(start, end):
        digit = np.int64((keys[i] >> down) & _DIGIT_MASK)
        to = ends[digit]
        to_keys[to] = keys[i]
        to_places[to] = places[i]
        ends[digit] = to + 1
    return True


@inner_kernel
def _sort_part(
    keys: UInt64s, places: UInt32s, more_keys: UInt64s, more_places: UInt32s, start: int, end: int, shift: int
) -> None:
    """Sorts [start, end) in place by the bits from `shift` on. `more_*` are work arrays of the same
    size."""
    ends = np.empty(_DIGITS, np.int64)
    moved = False
    for k in range(_PASSES):
        if shift + k * _DIGIT_BITS >= 64:
            break
        if moved:
            moved = not _scatter(more_keys, more_places, keys, places, start, end, shift + k * _DIGIT_BITS, ends)
        else:
            moved = _scatter(keys, places, more_keys, more_places, start, end, shift + k * _DIGIT_BITS, ends)
    if moved:
        for i in range(start, end):
            keys[i], places[i] = more_keys[i], more_places[i]


@kernel
def sort_entries(keys: UInt64s, places: UInt32s, more_keys: UInt64s, more_places: UInt32s, fan_out_bits: int) -> bool:
    """Sorts entries stably by the highest `fan_out_bits` + 32 bits of their hash.

    `more_*` are work arrays of the same size. Returns True if the result is in them.
    """
    count = len(keys)
    lowest = 32 - fan_out_bits
    if count <= 1 << _PART_BITS:
        if count > 1:
            _sort_part(keys, places, more_keys, more_places, 0, count, lowest)
        return False
    ends = np.empty(_DIGITS, np.int64)
    if not _scatter(keys, places, more_keys, more_places, 0, count, 64 - _DIGIT_BITS, ends):
        _sort_part(keys, places, more_keys, more_places, 0, count, lowest)
        return False
    start = 0
    for part in range(_DIGITS):
        if ends[part] > start + 1:
            _sort_part(more_keys, more_places, keys, places, start, ends[part], lowest)
        start = ends[part]
    return True


@kernel
def count_keys(keys: UInt64s, fan_out_bits: int) -> int:
    """The number of different values of the highest `fan_out_bits` + 32 bits of sorted hashes."""
    to_bits = np.uint64(32 - fan_out_bits)
    different = min(len(keys), 1)
    for i in range(1, len(keys)):
        different += (keys[i] >> to_bits) != (keys[i - 1] >> to_bits)
    return different


@kernel
def write_table(keys: UInt64s, places: UInt32s, fan_out_bits: int, fan_out: int, entries: int) -> None:
    """Writes the fan-out table and the entries, of sorted entries, to two addresses."""
    count = len(keys)
    to_prefix, to_bits = np.uint64(64 - fan_out_bits), np.uint64(32 - fan_out_bits)
    bucket = 0
    for i in range(count):
        prefix = np.int64(keys[i] >> to_prefix)
        while bucket <= prefix:
            store_be32(fan_out + 4 * bucket, i)
            bucket += 1
        store_be32(entries + _ENTRY * i, np.int64((keys[i] >> to_bits) & _LOW_32))
        store_be32(entries + _ENTRY * i + 4, np.int64(places[i]))
    while bucket <= 1 << fan_out_bits:
        store_be32(fan_out + 4 * bucket, count)
        bucket += 1


@inner_kernel
def _filter_block(key: int, blocks: int) -> int:
    return np.int64(((key >> np.uint64(32)) * np.uint64(blocks)) >> np.uint64(32))


@kernel
def write_filter(keys: UInt64s, filter_at: int, blocks: int) -> None:
    """Sets the bits of each hash in a zeroed filter of `blocks` blocks at an address."""
    for i in range(len(keys)):
        block = filter_at + FILTER_BLOCK_SIZE_BYTES * _filter_block(keys[i], blocks)
        bits = keys[i] * _FILTER_FACTOR
        for k in range(FILTER_BITS):
            bit = np.int64((bits >> np.uint64(55 - 9 * k)) & np.uint64(511))
            store_u8(block + (bit >> 3), load_u8(block + (bit >> 3)) | (1 << (bit & 7)))


@kernel
def write_block_crcs(body: int, size: int, crcs: int, crc_function: int, crc_table: int) -> None:
    """Writes the CRC-32C of each block of `size` bytes at `body` to the address `crcs`."""
    for block in range((size + _BLOCK - 1) // _BLOCK):
        length = min(_BLOCK, size - block * _BLOCK)
        store_be32(crcs + 4 * block, crc32c(crc_function, crc_table, body + block * _BLOCK, length))


class IndexBody(NamedTuple):
    """A key index in memory: addresses and counts.

    `checked` has one byte per block, which is 1 once the block's CRC was verified.
    """

    body: int
    size: int
    filter_blocks: int
    fan_out: int
    entries: int
    entry_count: int
    fan_out_bits: int
    block_crcs: int
    checked: int
    crc_function: int
    crc_table: int


GOOD = -1
"""There is no damaged block."""


@inner_kernel
def _check_blocks(index: IndexBody, address: int, size: int) -> int:
    """GOOD, or the position in the body of the first damaged block that contains any of the
    bytes."""
    if size == 0:
        return GOOD
    for block in range((address - index.body) // _BLOCK, (address - index.body + size - 1) // _BLOCK + 1):
        if load_u8(index.checked + block) == 0:
            length = min(_BLOCK, index.size - block * _BLOCK)
            crc = crc32c(index.crc_function, index.crc_table, index.body + block * _BLOCK, length)
            if crc != load_be32(index.block_crcs + 4 * block) & 0xFFFFFFFF:
                return block * _BLOCK
            store_u8(index.checked + block, 1)
    return GOOD


@kernel
def passes_filter(index: IndexBody, key: int, bad: int) -> bool:
    """Whether the filter lets a hash (uint64) pass.

    Stores GOOD, or where the filter is damaged, to the int64 at `bad`.
    """
    if index.filter_blocks == 0:
        store_i64(bad, GOOD)
        return False
    block = index.body + FILTER_BLOCK_SIZE_BYTES * _filter_block(key, index.filter_blocks)
    store_i64(bad, _check_blocks(index, block, FILTER_BLOCK_SIZE_BYTES))
    bits = key * _FILTER_FACTOR
    for k in range(FILTER_BITS):
        bit = np.int64((bits >> np.uint64(55 - 9 * k)) & np.uint64(511))
        if (load_u8(block + (bit >> 3)) >> (bit & 7)) & 1 == 0:
            return False
    return True


@inner_kernel
def _first_at_least(entries: int, low: int, end: int, wanted: int) -> int:
    """The first of entries [low, end) whose hash bits are at least `wanted`, or `end`."""
    rest = end - low
    while rest > 0:
        half = rest >> 1
        if load_be32(entries + _ENTRY * (low + half)) & 0xFFFFFFFF < wanted:
            low += half + 1
            rest -= half + 1
        else:
            rest = half
    return low


@inner_kernel
def _find_run(index: IndexBody, key: int, run: int) -> int:
    """Stores (first, count) of a hash's entries to the two int64 at `run`.

    Returns GOOD, or where the index is damaged.
    """
    fan = index.fan_out + 4 * np.int64(key >> np.uint64(64 - index.fan_out_bits))
    bad = _check_blocks(index, fan, 8)
    if bad != GOOD:
        return bad
    low, end = load_be32(fan), load_be32(fan + 4)
    if not 0 <= low <= end <= index.entry_count:
        return fan - index.body
    bad = _check_blocks(index, index.entries + _ENTRY * low, _ENTRY * (end - low))
    if bad != GOOD:
        return bad
    wanted = np.int64((key >> np.uint64(32 - index.fan_out_bits)) & _LOW_32)
    first = _first_at_least(index.entries, low, end, wanted)
    store_i64(run, first)
    store_i64(run + 8, _first_at_least(index.entries, first, end, wanted + 1) - first)
    return GOOD


@kernel
def find_runs(index: IndexBody, keys: int, count: int, runs: int) -> int:
    """Stores (first, count) of the entries of each of `count` hashes to int64[count, 2].

    Returns GOOD, or where the index is damaged.
    """
    to_prefix = np.uint64(64 - index.fan_out_bits)
    for i in range(count):
        if i + _LOOKAHEAD < count:
            ahead = np.uint64(load_i64(keys + 8 * (i + _LOOKAHEAD)))
            prefetch(index.fan_out + 4 * np.int64(ahead >> to_prefix))
        bad = _find_run(index, np.uint64(load_i64(keys + 8 * i)), runs + 16 * i)
        if bad != GOOD:
            return bad
    return GOOD


@kernel
def gather_offsets(entries: int, runs: int, count: int, base_offset: int, offsets: int) -> None:
    """Stores the offsets of each run's entries, last entry first, run after run, as int64."""
    at = offsets
    for i in range(count):
        first = load_i64(runs + 16 * i)
        for entry in range(first + load_i64(runs + 16 * i + 8) - 1, first - 1, -1):
            store_i64(at, base_offset + load_be32(entries + _ENTRY * entry + 4))
            at += 8


@kernel
def check_all(index: IndexBody) -> int:
    """GOOD, or the position of the first damaged block of the whole body."""
    return _check_blocks(index, index.body, index.size)
