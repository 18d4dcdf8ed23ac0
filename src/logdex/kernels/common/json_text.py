"""Bytes as strings of JSON: as base64, and as text.

Each function may write some bytes behind its text (`vectors.SLACK`). Twin: `json.dumps` of the
rows, which the commands use for a few of them.
"""

from __future__ import annotations

import numpy as np

from logdex.kernels.common.cells import hex_digit, put_character
from logdex.kernels.common.memory import load_u8, store_u8
from logdex.kernels.common.utf8 import well_formed
from logdex.kernels.common.vectors import (
    GROUP_BYTES,
    HAS_GROUPS,
    can_read_32,
    copy_32,
    encode_base64_24,
    json_escapes_32,
    run_before,
)
from logdex.kernels.compiled import inner_kernel

INVALID_IS_NULL, INVALID_IS_ESCAPED = 0, 1
"""What text that is no UTF-8 becomes: null, or text with ``\\xNN`` for each byte that is wrong."""
ESCAPED_MAX = 6
"""How many bytes one byte of text takes at most."""

_QUOTE, _BACKSLASH = 0x22, 0x5C


@inner_kernel
def _letter(number: int) -> int:
    """The letter of base64 of a number below 64."""
    if number < 52:
        return number + 0x41 if number < 26 else number + 0x47
    if number < 62:
        return number - 4
    return np.int64(0x2B if number == 62 else 0x2F)


@inner_kernel
def put_base64(at: int, place: int, end: int) -> int:
    """Writes bytes as a string of base64. Returns the address behind it."""
    store_u8(at, _QUOTE)
    at += 1
    while HAS_GROUPS and end - place >= 3 and can_read_32(place, end):
        encode_base64_24(at, place)
        groups = min(end - place, GROUP_BYTES) // 3
        at += 4 * groups
        place += 3 * groups
    while place < end:
        second = load_u8(place + 1) if place + 1 < end else np.int64(0)
        third = load_u8(place + 2) if place + 2 < end else np.int64(0)
        word = load_u8(place) << 16 | second << 8 | third
        store_u8(at, _letter(word >> 18))
        store_u8(at + 1, _letter(word >> 12 & 63))
        store_u8(at + 2, _letter(word >> 6 & 63) if place + 1 < end else np.int64(0x3D))
        store_u8(at + 3, _letter(word & 63) if place + 2 < end else np.int64(0x3D))
        place += 3
        at += 4
    store_u8(at, _QUOTE)
    return at + 1


@inner_kernel
def _put_escaped(at: int, byte: int) -> int:
    """Writes a byte of ASCII that JSON escapes."""
    store_u8(at, _BACKSLASH)
    if byte in (_QUOTE, _BACKSLASH):
        store_u8(at + 1, byte)
    elif byte == 0x0A:
        store_u8(at + 1, 0x6E)
    elif byte == 0x0D:
        store_u8(at + 1, 0x72)
    elif byte == 0x09:
        store_u8(at + 1, 0x74)
    elif byte == 0x08:
        store_u8(at + 1, 0x62)
    elif byte == 0x0C:
        store_u8(at + 1, 0x66)
    else:
        store_u8(at + 1, 0x75)
        store_u8(at + 2, 0x30)
        store_u8(at + 3, 0x30)
        store_u8(at + 4, hex_digit(byte >> 4))
        store_u8(at + 5, hex_digit(byte & 15))
        return at + 6
    return at + 2


@inner_kernel
def _put_character(at: int, place: int, end: int, invalid: int) -> tuple[int, int]:
    """Writes the character at `place`. Returns the places behind both, or -1 for the second if it
    is no UTF-8 and that makes the text null."""
    byte = load_u8(place)
    if byte < 0x80:
        if byte < 0x20 or byte in (_QUOTE, _BACKSLASH):
            return _put_escaped(at, byte), place + 1
        store_u8(at, byte)
        return at + 1, place + 1
    size, need = well_formed(place, end - place)
    if size == need:
        return put_character(at, place, size), place + size
    if invalid == INVALID_IS_NULL:
        return at, -1
    store_u8(at, _BACKSLASH)
    store_u8(at + 1, _BACKSLASH)
    store_u8(at + 2, 0x78)
    store_u8(at + 3, hex_digit(byte >> 4))
    store_u8(at + 4, hex_digit(byte & 15))
    return at + 5, place + 1


@inner_kernel
def put_json_text(at: int, place: int, end: int, invalid: int) -> int:
    """Writes UTF-8 as a string. `invalid` says what bytes become that are no UTF-8. Returns the
    address behind it, -1 if that is null."""
    store_u8(at, _QUOTE)
    at += 1
    while place < end:
        if can_read_32(place, end):
            copy_32(at, place)
            run = run_before(json_escapes_32(place), end - place)
            at += run
            place += run
            if run == 32 or place == end:
                continue
        at, place = _put_character(at, place, end, invalid)
        if place < 0:
            return np.int64(-1)
    store_u8(at, _QUOTE)
    return at + 1
