"""Steps over 32 or 64 bytes at once, as vectors of LLVM, of which any processor has some form.

A step over 32 bytes may read bytes behind the end of a text, as long as they lie in the same page
of memory (`can_read_32`), and any step may write more bytes than are counted: the caller leaves
`SLACK` bytes behind its output.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from logdex.kernels.common.memory import HOST_IS_LITTLE, count_trailing_zeros
from logdex.kernels.compiled import inlined_kernel, inner_kernel, intrinsic, ir, types

SLACK = 64
"""The longest step."""
GROUP_BYTES = 24
"""So many bytes `encode_base64_24` makes to 32 letters, on a processor whose lowest byte is
first."""
HAS_GROUPS = HOST_IS_LITTLE

_PAGE = 4_096
_WIDE = np.uint64(1 << 32)


def _vector(size: int) -> Any:
    return ir.VectorType(ir.IntType(8), size)


def _all(kind: Any, value: int) -> Any:
    return ir.Constant(kind, [value] * kind.count)


def _load(builder: Any, address: Any, size: int) -> Any:
    return builder.load(builder.inttoptr(address, _vector(size).as_pointer()), align=1)


def _store(builder: Any, value: Any, address: Any) -> None:
    builder.store(value, builder.inttoptr(address, value.type.as_pointer()), align=1)


def _copies(size: int) -> Any:
    def codegen(context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        _store(builder, _load(builder, args[1], size), args[0])
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), codegen


def _finds(*odd: int) -> Any:
    """The signature and code of an intrinsic that returns a bit for each of 32 bytes: whether it is
    no ASCII, below a space, or one of `odd`."""

    def codegen(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        text = _load(builder, args[0], 32)
        found = builder.icmp_signed("<", text, _all(text.type, 0x20))
        for byte in odd:
            found = builder.or_(found, builder.icmp_unsigned("==", text, _all(text.type, byte)))
        return builder.zext(builder.bitcast(found, ir.IntType(32)), ir.IntType(64))

    return types.uint64(types.int64), codegen


@intrinsic
def copy_64(_typing: Any, target: Any, source: Any) -> Any:
    """Copies 64 bytes."""
    return _copies(64)


@intrinsic
def copy_32(_typing: Any, target: Any, source: Any) -> Any:
    """Copies 32 bytes."""
    return _copies(32)


@intrinsic
def json_escapes_32(_typing: Any, address: Any) -> Any:
    """A bit for each of 32 bytes that JSON escapes, or that is no ASCII; the first byte's is
    lowest."""
    return _finds(0x22, 0x5C)


@intrinsic
def controls_32(_typing: Any, address: Any) -> Any:
    """A bit for each of 32 bytes that is a control character, or no ASCII; the first byte's is
    lowest."""
    return _finds(0x7F)


@intrinsic
def encode_base64_24(_typing: Any, target: Any, source: Any) -> Any:
    """Writes the 32 letters of base64 of 24 bytes. Reads 32 bytes."""

    def codegen(context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        given = _load(builder, args[1], 32)
        places = [place for at in range(0, GROUP_BYTES, 3) for place in (at + 2, at + 1, at, at)]
        spread = builder.shuffle_vector(given, given, ir.Constant(ir.VectorType(ir.IntType(32), 32), places))
        words = builder.bitcast(spread, ir.VectorType(ir.IntType(32), 8))
        # the four numbers of 6 bits of each word, the first one in the lowest byte
        moved = [
            builder.and_(move(words, _all(words.type, count)), _all(words.type, 0x3F << shift))
            for move, count, shift in (
                (builder.lshr, 18, 0),
                (builder.lshr, 4, 8),
                (builder.shl, 10, 16),
                (builder.shl, 24, 24),
            )
        ]
        joined = builder.or_(builder.or_(moved[0], moved[1]), builder.or_(moved[2], moved[3]))
        numbers = builder.bitcast(joined, _vector(32))
        shifts = _all(numbers.type, ord("A"))
        for first, letter in ((26, "a"), (52, "0"), (62, "+"), (63, "/")):
            is_later = builder.icmp_unsigned(">=", numbers, _all(numbers.type, first))
            shifts = builder.select(is_later, _all(numbers.type, ord(letter) - first & 0xFF), shifts)
        _store(builder, builder.add(numbers, shifts), args[0])
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), codegen


@inlined_kernel
def can_read_32(place: int, end: int) -> bool:
    """Whether 32 bytes at `place` can be read, where those before `end` can."""
    return place + 32 <= end or place & (_PAGE - 1) <= _PAGE - 32


@inner_kernel
def run_before(found: int, left: int) -> int:
    """How many of 32 bytes stand before the first one whose bit is set; at most `left`."""
    return min(count_trailing_zeros(found | _WIDE), left)


@inner_kernel
def copy_steps(target: int, source: int, size: int) -> int:
    """Copies `size` bytes, and up to 63 more. Returns the address behind them."""
    done = np.int64(0)
    while done < size:
        copy_64(target + done, source + done)
        done += 64
    return target + size
