"""Which bytes are well-formed UTF-8: shortest forms, no surrogates, as Python, Arrow and Java
decide it."""

from __future__ import annotations

import numpy as np

from logdex.kernels.common.memory import load_u8
from logdex.kernels.compiled import inner_kernel

HIGH_BITS = np.uint64(0x8080808080808080)
"""Set in a word of eight bytes where a byte is not ASCII."""


@inner_kernel
def well_formed(address: int, left: int) -> tuple[int, int]:
    """(well-formed bytes, bytes needed) of the UTF-8 sequence at `address`; `left` bytes are
    available.

    If they differ, the first is the length of the maximal ill-formed part. (1, 0): the byte starts
    no sequence.
    """
    first = load_u8(address)
    if first < 0x80:
        return 1, 1
    if first < 0xC2 or first > 0xF4:
        return 1, 0
    need = 2 if first < 0xE0 else (3 if first < 0xF0 else 4)
    low, high = 0x80, 0xBF
    if first == 0xE0:
        low = 0xA0
    elif first == 0xED:
        high = 0x9F
    elif first == 0xF0:
        low = 0x90
    elif first == 0xF4:
        high = 0x8F
    good = 1
    while good < need and good < left:
        value = load_u8(address + good)
        if value < low or value > high:
            break
        low, high = 0x80, 0xBF
        good += 1
    return good, need
