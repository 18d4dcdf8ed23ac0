"""Kafka's varints in kernels: zigzag, seven bits per byte, lowest first.

Source: Kafka's ByteUtils.readVarint and readVarlong. Both functions compare each byte's address
with the end. A number that extends beyond it, or beyond ten bytes, is invalid.
"""

from __future__ import annotations

import numpy as np

from logdex.kernels.common.memory import load_u8
from logdex.kernels.compiled import inner_kernel

VARINT_BAD = 1 << 40
"""The size of an invalid number: added to an address, it exceeds every end."""
_BYTES_MAX = 10


@inner_kernel
def varint_size(at: int, end: int) -> int:
    """The size of the number at address `at`; `VARINT_BAD` if it does not end before `end`."""
    size = np.int64(1)
    while size <= _BYTES_MAX:
        if at + size > end:
            return VARINT_BAD
        if load_u8(at + size - 1) < 0x80:
            return size
        size += 1
    return VARINT_BAD


@inner_kernel
def read_varint(at: int, end: int) -> int:
    """The number at address `at`; 0 if `varint_size` is `VARINT_BAD`."""
    value = np.uint64(0)
    shift = np.uint64(0)
    while shift < np.uint64(70) and at < end:
        byte = np.uint64(load_u8(at))
        value |= (byte & np.uint64(0x7F)) << shift
        if byte < np.uint64(0x80):
            return np.int64(value >> np.uint64(1)) ^ -np.int64(value & np.uint64(1))
        shift += np.uint64(7)
        at += 1
    return 0
