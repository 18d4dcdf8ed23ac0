"""CRC-32C (Castagnoli): of Kafka's batches and producer snapshots.

isal's function is called through ctypes where it is there; the table is its plain twin.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache

import numpy as np

_POLYNOMIAL = 0x82F63B78
_INVERT = 0xFFFFFFFF


def crc32c(data: bytes | memoryview) -> int:
    """CRC-32C of `data`, at most 2 GiB - 1; an unsigned 32-bit number."""
    function = _isal_function()
    if function is None or not len(data):
        return crc32c_by_table(data)
    view = np.frombuffer(data, np.uint8)
    return (function(view.ctypes.data, view.size, _INVERT) ^ _INVERT) & _INVERT


def crc32c_by_table(data: bytes | memoryview) -> int:
    """The same, a byte at a time."""
    table, value = _table(), _INVERT
    for byte in data:
        value = (value >> 8) ^ table[(value ^ byte) & 0xFF]
    return value ^ _INVERT


@cache
def _isal_function() -> Callable[[int, int, int], int] | None:
    """`uint32 crc32_iscsi(const uint8 *data, int size, uint32 init)`, which inverts neither init nor result."""
    try:
        from isal import isal_zlib

        function = ctypes.CDLL(isal_zlib.__file__).crc32_iscsi
    except (ImportError, OSError, AttributeError):
        return None
    function.argtypes = (ctypes.c_void_p, ctypes.c_int, ctypes.c_uint32)
    function.restype = ctypes.c_uint32
    return function


@cache
def _table() -> tuple[int, ...]:
    entries = []
    for value in range(256):
        for _ in range(8):
            value = (value >> 1) ^ (_POLYNOMIAL if value & 1 else 0)
        entries.append(value)
    return tuple(entries)
