"""Arrow's binary arrays in kernels, by their addresses."""

from __future__ import annotations

from typing import NamedTuple

from logdex.kernels.common.memory import load_i32, load_u8
from logdex.kernels.compiled import inner_kernel


class Spans(NamedTuple):
    """An Arrow binary array: the addresses of its first offset (int32), bytes and validity (0: all
    valid)."""

    offsets: int
    data: int
    validity: int
    first_bit: int


@inner_kernel
def is_null(spans: Spans, i: int) -> bool:
    """Whether value i is null."""
    if spans.validity == 0:
        return False
    bit = spans.first_bit + i
    return (load_u8(spans.validity + (bit >> 3)) >> (bit & 7)) & 1 == 0


@inner_kernel
def binary_at(spans: Spans, i: int) -> tuple[int, int]:
    """(address, size) of value i; size -1 for null."""
    start = load_i32(spans.offsets + 4 * i)
    if is_null(spans, i):
        return 0, -1
    return spans.data + start, load_i32(spans.offsets + 4 * i + 4) - start
