"""Whole numbers and times as text.

Each function may write some bytes behind its text (`vectors.SLACK`). Twin: `str` and `human_time`
of the command line.
"""

from __future__ import annotations

import numpy as np

from logdex.kernels.common.memory import count_trailing_zeros, load_i64, store_i64, store_le32, store_le64, store_u8
from logdex.kernels.compiled import inner_kernel

DIGITS_MAX = 20
TIME_SIZE = 24
NO_DAY = 1 << 62

_E8, _E16 = np.uint64(10**8), np.uint64(10**16)
_ZEROS = np.uint64(0x3030303030303030)
_MS_PER_DAY = 86_400_000
_FIRST_MS, _LAST_MS = -62_135_596_800_000, 253_402_300_799_999
"""The years 1 to 9999, those of Python's calendar."""


@inner_kernel
def _eight_digits(value: int) -> int:
    """The eight digits of a uint64 below 10^8, one per byte, the first one lowest."""
    high = value // np.uint64(10_000)
    halves = high | (value - high * np.uint64(10_000)) << np.uint64(32)
    high = (halves * np.uint64(10_486) >> np.uint64(20)) & np.uint64(0x7F0000007F)  # divided by 100
    quarters = high | (halves - high * np.uint64(100)) << np.uint64(16)
    high = (quarters * np.uint64(103) >> np.uint64(10)) & np.uint64(0x000F000F000F000F)  # divided by 10
    return high | (quarters - high * np.uint64(10)) << np.uint64(8)


@inner_kernel
def _put_eight(at: int, value: int) -> int:
    store_le64(at, _eight_digits(value) | _ZEROS)
    return at + 8


@inner_kernel
def _put_few(at: int, value: int) -> int:
    """Writes a uint64 below 10^8 without zeros before it."""
    digits = _eight_digits(value)
    skipped = min(count_trailing_zeros(digits) >> 3, 7)
    store_le64(at, (digits | _ZEROS) >> np.uint64(8 * skipped))
    return at + 8 - skipped


@inner_kernel
def put_int(at: int, value: int) -> int:
    """Writes a whole number in decimal. Returns the address behind it."""
    left = np.uint64(value)
    if value < 0:
        store_u8(at, 0x2D)
        at += 1
        left = np.uint64(0) - left
    if left < _E8:
        return _put_few(at, left)
    if left < _E16:
        at = _put_few(at, left // _E8)
        return _put_eight(at, left % _E8)
    at = _put_few(at, left // _E16)
    left = left % _E16
    at = _put_eight(at, left // _E8)
    return _put_eight(at, left % _E8)


@inner_kernel
def _pair(value: int) -> int:
    """The two digits of a number below 100, the first one in the lowest byte."""
    tens = value * 103 >> 10
    return tens | (value - 10 * tens) << 8 | 0x3030


@inner_kernel
def _put_date(at: int, days: int) -> None:
    """Writes the date of a day since 1970-01-01, in 10 bytes.

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
    store_le32(at, _pair(year // 100) | _pair(year % 100) << 16)
    store_le32(at + 4, 0x2D | _pair(month) << 8 | 0x2D << 24)
    store_le32(at + 8, _pair(day))


@inner_kernel
def put_time(at: int, time_ms: int, day: int) -> int:
    """Writes milliseconds since the epoch as ISO 8601 in UTC, and the number itself outside the
    calendar. `day` is the address of the number of the last day, `NO_DAY` at first, and of 16 bytes
    for its date."""
    if time_ms < _FIRST_MS or time_ms > _LAST_MS:
        return put_int(at, time_ms)
    days = time_ms // _MS_PER_DAY
    if days != load_i64(day):
        _put_date(day + 8, days)
        store_i64(day, days)
    store_i64(at, load_i64(day + 8))
    store_i64(at + 8, load_i64(day + 16))
    left = time_ms - days * _MS_PER_DAY
    minutes = left // 60_000
    left -= minutes * 60_000
    hours, seconds = minutes // 60, left // 1_000
    left -= seconds * 1_000
    store_le32(at + 10, 0x54 | _pair(hours) << 8 | 0x3A << 24)
    store_le32(at + 14, _pair(minutes - 60 * hours) | 0x3A << 16)
    store_le32(at + 17, _pair(seconds) | 0x2E << 16)
    store_le32(at + 20, 0x30 + left // 100 | _pair(left % 100) << 8 | 0x5A << 24)
    return at + TIME_SIZE
