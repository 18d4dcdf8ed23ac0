"""Text for a terminal: without control characters, and cut where it is long.

It may write some bytes behind its text (`vectors.SLACK`). Twin: `shown` and `shown_start` of the
command line.
"""

from __future__ import annotations

import numpy as np

from logdex.kernels.common.cells import hex_digit, put_character
from logdex.kernels.common.memory import load_u8, store_le32, store_u8
from logdex.kernels.common.utf8 import well_formed
from logdex.kernels.common.vectors import can_read_32, controls_32, copy_32, run_before
from logdex.kernels.compiled import inner_kernel

SHOWN_MAX = 4
"""How many bytes one byte of text, or one character that is shown, takes at most."""
ELLIPSIS_SIZE = 3


@inner_kernel
def _control_code(place: int, size: int) -> int:
    """The code of a well-formed character of several bytes that would control a terminal; 0 for any
    other."""
    first, second = load_u8(place), load_u8(place + 1)
    if size == 2:
        return second if first == 0xC2 and second < 0xA0 else np.int64(0)
    if size == 3 and first == 0xE2:
        third = load_u8(place + 2)
        if (second == 0x80 and 0xA8 <= third <= 0xAE) or (second == 0x81 and 0xA6 <= third <= 0xA9):
            return 0x2000 | (second & 0x3F) << 6 | (third & 0x3F)
    return np.int64(0)


@inner_kernel
def _put_hex(at: int, code: int) -> int:
    """Writes a backslash, an x and the code in hexadecimal. Returns the address behind it."""
    store_le32(at, 0x785C | hex_digit(code >> 4 & 15) << 16 | hex_digit(code & 15) << 24)
    if code <= 0xFF:
        return at + 4
    store_le32(at + 2, hex_digit(code >> 12) | hex_digit(code >> 8 & 15) << 8)
    store_le32(at + 4, hex_digit(code >> 4 & 15) | hex_digit(code & 15) << 8)
    return at + 6


@inner_kernel
def _put_odd(at: int, place: int, end: int) -> tuple[int, int, int]:
    """Writes the character at `place`. Returns the places behind both, and how many characters were
    written."""
    byte = load_u8(place)
    if byte < 0x80:
        if byte >= 0x20 and byte != 0x7F:
            store_u8(at, byte)
            return at + 1, place + 1, np.int64(1)
        return _put_hex(at, byte), place + 1, np.int64(4)
    size, need = well_formed(place, end - place)
    if size == need:
        code = _control_code(place, size)
        if code == 0:
            return put_character(at, place, size), place + size, np.int64(1)
        behind = _put_hex(at, code)
        return behind, place + size, behind - at
    begin = at
    for k in range(size):
        at = _put_hex(at, load_u8(place + k))
    return at, place + size, at - begin


@inner_kernel
def put_shown(at: int, place: int, end: int, chars_max: int) -> int:
    """Writes text, at most `chars_max` characters, of which the last one is ``…`` if there are
    more. Returns the address behind it."""
    chars, last, cut = 0, chars_max - 1, at
    while place < end:
        if chars < last and can_read_32(place, end):
            left = end - place
            run = run_before(controls_32(place), left)
            if run < left or chars + run > chars_max:
                run = min(run, last - 1 - chars)
            copy_32(at, place)
            at += run
            place += run
            chars += run
            if run == 32 or place == end:
                continue
        begin = at
        at, place, count = _put_odd(at, place, end)
        if chars < last <= chars + count:
            cut = at if count == 1 else begin + (last - chars)
        chars += count
        if chars > chars_max:
            store_u8(cut, 0xE2)
            store_u8(cut + 1, 0x80)
            store_u8(cut + 2, 0xA6)
            return cut + 3
    return at
