"""CRC-32C (Castagnoli), the checksum of Kafka's record batches and producer snapshots.

Calls isal's function through ctypes where isal is installed; the table is its plain twin.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache

import numpy as np

POLYNOMIAL = 0x82F63B78
"""The reflected polynomial."""
_INVERT = 0xFFFFFFFF
_CHECK_TEXT, _CHECK_VALUE = b"123456789", 0xE3069283


def crc32c(data: bytes | memoryview, value: int = 0) -> int:
    """The CRC-32C of `data` (at most 2 GiB - 1) as an unsigned 32-bit number.

    `value` is the CRC-32C of the bytes before `data`.
    """
    function = isal_crc32c()
    if function is None or not len(data):
        return crc32c_by_table(data, value)
    if type(data) is bytes:  # ctypes passes its address, which is much quicker than to make an array
        return (function(data, len(data), value ^ _INVERT) ^ _INVERT) & _INVERT
    view = np.frombuffer(data, np.uint8)
    return (function(view.ctypes.data, view.size, value ^ _INVERT) ^ _INVERT) & _INVERT


def crc32c_by_table(data: bytes | memoryview, value: int = 0) -> int:
    """The same checksum as `crc32c`, computed byte by byte."""
    table, value = _table(), value ^ _INVERT
    for byte in data:
        value = (value >> 8) ^ table[(value ^ byte) & 0xFF]
    return value ^ _INVERT


@cache
def isal_crc32c() -> Callable[[int | bytes, int, int], int] | None:
    """isal's `uint32 crc32_iscsi(const uint8 *data, int size, uint32 init)`, or None where isal is
    missing.

    The function inverts neither `init` nor the result. It is tested with the check value of the
    published CRC catalogues before use, because no isal release promises to export it.
    """
    try:
        from isal import isal_zlib

        function = ctypes.CDLL(isal_zlib.__file__).crc32_iscsi
    except (ImportError, OSError, AttributeError, TypeError):
        return None
    function.argtypes = (ctypes.c_void_p, ctypes.c_int, ctypes.c_uint32)
    function.restype = ctypes.c_uint32
    return function if function(_CHECK_TEXT, len(_CHECK_TEXT), _INVERT) ^ _INVERT == _CHECK_VALUE else None


@cache
def _table() -> tuple[int, ...]:
    entries = []
    for value in range(256):
        for _ in range(8):
            value = (value >> 1) ^ (POLYNOMIAL if value & 1 else 0)
        entries.append(value)
    return tuple(entries)
