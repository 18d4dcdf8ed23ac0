"""Columns as cells of a line for a terminal: text without control characters, cut where it is long,
and times.

Twin: `shown`, `shown_start` and `human_time` of the command line.
"""

from __future__ import annotations

import numpy as np

from logdex.kernels.common.cells import Flags, Int64s, hex_digit, put_int
from logdex.kernels.common.memory import copy_bytes, load_le64, load_u8, store_u8
from logdex.kernels.common.utf8 import HIGH_BITS, well_formed
from logdex.kernels.compiled import kernel

SHOWN_MAX = 4
"""How many bytes one byte of text, or one character that is shown, takes at most."""
ELLIPSIS_SIZE = 3
TIME_SIZE = 24

_LOW = np.uint64(0x0101010101010101)
_SPACES = np.uint64(0x2020202020202020)
_DELETES = np.uint64(0x7F7F7F7F7F7F7F7F)
_MS_PER_DAY = 86_400_000
_FIRST_MS, _LAST_MS = -62_135_596_800_000, 253_402_300_799_999
"""The years 1 to 9999, those of Python's calendar."""


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
def _put_shown(at: int, place: int, end: int, chars_max: int) -> int:
    """Writes text, at most `chars_max` characters, of which the last one is ``…`` if there are
    more. Returns the address behind it."""
    chars, last, cut = 0, chars_max - 1, at
    while place < end:
        if place + 8 <= end and chars + 8 < last:
            word = load_le64(place)
            deletes = word ^ _DELETES
            odd = ((word - _SPACES) & ~word) | ((deletes - _LOW) & ~deletes)
            if (odd | word) & HIGH_BITS == np.uint64(0):
                copy_bytes(at, place, 8)
                at += 8
                place += 8
                chars += 8
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
            copy_bytes(at, place, size)
            at += size
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


@kernel
def shown_cells(
    data: int,
    offsets: Int64s,
    valid: Flags,
    chars_max: int,
    prefix: int,
    prefix_size: int,
    null: int,
    null_size: int,
    out: int,
    ends: Int64s,
) -> None:
    """Writes text for display behind a prefix, and `null` alone where there is none. `valid` is
    empty if no cell is null."""
    at = out
    for i in range(len(ends)):
        if len(valid) and not valid[i]:
            copy_bytes(at, null, null_size)
            at += null_size
        else:
            copy_bytes(at, prefix, prefix_size)
            at = _put_shown(at + prefix_size, data + offsets[i], data + offsets[i + 1], chars_max)
        ends[i] = at - out


@kernel
def _put_digits(at: int, value: int, count: int) -> int:
    """Writes the last digits of a number, with zeros before it. Returns the address behind them."""
    for place in range(count - 1, -1, -1):
        store_u8(at + place, value % 10 + 0x30)
        value //= 10
    return at + count


@kernel
def _put_date(at: int, days: int) -> int:
    """Writes the date of a day since 1970-01-01. Returns the address behind it.

    Source: H. Hinnant, "chrono-Compatible Low-Level Date Algorithms", civil_from_days.
    """
    shifted = days + 719_468
    era = shifted // 146_097
    day_of_era = shifted - era * 146_097
    year_of_era = (day_of_era - day_of_era // 1_460 + day_of_era // 36_524 - day_of_era // 146_096) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    month_from_march = (5 * day_of_year + 2) // 153
    day = day_of_year - (153 * month_from_march + 2) // 5 + 1
    month = month_from_march + 3 if month_from_march < 10 else month_from_march - 9
    year = year_of_era + era * 400 + (1 if month <= 2 else 0)
    at = _put_digits(at, year, 4)
    store_u8(at, 0x2D)
    at = _put_digits(at + 1, month, 2)
    store_u8(at, 0x2D)
    return _put_digits(at + 1, day, 2)


@kernel
def time_cells(times_ms: Int64s, negative_is_none: int, out: int, ends: Int64s) -> None:
    """Writes milliseconds since the epoch as ISO 8601 in UTC; ``-`` for none, and the number itself
    outside the calendar."""
    at = out
    for i in range(len(times_ms)):
        time_ms = times_ms[i]
        if negative_is_none and time_ms < 0:
            store_u8(at, 0x2D)
            at += 1
        elif time_ms < _FIRST_MS or time_ms > _LAST_MS:
            at = put_int(at, time_ms)
        else:
            days = time_ms // _MS_PER_DAY
            left = time_ms - days * _MS_PER_DAY
            at = _put_date(at, days)
            store_u8(at, 0x54)
            at = _put_digits(at + 1, left // 3_600_000, 2)
            store_u8(at, 0x3A)
            at = _put_digits(at + 1, left // 60_000 % 60, 2)
            store_u8(at, 0x3A)
            at = _put_digits(at + 1, left // 1_000 % 60, 2)
            store_u8(at, 0x2E)
            at = _put_digits(at + 1, left % 1_000, 3)
            store_u8(at, 0x5A)
            at += 1
        ends[i] = at - out
