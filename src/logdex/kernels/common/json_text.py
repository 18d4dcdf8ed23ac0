"""Columns as cells of JSON: bytes as base64, and text.

Twin: `json.dumps` of the rows, which the commands use for a few of them.
"""

from __future__ import annotations

import numpy as np

from logdex.kernels.common.cells import Flags, Int64s, hex_digit, put_null
from logdex.kernels.common.memory import copy_bytes, load_le64, load_u8, store_u8
from logdex.kernels.common.utf8 import HIGH_BITS, well_formed
from logdex.kernels.compiled import kernel

INVALID_IS_NULL, INVALID_IS_ESCAPED = 0, 1
"""What text that is no UTF-8 becomes: null, or text with ``\\xNN`` for each byte that is wrong."""
ESCAPED_MAX = 6
"""How many bytes one byte of text takes at most."""

_QUOTE, _BACKSLASH = 0x22, 0x5C
_LOW = np.uint64(0x0101010101010101)
_SPACES = np.uint64(0x2020202020202020)
_QUOTES = np.uint64(0x2222222222222222)
_BACKSLASHES = np.uint64(0x5C5C5C5C5C5C5C5C)


@kernel
def base64_cells(data: int, offsets: Int64s, valid: Flags, alphabet: int, out: int, ends: Int64s) -> None:
    """Writes bytes as strings of base64. `alphabet` is the address of its 64 letters."""
    at = out
    for i in range(len(ends)):
        if len(valid) and not valid[i]:
            at = put_null(at)
        else:
            store_u8(at, _QUOTE)
            at += 1
            place, end = data + offsets[i], data + offsets[i + 1]
            while place + 3 <= end:
                word = load_u8(place) << 16 | load_u8(place + 1) << 8 | load_u8(place + 2)
                store_u8(at, load_u8(alphabet + (word >> 18)))
                store_u8(at + 1, load_u8(alphabet + (word >> 12 & 63)))
                store_u8(at + 2, load_u8(alphabet + (word >> 6 & 63)))
                store_u8(at + 3, load_u8(alphabet + (word & 63)))
                place += 3
                at += 4
            if place < end:
                second = load_u8(place + 1) if place + 1 < end else 0
                word = load_u8(place) << 16 | second << 8
                store_u8(at, load_u8(alphabet + (word >> 18)))
                store_u8(at + 1, load_u8(alphabet + (word >> 12 & 63)))
                store_u8(at + 2, load_u8(alphabet + (word >> 6 & 63)) if place + 1 < end else 0x3D)
                store_u8(at + 3, 0x3D)
                at += 4
            store_u8(at, _QUOTE)
            at += 1
        ends[i] = at - out


@kernel
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


@kernel
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
        copy_bytes(at, place, size)
        return at + size, place + size
    if invalid == INVALID_IS_NULL:
        return at, -1
    store_u8(at, _BACKSLASH)
    store_u8(at + 1, _BACKSLASH)
    store_u8(at + 2, 0x78)
    store_u8(at + 3, hex_digit(byte >> 4))
    store_u8(at + 4, hex_digit(byte & 15))
    return at + 5, place + 1


@kernel
def text_cells(data: int, offsets: Int64s, valid: Flags, invalid: int, out: int, ends: Int64s) -> None:
    """Writes bytes of UTF-8 as strings. `invalid` says what bytes become that are no UTF-8."""
    at = out
    for i in range(len(ends)):
        begin = at
        is_null = len(valid) > 0 and not valid[i]
        if not is_null:
            store_u8(at, _QUOTE)
            at += 1
            place, end = data + offsets[i], data + offsets[i + 1]
            while place < end:
                if place + 8 <= end:
                    word = load_le64(place)
                    quotes, backslashes = word ^ _QUOTES, word ^ _BACKSLASHES
                    odd = (word - _SPACES) & ~word  # below a space
                    odd |= (quotes - _LOW) & ~quotes
                    odd |= (backslashes - _LOW) & ~backslashes
                    if (odd | word) & HIGH_BITS == np.uint64(0):
                        copy_bytes(at, place, 8)
                        at += 8
                        place += 8
                        continue
                at, place = _put_character(at, place, end, invalid)
                if place < 0:
                    is_null = True
                    break
            store_u8(at, _QUOTE)
            at += 1
        if is_null:
            at = put_null(begin)
        ends[i] = at - out
