"""Puts entries into an IndexFile: one sequential pass, with the hash slots of later keys
prefetched.

Twin of `logdex.rocketmq.index_file.derive.index_put_plain`; a property test compares the two. The
pass is sequential because each entry links to the previous one of its slot. Each entry waits for
one cache miss, in the 20 MB of slots. Prefetching ahead raises the speed from 26 to 60 M entries/s;
sorting by slot is much slower.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from logdex.kernels.common.memory import finish_stores, load_be32, prefetch, store_be32, store_be64
from logdex.kernels.compiled import inner_kernel, kernel
from logdex.layout import rocketmq as layout

HEADER_SIZE = layout.INDEX_HEADER.size_bytes
SLOT_SIZE = layout.INDEX_SLOT.size_bytes
ENTRY_SIZE = layout.INDEX_ENTRY.size_bytes
AT_HASH = layout.INDEX_ENTRY.offset_of("key_hash")
AT_PHY_OFFSET = layout.INDEX_ENTRY.offset_of("phy_offset")
AT_TIME_DIFF = layout.INDEX_ENTRY.offset_of("time_diff_s")
AT_PREVIOUS = layout.INDEX_ENTRY.offset_of("previous_index")
_AHEAD = 32
_INT_MAX = 2147483647


@inner_kernel
def slot_of(key_hash: int, slot_num: int) -> int:
    """The slot of a hash, which is not negative. Dividing 32-bit numbers is 15 % faster than 64-bit
    ones."""
    return np.int64(np.uint32(key_hash) % np.uint32(slot_num))


@kernel
def index_put(
    address: int,
    block: int,
    slot_num: int,
    limit: int,
    every_put: bool,
    skip_known: bool,
    physical_offset: npt.NDArray[np.int64],
    store_timestamp_ms: npt.NDArray[np.int64],
    key_end: npt.NDArray[np.int32],
    key_hash: npt.NDArray[np.int32],
    state: npt.NDArray[np.int64],
) -> None:
    """Puts messages' keys into an IndexFile until the window ends or the count reaches `limit`.

    The header and the slots are at `address`. Entries are written at `block`, which needs room from
    the count to `limit`. `state` has begin and end timestamp, begin and end physical offset, hash
    slot count, index count, next message and next key, and all are updated. `every_put`:
    hashSlotCount counts every put. `skip_known`: messages below the end physical offset are
    skipped.
    """
    slots = address + HEADER_SIZE
    begin_ms, end_ms, begin_phy, end_phy = state[0], state[1], state[2], state[3]
    slot_count, count, message, key = state[4], state[5], state[6], state[7]
    entries = block - ENTRY_SIZE * count
    keys = len(key_hash)
    while message < len(physical_offset) and count < limit:
        offset = physical_offset[message]
        last = np.int64(key_end[message])
        if skip_known and offset < end_phy:
            key = last
        stored_ms = store_timestamp_ms[message]
        while key < last and count < limit:
            if key + _AHEAD < keys:
                prefetch(slots + SLOT_SIZE * slot_of(key_hash[key + _AHEAD], slot_num))
            value = np.int64(key_hash[key])
            slot = slots + SLOT_SIZE * slot_of(value, slot_num)
            previous = load_be32(slot)
            if previous <= 0 or previous > count:
                previous = np.int64(0)
            diff = np.int64(0)
            if begin_ms > 0:
                diff = min(max((stored_ms - begin_ms) // 1000, 0), _INT_MAX)
            entry = entries + ENTRY_SIZE * count
            store_be32(entry + AT_HASH, value)
            store_be64(entry + AT_PHY_OFFSET, offset)
            store_be32(entry + AT_TIME_DIFF, diff)
            store_be32(entry + AT_PREVIOUS, previous)
            finish_stores()  # a reader beside finds the entry that the slot leads to
            store_be32(slot, count)
            if count <= 1:
                begin_ms, begin_phy = stored_ms, offset
            slot_count += every_put or previous == 0
            count += 1
            end_ms, end_phy = stored_ms, offset
            key += 1
        if key >= last:
            message += 1
    state[0], state[1], state[2], state[3] = begin_ms, end_ms, begin_phy, end_phy
    state[4], state[5], state[6], state[7] = slot_count, count, message, key
