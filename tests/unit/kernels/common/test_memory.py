"""The intrinsics against `struct`, at every alignment."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pytest

from logdex.kernels.common import memory
from logdex.kernels.compiled import kernel


@kernel
def _loads(address: int) -> Any:
    return (
        memory.load_u8(address),
        memory.load_be32(address),
        memory.load_be64(address),
        memory.load_le32(address),
        memory.load_le64(address),
    )


@kernel
def _store(address: int, small: int, large: int) -> None:
    memory.prefetch(address)
    memory.store_be32(address, small)
    memory.store_be64(address + 4, large)
    memory.store_le32(address + 12, small)


@kernel
def _zeros(word: int) -> Any:
    return memory.count_trailing_zeros(np.uint64(word))


@pytest.mark.parametrize("shift", range(8))
def test_loads_take_any_alignment(shift: int) -> None:
    data = np.frombuffer(bytes(range(120, 136)) + bytes(8), np.uint8)
    raw = data.tobytes()
    expected = (raw[shift], *(struct.unpack_from(code, raw, shift)[0] for code in (">i", ">q", "<i", "<Q")))
    assert _loads(data.ctypes.data + shift) == expected


@pytest.mark.parametrize("shift", range(4))
@pytest.mark.parametrize("value", [0, -1, -(1 << 31), (1 << 31) - 1])
def test_stores_touch_nothing_else(shift: int, value: int) -> None:
    data = np.full(24, 0xAA, np.uint8)
    _store(data.ctypes.data + shift, value, value * 5)
    expected = b"\xaa" * shift + struct.pack(">iq", value, value * 5)
    expected += struct.pack("<i", value) + b"\xaa" * (8 - shift)
    assert data.tobytes() == expected


@pytest.mark.parametrize(("word", "zeros"), [(0, 64), (1, 0), (8, 3), (1 << 63, 63)])
def test_trailing_zeros(word: int, zeros: int) -> None:
    assert _zeros(np.uint64(word)) == zeros
