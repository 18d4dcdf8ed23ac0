"""Loads and stores at raw addresses, and prefetch.

All take addresses as int64. **Nothing here checks bounds**: a kernel compares every length with the
end of its buffer before use, and has a plain-Python twin with a property test.

Why addresses: an unaligned big-endian load by an intrinsic takes 0.2 ns, one that is assembled from
bytes of an array 1 to 3 ns; and an array argument is seven machine words, which cost time in every
inner call.

Two pitfalls in every kernel module:

- In Numba, int64 combined with uint64 is a float64. Keep words in uint64 and wrap all constants in
  `np.uint64`, or use int64 throughout. The return types here are stated for that.
- `cache=True` checks only the kernel's own file, not this module or `layout`. So the package names
  the directory of compiled code by a digest of all of them (`logdex.kernels.compiled`).
"""

from __future__ import annotations

import sys
from typing import Any

from logdex.kernels.compiled import cgutils, intrinsic, ir, types

HOST_IS_LITTLE = sys.byteorder == "little"


def _pointer(builder: Any, address: Any, bits: int) -> Any:
    return builder.inttoptr(address, ir.IntType(bits).as_pointer())


def _loads(bits: int, *, little: bool, result: Any = None) -> Any:
    """The signature and code of an intrinsic that loads `bits` bits, unaligned, in a byte order.

    The value is widened to 64 bits: a byte is unsigned, all others are signed.
    """

    def codegen(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        value = builder.load(_pointer(builder, args[0], bits), align=1)
        if bits > 8 and little != HOST_IS_LITTLE:
            value = builder.bswap(value)
        if bits == 64:
            return value
        widened = builder.zext if bits == 8 else builder.sext
        return widened(value, ir.IntType(64))

    return (result or types.int64)(types.int64), codegen


def _stores(bits: int, *, little: bool, value: Any = None) -> Any:
    """The signature and code of an intrinsic that stores the low `bits` bits of an int64, or of a
    `value` of another type, unaligned."""

    def codegen(context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        value = builder.trunc(args[1], ir.IntType(bits)) if bits < 64 else args[1]
        if bits > 8 and little != HOST_IS_LITTLE:
            value = builder.bswap(value)
        builder.store(value, _pointer(builder, args[0], bits), align=1)
        return context.get_dummy_value()

    return types.void(types.int64, value or types.int64), codegen


@intrinsic
def load_u8(_typing: Any, address: Any) -> Any:
    """The byte at `address`, as int64."""
    return _loads(8, little=True)


@intrinsic
def load_be16(_typing: Any, address: Any) -> Any:
    """The signed big-endian 16-bit number at `address`, as int64."""
    return _loads(16, little=False)


@intrinsic
def load_be32(_typing: Any, address: Any) -> Any:
    """The signed big-endian 32-bit number at `address`, as int64."""
    return _loads(32, little=False)


@intrinsic
def load_be64(_typing: Any, address: Any) -> Any:
    """The signed big-endian 64-bit number at `address`, as int64."""
    return _loads(64, little=False)


@intrinsic
def load_le32(_typing: Any, address: Any) -> Any:
    """The signed little-endian 32-bit number at `address`, as int64."""
    return _loads(32, little=True)


@intrinsic
def load_le64(_typing: Any, address: Any) -> Any:
    """The eight bytes at `address` as a uint64, the first byte lowest."""
    return _loads(64, little=True, result=types.uint64)


@intrinsic
def load_i32(_typing: Any, address: Any) -> Any:
    """The int32 of a NumPy array at `address`, as int64."""
    return _loads(32, little=HOST_IS_LITTLE)


@intrinsic
def load_i64(_typing: Any, address: Any) -> Any:
    """The int64 of a NumPy array at `address`."""
    return _loads(64, little=HOST_IS_LITTLE)


@intrinsic
def store_u8(_typing: Any, address: Any, value: Any) -> Any:
    """Stores the low 8 bits of int64 `value` at `address`."""
    return _stores(8, little=True)


@intrinsic
def store_be16(_typing: Any, address: Any, value: Any) -> Any:
    """Stores the low 16 bits of int64 `value` big-endian at `address`."""
    return _stores(16, little=False)


@intrinsic
def store_be32(_typing: Any, address: Any, value: Any) -> Any:
    """Stores the low 32 bits of int64 `value` big-endian at `address`."""
    return _stores(32, little=False)


@intrinsic
def store_be64(_typing: Any, address: Any, value: Any) -> Any:
    """Stores int64 `value` big-endian at `address`."""
    return _stores(64, little=False)


@intrinsic
def store_le32(_typing: Any, address: Any, value: Any) -> Any:
    """Stores the low 32 bits of int64 `value` little-endian at `address`."""
    return _stores(32, little=True)


@intrinsic
def store_le64(_typing: Any, address: Any, value: Any) -> Any:
    """Stores uint64 `value` at `address`, its lowest byte first."""
    return _stores(64, little=True, value=types.uint64)


@intrinsic
def store_i32(_typing: Any, address: Any, value: Any) -> Any:
    """Stores the low 32 bits of int64 `value` into a NumPy array at `address`."""
    return _stores(32, little=HOST_IS_LITTLE)


@intrinsic
def store_i64(_typing: Any, address: Any, value: Any) -> Any:
    """Stores int64 `value` into a NumPy array at `address`."""
    return _stores(64, little=HOST_IS_LITTLE)


@intrinsic
def copy_bytes(_typing: Any, target: Any, source: Any, size: Any) -> Any:
    """Copies `size` bytes between addresses. The two ranges must not overlap."""

    def codegen(context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        cgutils.raw_memcpy(builder, _pointer(builder, args[0], 8), _pointer(builder, args[1], 8), args[2], 1)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), codegen


@intrinsic
def count_leading_zeros(_typing: Any, word: Any) -> Any:
    """The number of zero bits above the highest set bit of uint64 `word`, as int64; 64 for 0."""

    def codegen(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        return builder.ctlz(args[0], ir.Constant(ir.IntType(1), 0))

    return types.int64(types.uint64), codegen


@intrinsic
def count_trailing_zeros(_typing: Any, word: Any) -> Any:
    """The number of zero bits below the lowest set bit of uint64 `word`, as int64; 64 for 0."""

    def codegen(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        return builder.cttz(args[0], ir.Constant(ir.IntType(1), 0))

    return types.int64(types.uint64), codegen


@intrinsic
def prefetch(_typing: Any, address: Any) -> Any:
    """Asks the processor to fetch the cache line of `address`.

    Any address is safe. Does nothing where it is not supported.
    """

    def codegen(context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        i32 = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [ir.IntType(8).as_pointer(), i32, i32, i32])
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0i8")
        read, keep, data = ir.Constant(i32, 0), ir.Constant(i32, 3), ir.Constant(i32, 1)
        builder.call(function, [_pointer(builder, args[0], 8), read, keep, data])
        return context.get_dummy_value()

    return types.void(types.int64), codegen


@intrinsic
def finish_stores(_typing: Any) -> Any:
    """Lets other threads and processes see the stores before it no later than those after it."""

    def codegen(context: Any, builder: Any, _signature: Any, _args: Any) -> Any:
        builder.fence("release")
        return context.get_dummy_value()

    return types.void(), codegen
