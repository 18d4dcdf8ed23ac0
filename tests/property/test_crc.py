"""Both CRC paths against zlib."""

from __future__ import annotations

import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from logdex.kernels.common.crc import crc32, crc32_sliced, crc_function_address, crc_table


@given(st.binary(max_size=300))
def test_table_path(data: bytes) -> None:
    array = np.frombuffer(data + b"\0", np.uint8)
    assert crc32_sliced(array.ctypes.data, len(data), crc_table().ctypes.data) == zlib.crc32(data)
    assert crc32(0, crc_table().ctypes.data, array.ctypes.data, len(data)) == zlib.crc32(data)


@given(st.binary(max_size=3000))
def test_library_path(data: bytes) -> None:
    function = crc_function_address()
    if not function:
        pytest.skip("isal's symbol is not there")
    array = np.frombuffer(data + b"\0", np.uint8)
    assert crc32(function, crc_table().ctypes.data, array.ctypes.data, len(data)) == zlib.crc32(data)
