"""Looks up many keys in one IndexFile: follows many chains at once, so that their cache misses
overlap.

Twin of `logdex.rocketmq.index_file.index_file.IndexFile.select_phy_offset`; a property test
compares the two. A single chain waits for three dependent misses (3.2 M/s). With 64 chains, each
prefetching its next entry, the speed is 13 M/s and more.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from logdex.kernels.common.memory import load_be32, load_be64, prefetch
from logdex.kernels.compiled import inner_kernel, kernel
from logdex.kernels.rocketmq.index_put import (
    AT_HASH,
    AT_PHY_OFFSET,
    AT_PREVIOUS,
    AT_TIME_DIFF,
    ENTRY_SIZE,
    HEADER_SIZE,
    SLOT_SIZE,
    slot_of,
)

WALKS = 64
"""The number of chains followed at once; more gain little."""

_LAST_BYTE = ENTRY_SIZE - 1
"""One entry in four spans two cache lines; prefetching both makes look-ups 50 % faster."""


@inner_kernel
def _heads(
    slots: int,
    slot_num: int,
    last: int,
    key_hash: npt.NDArray[np.int32],
    room: npt.NDArray[np.int64],
    row: npt.NDArray[np.int64],
    index: npt.NDArray[np.int64],
) -> int:
    """Fills `row` and `index` with the first entry of each row's chain; returns how many rows have
    one."""
    entries = slots + SLOT_SIZE * slot_num
    for k in range(len(key_hash)):
        prefetch(slots + SLOT_SIZE * slot_of(key_hash[k], slot_num))
    live = 0
    for k in range(len(key_hash)):
        at = load_be32(slots + SLOT_SIZE * slot_of(key_hash[k], slot_num))
        if 0 < at <= last and room[k] > 0:
            prefetch(entries + ENTRY_SIZE * at)
            prefetch(entries + ENTRY_SIZE * at + _LAST_BYTE)
            row[live] = k
            index[live] = at
            live += 1
    return live


@inner_kernel
def _walk(
    entries: int,
    last: int,
    file_begin_ms: int,
    begin_ms: int,
    end_ms: int,
    key_hash: npt.NDArray[np.int32],
    room: npt.NDArray[np.int64],
    live: int,
    row: npt.NDArray[np.int64],
    index: npt.NDArray[np.int64],
    taken: npt.NDArray[np.int64],
    found_row: npt.NDArray[np.int64],
    found_offset: npt.NDArray[np.int64],
    wild: npt.NDArray[np.bool_],
) -> int:
    """Follows all `live` chains to their ends, one entry of each in turn.

    Returns the number of offsets found, or -1 if there are too many.
    """
    found = 0
    while live > 0:
        if found + live > len(found_row):
            return -1
        kept = 0
        for k in range(live):
            at = index[k]
            entry = entries + ENTRY_SIZE * at
            diff = load_be32(entry + AT_TIME_DIFF)
            if diff < 0:
                continue
            this = row[k]
            read_ms = file_begin_ms + diff * 1000
            if load_be32(entry + AT_HASH) == key_hash[this] and begin_ms <= read_ms <= end_ms:
                found_row[found] = this
                found_offset[found] = load_be64(entry + AT_PHY_OFFSET)
                found += 1
                taken[this] += 1
            previous = load_be32(entry + AT_PREVIOUS)
            if not 0 < previous <= last or previous == at or read_ms < begin_ms or taken[this] >= room[this]:
                continue
            if previous > at:
                wild[this] = True
                continue
            prefetch(entries + ENTRY_SIZE * previous)
            prefetch(entries + ENTRY_SIZE * previous + _LAST_BYTE)
            row[kept] = this
            index[kept] = previous
            kept += 1
        live = kept
    return found


@kernel
def index_select(
    address: int,
    slot_num: int,
    index_num: int,
    index_count: int,
    file_begin_ms: int,
    begin_ms: int,
    end_ms: int,
    key_hash: npt.NDArray[np.int32],
    room: npt.NDArray[np.int64],
    first: int,
    filled: int,
    found_row: npt.NDArray[np.int64],
    found_offset: npt.NDArray[np.int64],
    out: npt.NDArray[np.int64],
    row_end: npt.NDArray[np.int64],
    wild: npt.NDArray[np.bool_],
) -> tuple[int, int]:
    """Answers rows from `first` on; returns (next row, elements of `out` that are filled).

    Stops before a group of `WALKS` rows whose results do not fit into `found_*` or `out`: enlarge
    them and continue. Row i gets at most `room[i]` offsets, newest entry first, in `out[row_end[i -
    1]:row_end[i]]`. `wild[i]` is set if a link leads forward, which no engine writes: the caller
    then follows that chain again and watches for cycles. The mapped file has `index_num` entries,
    and no others are read, whatever the links are.
    """
    slots = address + HEADER_SIZE
    entries = slots + SLOT_SIZE * slot_num
    row, index, taken = np.empty(WALKS, np.int64), np.empty(WALKS, np.int64), np.empty(WALKS, np.int64)
    last = min(index_count, index_num - 1) if index_count > 1 else 0
    while first < len(key_hash):
        end = min(first + WALKS, len(key_hash))
        hashes, rooms, wilds = key_hash[first:end], room[first:end], wild[first:end]
        taken[:] = 0
        wilds[:] = False
        live = _heads(slots, slot_num, last, hashes, rooms, row, index)
        found = _walk(
            entries,
            last,
            file_begin_ms,
            begin_ms,
            end_ms,
            hashes,
            rooms,
            live,
            row,
            index,
            taken,
            found_row,
            found_offset,
            wilds,
        )
        if found < 0 or filled + found > len(out):
            return first, filled
        for k in range(end - first):
            count = taken[k]
            taken[k] = filled
            filled += count
            row_end[first + k] = filled
        for k in range(found):
            this = found_row[k]
            out[taken[this]] = found_offset[k]
            taken[this] += 1
        first = end
    return first, filled
