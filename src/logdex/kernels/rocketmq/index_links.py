"""The links of an IndexFile as its keys' hashes call for: which entry each must name, and what its slots must hold.

Twin: `index_links_plain`; both repeat what `index_put` writes, without a file to write to: verify compares with it.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit

from logdex.kernels.rocketmq.index_put import slot_of


@njit(cache=True, nogil=True, error_model="numpy")
def index_links(
    key_hash: npt.NDArray[np.int32], first: int, slots: npt.NDArray[np.int32], previous: npt.NDArray[np.int32]
) -> int:
    """Puts entries `first` and on: fills `previous`, moves `slots` on; gives how many slots were empty before."""
    fresh = 0
    slot_num = len(slots)
    for i in range(len(key_hash)):
        slot = slot_of(np.int64(key_hash[i]) & 0x7FFFFFFF, slot_num)
        previous[i] = slots[slot]
        fresh += slots[slot] == 0
        slots[slot] = first + i
    return fresh


def index_links_plain(key_hash: list[int], first: int, slots: list[int]) -> tuple[list[int], int]:
    """The plain twin: the links, and how many slots were empty before; `slots` is moved on."""
    previous, fresh = [], 0
    for i, value in enumerate(key_hash):
        slot = (value & 0x7FFFFFFF) % len(slots)
        previous.append(slots[slot])
        fresh += slots[slot] == 0
        slots[slot] = first + i
    return previous, fresh
