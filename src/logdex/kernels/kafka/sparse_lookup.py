"""Many look-ups at once in a segment's indexes, over the mapped bytes.

Twins of `OffsetIndex.lookup` and `TimeIndex.lookup` for sorted indexes; a property test compares
them. A single binary search waits for dependent cache misses and mispredicted branches (14 M/s).

- Offsets are nearly evenly spread, so a table of equal ranges of offsets leads to an entry or two:
  90 M/s on any processor.
- Times are not. Sixteen searches over the same length run in lockstep there, which overlaps the
  misses and needs no branch. The compiler must vectorise the lanes for that, and does so or not
  depending on the processor that it compiles for: 11 to 90 M/s. Measure after a change.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from logdex.kernels.common.memory import load_be32, load_be64, load_i64
from logdex.kernels.compiled import kernel
from logdex.kernels.kafka.batch_columns import Int64s
from logdex.layout import kafka as layout

LANES = 16
_OFFSET_SLOT = layout.OFFSET_INDEX_ENTRY.size_bytes
_TIME_SLOT = layout.TIME_INDEX_ENTRY.size_bytes
_ENTRIES_A_QUERY = 16
"""Where there are more entries per query, a search through all of them is quicker than a table."""


@kernel
def _lookup_offsets(
    slots: int,
    count: int,
    base_offset: int,
    wanted: Int64s,
    found: npt.NDArray[np.int64],
    begins: npt.NDArray[np.int32],
    shift: int,
) -> None:
    """Sets `found` to (offset, position) of the last slot at or below each of `wanted`, else (base
    offset, 0). `begins` becomes the first slot of each range of 2**`shift` offsets, and the
    count."""
    ranges = len(begins) - 1
    slot = 0
    for at in range(ranges):
        while slot < count and load_be32(slots + _OFFSET_SLOT * slot) < at << shift:
            slot += 1
        begins[at] = slot
    begins[ranges] = count
    for query in range(len(wanted)):
        relative = wanted[query] - base_offset if wanted[query] >= base_offset else -1
        at = min(max(relative >> shift, 0), ranges - 1)
        low, high = begins[at], begins[at + 1]
        while low < high:
            middle = (low + high) >> 1
            if load_be32(slots + _OFFSET_SLOT * middle) <= relative:
                low = middle + 1
            else:
                high = middle
        hit = np.int64(low > 0)
        place = slots + _OFFSET_SLOT * (low - hit)
        found[query, 0] = base_offset + load_be32(place) * hit
        found[query, 1] = load_be32(place + 4) * hit


@kernel
def _lookup_times(slots: int, count: int, base_offset: int, wanted: Int64s, found: npt.NDArray[np.int64]) -> None:
    """Sets `found` to (timestamp, offset) of the last slot at or below each of `wanted`, else (-1,
    base offset)."""
    place = np.empty(LANES, np.int64)
    for first in range(0, len(wanted), LANES):
        lanes = min(LANES, len(wanted) - first)
        place[:] = 0
        left = count
        while left > 1:
            half = left >> 1
            for lane in range(lanes):
                at = place[lane] + half
                timestamp = load_be64(slots + _TIME_SLOT * at)
                place[lane] = at if timestamp <= wanted[first + lane] else place[lane]
            left -= half
        for lane in range(lanes):
            slot = slots + _TIME_SLOT * place[lane]
            if count > 0 and load_be64(slot) <= wanted[first + lane]:
                found[first + lane, 0] = load_be64(slot)
                found[first + lane, 1] = base_offset + load_be32(slot + 8)
            else:
                found[first + lane, 0] = -1
                found[first + lane, 1] = base_offset


@kernel
def _first_at_least(sorted_values: int, count: int, wanted: Int64s, found: Int64s) -> None:
    """Sets `found` to the index of the first of `count` sorted int64 at or above each of `wanted`,
    else `count`."""
    place = np.empty(LANES, np.int64)
    for first in range(0, len(wanted), LANES):
        lanes = min(LANES, len(wanted) - first)
        place[:] = 0
        left = count
        while left > 1:
            half = left >> 1
            for lane in range(lanes):
                at = place[lane] + half
                value = load_i64(sorted_values + 8 * (at - 1))
                place[lane] = at if value < wanted[first + lane] else place[lane]
            left -= half
        for lane in range(lanes):
            at = place[lane]
            if count > 0 and load_i64(sorted_values + 8 * at) < wanted[first + lane]:
                at += 1
            found[first + lane] = at


@kernel
def first_in_runs(
    timestamps: Int64s, run_start: Int64s, run_end: Int64s, run: Int64s, wanted: Int64s, found: Int64s
) -> None:
    """Sets `found`, per query, to the first row of its run [start, end) with at least the wanted
    timestamp, or -1.

    Queries are ordered by run, and by timestamp within a run. Runs and rows must be valid.
    """
    at = 0
    for query in range(len(wanted)):
        if query == 0 or run[query] != run[query - 1]:
            at = run_start[run[query]]
        end = run_end[run[query]]
        while at < end and timestamps[at] < wanted[query]:
            at += 1
        found[query] = at if at < end else -1


def _queries(wanted: npt.ArrayLike) -> tuple[Int64s, int]:
    """The queries, repeated to fill the lanes, and their original number."""
    queries = np.ascontiguousarray(wanted, np.int64)
    count = len(queries)
    return np.resize(queries, LANES) if 0 < count < LANES else queries, count


def lookup_offsets(slots: npt.NDArray[np.uint8], base_offset: int, offsets: npt.ArrayLike) -> Int64s:
    """(offset, position)[n, 2] for each of `offsets` (int64), from a sorted .index without zeros at
    its end."""
    wanted = np.ascontiguousarray(offsets, np.int64)
    found = np.empty((len(wanted), 2), np.int64)
    count = len(slots) // _OFFSET_SLOT
    if not count:
        found[:] = base_offset, 0
    elif len(wanted):
        last = int.from_bytes(slots[_OFFSET_SLOT * (count - 1) :][:4].tobytes(), "big")
        is_table = _ENTRIES_A_QUERY * len(wanted) >= count
        ranges_max = min(8 * count, 4 * len(wanted)) if is_table else 1
        shift = max(last.bit_length() - ranges_max.bit_length() + 1, 0)
        begins = np.empty((last >> shift) + 2, np.int32)
        _lookup_offsets(slots.ctypes.data, count, base_offset, wanted, found, begins, shift)
    return found


def lookup_times(slots: npt.NDArray[np.uint8], base_offset: int, timestamps_ms: npt.ArrayLike) -> Int64s:
    """(timestamp, offset)[n, 2] for each of `timestamps_ms` (int64), from a sorted .timeindex."""
    wanted, queries = _queries(timestamps_ms)
    found = np.empty((len(wanted), 2), np.int64)
    if len(slots) < _TIME_SLOT:
        found[:] = -1, base_offset
    elif queries:
        _lookup_times(slots.ctypes.data, len(slots) // _TIME_SLOT, base_offset, wanted, found)
    return found[:queries]


def first_at_least(rising: Int64s, wanted: npt.ArrayLike) -> Int64s:
    """As `np.searchsorted(rising, wanted)`, but several times as fast for unsorted queries."""
    sought, queries = _queries(wanted)
    values = np.ascontiguousarray(rising, np.int64)
    found = np.zeros(len(sought), np.int64)
    if queries and len(values):
        _first_at_least(values.ctypes.data, len(values), sought, found)
    return found[:queries]
