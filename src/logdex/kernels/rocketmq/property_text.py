"""Searches a message's properties, eight bytes at a time.

A few integer operations find the separators in a word of eight bytes (the exact form of the classic
zero-byte test), three times as fast as a loop over bytes. Loads never extend beyond `limit`, the
end of the mapped bytes.
"""

from __future__ import annotations

import numpy as np

from logdex.kernels.common.memory import count_trailing_zeros, load_le64, load_u8, store_i32, store_i64
from logdex.kernels.compiled import inner_kernel
from logdex.kernels.rocketmq.java_hash import index_key_hash

FOUND_SIZE = 12
"""The int64s that `find_properties` fills: value address and length (0: none) of KEYS, UNIQ_KEY,
TAGS, DELAY, INNER_MULTI_DISPATCH, INNER_MULTI_QUEUE_OFFSET."""
KEYS_AT, UNIQ_AT, TAGS_AT, DELAY_AT, DISPATCH_AT, DISPATCH_OFFSETS_AT = 0, 16, 32, 48, 64, 80
"""The byte offsets of the six pairs in `found`."""

_SEVENS = np.uint64(0x7F7F7F7F7F7F7F7F)
_ONES = np.uint64(0x0101010101010101)
_TWOS = np.uint64(0x0202020202020202)
_BLANKS = np.uint64(0x2020202020202020)
_INNER_MU = np.uint64(int.from_bytes(b"INNER_MU", "little"))
_LTI_DISP = np.uint64(int.from_bytes(b"LTI_DISP", "little"))
_DISPATCH = np.uint64(int.from_bytes(b"DISPATCH", "little"))
_LTI_QUEU = np.uint64(int.from_bytes(b"LTI_QUEU", "little"))
_E_OFFSET = np.uint64(int.from_bytes(b"E_OFFSET", "little"))
_NAME_DELAY = np.uint64(int.from_bytes(b"DELAY", "little"))
NAME_KEYS = np.uint64(int.from_bytes(b"KEYS", "little"))
NAME_TAGS = np.uint64(int.from_bytes(b"TAGS", "little"))
NAME_UNIQ_KEY = np.uint64(int.from_bytes(b"UNIQ_KEY", "little"))
"""Names as little-endian words."""


@inner_kernel
def load_up_to(at: int, limit: int) -> int:
    """Eight bytes at `at` as a little-endian word; bytes from `limit` on are zero."""
    if at + 8 <= limit:
        return load_le64(at)
    word = np.uint64(0)
    for k in range(limit - at):
        word |= np.uint64(load_u8(at + k)) << np.uint64(8 * k)
    return word


@inner_kernel
def _zero_bytes(word: int) -> int:
    """0x80 in each byte of `word` that is zero, 0 in the others."""
    return ~(((word & _SEVENS) + _SEVENS) | word | _SEVENS)


@inner_kernel
def separators(word: int) -> int:
    """0x80 in each byte of `word` that ends a name (1) or a pair (2), 0 in the others."""
    return _zero_bytes(word ^ _ONES) | _zero_bytes(word ^ _TWOS)


@inner_kernel
def _note(name: int, separator: int, end: int, limit: int, found: int) -> None:
    """Records the value between `separator` and `end` if the name is one of the six."""
    size = separator - name
    if end - separator <= 1 or size > 24 or size < 4:
        return
    word = load_up_to(name, limit)
    if size > 8:
        place = _place_of_long(name, size) if word == _INNER_MU else -1
    elif size == 4:
        word &= np.uint64(0xFFFFFFFF)
        place = KEYS_AT if word == NAME_KEYS else (TAGS_AT if word == NAME_TAGS else -1)
    elif size == 8:
        place = UNIQ_AT if word == NAME_UNIQ_KEY else -1
    else:
        place = DELAY_AT if size == 5 and word & np.uint64(0xFFFFFFFFFF) == _NAME_DELAY else -1
    if place >= 0:
        store_i64(found + place, separator + 1)
        store_i64(found + place + 8, end - separator - 1)


@inner_kernel
def _place_of_long(name: int, size: int) -> int:
    """The place in `found` of a name that begins with INNER_MU and has `size` bytes, or -1."""
    if size == 20 and load_le64(name + 8) == _LTI_DISP and load_le64(name + 12) == _DISPATCH:
        return DISPATCH_AT
    if size == 24 and load_le64(name + 8) == _LTI_QUEU and load_le64(name + 16) == _E_OFFSET:
        return DISPATCH_OFFSETS_AT
    return -1


@inner_kernel
def find_properties(start: int, end: int, limit: int, found: int) -> None:
    """Searches the properties at addresses [start, end) and fills `found`; the last of equal names
    wins.

    Twin of `logdex.rocketmq.message.properties.parse_properties` for the six names from which the
    engine derives entries.
    """
    store_i64(found + KEYS_AT, 0)
    store_i64(found + UNIQ_AT, 0)
    store_i64(found + TAGS_AT, 0)
    store_i64(found + DELAY_AT, 0)
    store_i64(found + DISPATCH_AT, 0)
    store_i64(found + DISPATCH_OFFSETS_AT, 0)
    name = start
    separator = 0
    at = start
    while at < end:
        word = load_up_to(at, limit)
        hits = separators(word)
        while hits != np.uint64(0):
            shift = count_trailing_zeros(hits)
            place = at + (shift >> 3)
            if place >= end:
                break
            if (word >> np.uint64(shift - 7)) & np.uint64(0xFF) == np.uint64(2):
                if separator > name:
                    _note(name, separator, place, limit, found)
                name = place + 1
                separator = 0
            elif separator == 0:
                separator = place
            hits &= hits - np.uint64(1)
        at += 8
    if separator > name:
        _note(name, separator, end, limit, found)


@inner_kernel
def hash_keys(start: int, size: int, limit: int, seed: int, out: int, count: int) -> int:
    """Stores the index hash of each key of a KEYS value in the int32s at `out`, from element
    `count` on.

    Returns the new count.
    """
    end = start + size
    key = start
    at = start
    while at < end:
        hits = _zero_bytes(load_up_to(at, limit) ^ _BLANKS)
        while hits != np.uint64(0):
            place = at + (count_trailing_zeros(hits) >> 3)
            if place >= end:
                break
            if place > key:
                store_i32(out + 4 * count, index_key_hash(key, place - key, seed))
                count += 1
            key = place + 1
            hits &= hits - np.uint64(1)
        at += 8
    if end > key:
        store_i32(out + 4 * count, index_key_hash(key, end - key, seed))
        count += 1
    return count


@inner_kernel
def parse_int(at: int, size: int) -> int:
    """`Integer.parseInt` of ASCII text; -(1 << 40) where Java would throw."""
    bad = -(1 << 40)
    first = load_u8(at)
    signed = first == 45 or first == 43
    if size - signed < 1:
        return bad
    value = 0
    for k in range(np.int64(signed), size):
        digit = np.int64(load_u8(at + k)) - 48
        if digit < 0 or digit > 9:
            return bad
        value = min(value * 10 + digit, 1 << 40)
    value = -value if first == 45 else value
    return bad if value > 2147483647 or value < -2147483648 else value
