"""The property kernel: decodes many messages' raw properties into buffers of Arrow columns.

The columns are a map, KEYS, TAGS and UNIQ_KEY. Twins: `parse_properties` and `split_keys` of
`logdex.rocketmq.message.properties`. It handles valid UTF-8 with up to `NAMES_MAX` different names.
Other messages are *odd*: the caller converts them to plain UTF-8 and calls again.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from logdex.kernels.common.memory import (
    copy_bytes,
    count_trailing_zeros,
    load_i64,
    load_le64,
    load_u8,
    store_i32,
    store_i64,
    store_u8,
)
from logdex.kernels.common.utf8 import HIGH_BITS, well_formed
from logdex.kernels.compiled import inner_kernel, kernel
from logdex.kernels.rocketmq.property_text import NAME_KEYS, NAME_TAGS, NAME_UNIQ_KEY, separators

SLACK = 8
"""Readable bytes after the properties of each message."""

NAMES_MAX = 64
PAIRS_MAX = 8_192
"""Pairs in 32,767 bytes: each has two letters and two separators, of which the last may lack
one."""
_PAIR_SIZE = 24
SCRATCH_SIZE = PAIRS_MAX * _PAIR_SIZE // 8
"""int64s for the pairs of one message: the addresses of name, separator and end."""

# The elements of `state` (int64): counts of the output so far.
(PAIRS, NAME_BYTES, VALUE_BYTES, KEYS, KEY_BYTES, TAGS, TAG_BYTES, UNIQUE_KEYS, UNIQUE_KEY_BYTES) = range(9)
STATE_SIZE = 9

_FOUR = np.uint64(0xFFFFFFFF)


class PropertyTargets(NamedTuple):
    """The addresses of the outputs; if all are 0, the output is only counted.

    `…_ends` are Arrow's int32 offsets, of which the first is 0: `pair_ends` and `keys_ends` count a
    message's pairs and keys, the others bytes. `…_valid` has one byte per message, 1 or 0.
    """

    pair_ends: int
    name_ends: int
    name_data: int
    value_ends: int
    value_data: int
    keys_ends: int
    key_ends: int
    key_data: int
    tags_ends: int
    tags_valid: int
    tags_data: int
    unique_key_ends: int
    unique_key_valid: int
    unique_key_data: int


@inner_kernel
def _find_pairs(start: int, end: int, pairs: int) -> int:
    """Stores the pairs with name and value in stored order; returns their number. A value may
    contain byte 1."""
    count = 0
    name, separator, at = start, np.int64(0), start
    while at < end:
        word = load_le64(at)
        hits = separators(word)
        while hits != np.uint64(0):
            shift = count_trailing_zeros(hits)
            place = at + (shift >> 3)
            if place >= end:
                break
            if (word >> np.uint64(shift - 7)) & np.uint64(0xFF) == np.uint64(2):
                count = _note_pair(name, separator, place, pairs, count)
                name, separator = place + 1, np.int64(0)
            elif separator == 0:
                separator = place
            hits &= hits - np.uint64(1)
        at += 8
    return _note_pair(name, separator, end, pairs, count)


@inner_kernel
def _note_pair(name: int, separator: int, end: int, pairs: int, count: int) -> int:
    if separator <= name or end - separator <= 1 or count == PAIRS_MAX:
        return count
    at = pairs + _PAIR_SIZE * count
    store_i64(at, name)
    store_i64(at + 8, separator)
    store_i64(at + 16, end)
    return count + 1


@kernel
def _is_utf8(start: int, end: int) -> bool:
    """Whether the bytes are valid UTF-8 for Python and Arrow: shortest forms, no surrogates."""
    at = start
    while at < end:
        rest = end - at
        high = load_le64(at) & HIGH_BITS
        step = min(np.int64(8) if high == np.uint64(0) else count_trailing_zeros(high) >> 3, rest)
        if step > 0:
            at += step
            continue
        good, need = well_formed(at, rest)
        if good != need:
            return False
        at += good
    return True


@inner_kernel
def _has_equal_names(pairs: int, count: int) -> bool:
    for i in range(1, count):
        name = load_i64(pairs + _PAIR_SIZE * i)
        size = load_i64(pairs + _PAIR_SIZE * i + 8) - name
        first = load_u8(name)
        for j in range(i):
            other = load_i64(pairs + _PAIR_SIZE * j)
            if load_i64(pairs + _PAIR_SIZE * j + 8) - other != size or load_u8(other) != first:
                continue
            k = 1
            while k < size and load_u8(name + k) == load_u8(other + k):
                k += 1
            if k == size:
                return True
    return False


@inner_kernel
def _put(source: int, size: int, place: int, used: int, ends: int, data: int) -> int:
    """Appends a text at `place`, after `used` bytes, if there are outputs; returns the bytes then
    used."""
    if ends != 0:
        copy_bytes(data + used, source, size)
        store_i32(ends + 4 * place + 4, used + size)
    return used + size


@inner_kernel
def _put_keys(start: int, end: int, t: PropertyTargets, state: int) -> None:
    """Appends the keys of a KEYS value, split at spaces, without empty ones."""
    count, used = load_i64(state + 8 * KEYS), load_i64(state + 8 * KEY_BYTES)
    key = start
    for at in range(start, end + 1):
        if at == end or load_u8(at) == 32:
            if at > key:
                used = _put(key, at - key, count, used, t.key_ends, t.key_data)
                count += 1
            key = at + 1
    store_i64(state + 8 * KEYS, count)
    store_i64(state + 8 * KEY_BYTES, used)


@inner_kernel
def _put_optional(row: int, pair: int, counter: int, ends: int, valid: int, data: int, state: int) -> None:
    """Appends the value of the pair at address `pair` (0: null) as row `row`, and counts it in
    `state`."""
    used = load_i64(state + 8 * counter + 8)
    source, size = np.int64(0), np.int64(0)
    if pair != 0:
        source = load_i64(pair + 8) + 1
        size = load_i64(pair + 16) - source
        store_i64(state + 8 * counter, load_i64(state + 8 * counter) + 1)
    store_i64(state + 8 * counter + 8, _put(source, size, row, used, ends, data))
    if valid != 0:
        store_u8(valid + row, np.int64(pair != 0))


@inner_kernel
def _put_message(row: int, pairs: int, count: int, t: PropertyTargets, state: int) -> None:
    """Appends or counts the pairs of message `row`."""
    before = load_i64(state + 8 * PAIRS)
    names, values = load_i64(state + 8 * NAME_BYTES), load_i64(state + 8 * VALUE_BYTES)
    keys, tags, unique_key = np.int64(0), np.int64(0), np.int64(0)
    for k in range(count):
        pair = pairs + _PAIR_SIZE * k
        name, separator, end = load_i64(pair), load_i64(pair + 8), load_i64(pair + 16)
        names = _put(name, separator - name, before + k, names, t.name_ends, t.name_data)
        values = _put(separator + 1, end - separator - 1, before + k, values, t.value_ends, t.value_data)
        word = load_le64(name)
        if separator - name == 4 and word & _FOUR == NAME_KEYS:
            keys = pair
        elif separator - name == 4 and word & _FOUR == NAME_TAGS:
            tags = pair
        elif separator - name == 8 and word == NAME_UNIQ_KEY:
            unique_key = pair
    store_i64(state + 8 * PAIRS, before + count)
    store_i64(state + 8 * NAME_BYTES, names)
    store_i64(state + 8 * VALUE_BYTES, values)
    if keys != 0:
        _put_keys(load_i64(keys + 8) + 1, load_i64(keys + 16), t, state)
    _put_optional(row, tags, TAGS, t.tags_ends, t.tags_valid, t.tags_data, state)
    _put_optional(row, unique_key, UNIQUE_KEYS, t.unique_key_ends, t.unique_key_valid, t.unique_key_data, state)
    if t.pair_ends != 0:
        store_i32(t.pair_ends + 4 * row + 4, before + count)
        store_i32(t.keys_ends + 4 * row + 4, load_i64(state + 8 * KEYS))


@kernel
def put_properties(
    ats: int, sizes: int, count: int, checked: int, odd: int, pairs: int, t: PropertyTargets, state: int
) -> None:
    """Appends or counts the properties of `count` messages, given by addresses and sizes (int64s).

    Unless `checked` is 1, an odd message is marked by 1 in the bytes at `odd`, and is neither
    appended nor counted. `pairs` has `SCRATCH_SIZE` int64s, `state` has `STATE_SIZE`, initially
    zero.
    """
    for ends in (t.pair_ends, t.name_ends, t.value_ends, t.keys_ends, t.key_ends, t.tags_ends, t.unique_key_ends):
        if ends != 0:
            store_i32(ends, 0)
    for row in range(count):
        at, size = load_i64(ats + 8 * row), load_i64(sizes + 8 * row)
        found = _find_pairs(at, at + size, pairs)
        if not checked:
            is_odd = found > NAMES_MAX or not _is_utf8(at, at + size) or _has_equal_names(pairs, found)
            store_u8(odd + row, np.int64(is_odd))
            if is_odd:
                continue
        _put_message(row, pairs, found, t, state)
