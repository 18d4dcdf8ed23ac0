"""CRC-32C (Castagnoli) in kernels: isal's `crc32_iscsi`, called by its address, else slicing-by-8.

See `logdex.kernels.common.crc` for the reasons.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from logdex.kernels.common.crc import crc32_sliced, crc_function_address, crc_table, slicing_table
from logdex.kernels.common.libraries import address_of, call_at
from logdex.kernels.compiled import intrinsic, ir, kernel, types
from logdex.primitives.crc32c import POLYNOMIAL, isal_crc32c


class CrcSources(NamedTuple):
    """The addresses of the functions (0: none) and tables of both checksums in Kafka's logs."""

    crc32c_function: int
    crc32c_table: int
    crc32_function: int
    crc32_table: int


@cache
def crc32c_function_address() -> int:
    """The address of isal's `uint32 crc32_iscsi(const uint8 *data, int size, uint32 init)`, or
    0."""
    function = isal_crc32c()
    return 0 if function is None else address_of(function)


@cache
def crc32c_table() -> npt.NDArray[np.uint32]:
    """The `slicing_table` of CRC-32C."""
    return slicing_table(np.uint32(POLYNOMIAL))


def crc_sources() -> CrcSources:
    """The addresses that a kernel needs for both checksums."""
    return CrcSources(
        crc32c_function_address(), crc32c_table().ctypes.data, crc_function_address(), crc_table().ctypes.data
    )


@intrinsic
def _call_crc32c(_typing: Any, function: Any, data: Any, size: Any) -> Any:
    """Calls ~uint32 function(data, size, ~0) at an int64 address, with a size below 2^31."""

    def codegen(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        i32 = ir.IntType(32)
        result = call_at(builder, args[0], i32, [args[1], builder.trunc(args[2], i32), ir.Constant(i32, -1)])
        return builder.zext(builder.not_(result), ir.IntType(64))

    return types.int64(types.int64, types.int64, types.int64), codegen


@kernel
def crc32c(function: int, table: int, data: int, size: int) -> int:
    """The CRC-32C of `size` bytes (below 2^31) at address `data`, by `function` or, if 0, by
    table."""
    if function != 0:
        return _call_crc32c(function, data, size)
    return crc32_sliced(data, size, table)
