"""CRC-32C (Castagnoli) inside kernels: isal's `crc32_iscsi` called by its address, slicing-by-8 in Numba without it.

The way of `logdex.kernels.crc`, which says why. Here the function is also tried on the check value of the published
CRC catalogues before it is used: an export of a wheel is an accident of its build.
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

from logdex.kernels.crc import crc32_sliced, crc_function_address, crc_table, slicing_table

_POLYNOMIAL = np.uint32(0x82F63B78)
_CHECK_TEXT, _CHECK_VALUE = b"123456789", 0xE3069283


class CrcSources(NamedTuple):
    """Addresses of the functions (0: none) and the tables of both checksums that Kafka's logs have."""

    crc32c_function: int
    crc32c_table: int
    crc32_function: int
    crc32_table: int


@cache
def crc32c_function_address() -> int:
    """Address of isal's `uint32 crc32_iscsi(const uint8 *data, int size, uint32 init)`; 0 without it."""
    try:
        from isal import isal_zlib

        function = ctypes.CDLL(isal_zlib.__file__).crc32_iscsi
        function.argtypes = (ctypes.c_char_p, ctypes.c_int, ctypes.c_uint32)
        function.restype = ctypes.c_uint32
        if function(_CHECK_TEXT, len(_CHECK_TEXT), 0xFFFFFFFF) ^ 0xFFFFFFFF != _CHECK_VALUE:
            return 0
        return int(ctypes.cast(function, ctypes.c_void_p).value or 0)
    except (ImportError, OSError, AttributeError, TypeError):
        return 0


@cache
def crc32c_table() -> npt.NDArray[np.uint32]:
    """The `slicing_table` of CRC-32C."""
    return slicing_table(_POLYNOMIAL)


def crc_sources() -> CrcSources:
    """What a kernel needs for either checksum."""
    return CrcSources(
        crc32c_function_address(), crc32c_table().ctypes.data, crc_function_address(), crc_table().ctypes.data
    )


@intrinsic
def _call_crc32c(_typing: Any, function: Any, data: Any, size: Any) -> Any:
    """~uint32 function(data, size, ~0) at an int64 address; size below 2^31."""

    def codegen(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        i32, i64 = ir.IntType(32), ir.IntType(64)
        kind = ir.FunctionType(i32, [i64, i32, i32])
        pointer = builder.inttoptr(args[0], kind.as_pointer())
        result = builder.call(pointer, [args[1], builder.trunc(args[2], i32), ir.Constant(i32, -1)])
        return builder.zext(builder.not_(result), i64)

    return types.int64(types.int64, types.int64, types.int64), codegen


@njit(cache=True, nogil=True, error_model="numpy")
def crc32c(function: int, table: int, data: int, size: int) -> int:
    """CRC-32C of `size` bytes (below 2^31) at address `data`, by `function` or, if that is 0, by table."""
    if function != 0:
        return _call_crc32c(function, data, size)
    return crc32_sliced(data, size, table)
