"""Finds where the first so many bytes of a part of a partition end, by batch headers alone."""

from __future__ import annotations

import numpy as np

from logdex.kafka.read.scan_state import position_of
from logdex.kafka.read.steady import PartitionView
from logdex.kafka.scan.scanner import BatchScanner, EndKind


def end_of_first(view: PartitionView, begin: int, end: int, size_bytes: int) -> int:
    """Returns the offset behind the first batches with offsets in [`begin`, `end`): at most so many
    bytes of them, but at least one batch. Returns `end` if that is nearer.

    What lies behind damage in a segment belongs to the batch before it.
    """
    left, is_first = size_bytes, True
    bases = [*(segment.base_offset for segment in view.segments), end]
    for segment, next_base in zip(view.segments, bases[1:], strict=True):
        if segment.base_offset >= end:
            break
        if next_base <= begin:
            continue
        position = position_of(segment, begin) if begin > segment.base_offset else 0
        scanner = BatchScanner(check_crc=False, env=view.env)
        with segment.log.map() as mapped:
            data = mapped.array[: segment.size_bytes]
            for window in scanner.scan_bytes(data, position, path=segment.log.path):
                columns = window.columns
                ends = columns.position + columns.size - position
                taken = max(int(np.searchsorted(ends, left, side="right")), 1 if is_first else 0)
                is_first = False
                if taken < window.count:
                    before = int(columns.last_offset[taken - 1]) + 1 if taken else int(columns.base_offset[0])
                    return min(max(before, begin + 1), end)
        if scanner.end.kind is EndKind.END:
            left -= segment.size_bytes - position
    return end
