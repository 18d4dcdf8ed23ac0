"""Decides which batches get entries in a segment's offset index and time index.

Twin: `logdex.kafka.segment.derive_indexes.fold_plain`; a property test compares the two.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from logdex import limits
from logdex.kernels.compiled import kernel
from logdex.kernels.kafka.batch_columns import Int32s, Int64s

BYTES_SINCE_ENTRY, MAX_TIMESTAMP, MAX_OFFSET, LAST_OFFSET, TIME_TIMESTAMP, TIME_OFFSET = range(6)
"""The elements of `state`.

Bytes since the last .index entry; the largest timestamp so far and the last offset of the earliest
batch that has it; the offset of the last .index entry; timestamp and offset of the last .timeindex
entry.
"""

STATE_SIZE = 6
GOOD, OVERFLOW, OFFSET_FALLS, TIME_OFFSET_FALLS = range(4)
"""How a fold ends: at the end, or at a batch whose offset is out of range, whose offset is not
above the last entry's, or whose largest timestamp belongs to an offset below the last time
entry's."""

_RELATIVE_OFFSET_MAX = limits.RELATIVE_OFFSET_MAX


@kernel
def fold(
    position: Int64s,
    last_offset: Int64s,
    max_timestamp_ms: Int64s,
    size: Int32s,
    base_offset: int,
    interval: int,
    state: Int64s,
    offset_entries: npt.NDArray[np.int64],
    time_entries: npt.NDArray[np.int64],
    result: Int64s,
) -> int:
    """Folds all batches into `state`. `result` becomes (offset entries, time entries, batches
    folded).

    `offset_entries` (last offset, position) and `time_entries` (timestamp, offset) have room for
    one row per batch.
    """
    offsets, times = 0, 0
    since = state[BYTES_SINCE_ENTRY]
    end = GOOD
    k = 0
    while k < len(last_offset):
        relative = last_offset[k] - base_offset
        if last_offset[k] < base_offset or relative < 0 or relative > _RELATIVE_OFFSET_MAX:
            end = OVERFLOW
            break
        if max_timestamp_ms[k] > state[MAX_TIMESTAMP]:
            state[MAX_TIMESTAMP] = max_timestamp_ms[k]
            state[MAX_OFFSET] = last_offset[k]
        if since > interval:
            if last_offset[k] <= state[LAST_OFFSET]:
                end = OFFSET_FALLS
                break
            state[LAST_OFFSET] = last_offset[k]
            offset_entries[offsets, 0] = last_offset[k]
            offset_entries[offsets, 1] = position[k]
            offsets += 1
            since = 0
            if state[MAX_OFFSET] < state[TIME_OFFSET]:
                end = TIME_OFFSET_FALLS
                break
            if state[MAX_TIMESTAMP] > state[TIME_TIMESTAMP]:
                state[TIME_TIMESTAMP] = state[MAX_TIMESTAMP]
                state[TIME_OFFSET] = state[MAX_OFFSET]
                time_entries[times, 0] = state[MAX_TIMESTAMP]
                time_entries[times, 1] = state[MAX_OFFSET]
                times += 1
        since += np.int64(size[k])
        k += 1
    state[BYTES_SINCE_ENTRY] = since
    result[0], result[1], result[2] = offsets, times, k
    return end
