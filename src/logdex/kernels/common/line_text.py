"""Text for a terminal: without control characters, and cut where it is long.

It may write some bytes behind its text (`vectors.SLACK`). Twin: `shown` and `shown_start` of the
command line.
"""

from __future__ import annotations

from logdex.kernels.common.cells import hex_digit, put_character
from logdex.kernels.common.memory import load_u8, store_u8
from logdex.kernels.common.utf8 import well_formed
from logdex.kernels.common.vectors import can_read_32, controls_32, copy_32, run_before
from logdex.kernels.compiled import kernel

SHOWN_MAX = 4
"""How many bytes one byte of text, or one character that is shown, takes at most."""
ELLIPSIS_SIZE = 3


@kernel
def _control_code(place: int, size: int) -> int:
    """The code of a well-formed character that would control a terminal; 0 for any other, and -1
    for NUL."""
    first = load_u8(place)
    if size == 1:
        if first == 0:
            return -1
        return first if first < 0x20 or first == 0x7F else 0
    second = load_u8(place + 1)
    if size == 2:
        return second if first == 0xC2 and second < 0xA0 else 0
    if size == 3 and first == 0xE2:
        third = load_u8(place + 2)
        if (second == 0x80 and 0xA8 <= third <= 0xAE) or (second == 0x81 and 0xA6 <= third <= 0xA9):
            return 0x2000 | (second & 0x3F) << 6 | (third & 0x3F)
    return 0


@kernel
def _put_hex(at: int, code: int) -> int:
    """Writes a backslash, an x and the code in hexadecimal. Returns the address behind it."""
    store_u8(at, 0x5C)
    store_u8(at + 1, 0x78)
    at += 2
    if code > 0xFF:
        store_u8(at, hex_digit(code >> 12))
        store_u8(at + 1, hex_digit(code >> 8 & 15))
        at += 2
    store_u8(at, hex_digit(code >> 4 & 15))
    store_u8(at + 1, hex_digit(code & 15))
    return at + 2


@kernel
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
        size, need = well_formed(place, end - place)
        code = _control_code(place, size) if size == need else 0
        if size != need:
            for k in range(size):
                at = _put_hex(at, load_u8(place + k))
        elif code != 0:
            at = _put_hex(at, max(code, 0))
        else:
            at = put_character(at, place, size)
        count = at - begin if size != need or code != 0 else 1
        if chars < last <= chars + count:
            cut = at if count == 1 else begin + (last - chars)
        chars += count
        place += size
        if chars > chars_max:
            store_u8(cut, 0xE2)
            store_u8(cut + 1, 0x80)
            store_u8(cut + 2, 0xA6)
            return cut + 3
    return at
