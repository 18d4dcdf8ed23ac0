"""Reads the last records of a partition, backwards from its end through the offset index."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from logdex.kafka.batch.record import Record
from logdex.kafka.read.read_filter import ReadFilter
from logdex.kafka.read.record_scan import KafkaScan, ScanPartition

Partition = TypeVar("Partition", bound=ScanPartition)

WINDOW_OFFSETS_MAX = 1 << 16
"""The most offsets that are read at once, so that memory is bounded."""


def read_tail(
    partition: Partition,
    log_end_offset: int,
    wanted: ReadFilter,
    count: int,
    passes: Callable[[Record], bool] = lambda _: True,
) -> tuple[list[Record], KafkaScan[Partition]]:
    """Returns the last `count` records that pass a filter and `passes`, in log order, and a scan
    that holds what was found on the way: bad batches and ends.

    Reads windows of offsets, each twice as wide as the one after it, until there are enough
    records.
    """
    told = KafkaScan([partition], wanted)
    first = partition.segments[0].base_offset if partition.segments else 0
    low = max(first, wanted.offset or first)
    if wanted.isolation is not None:
        low = max(low, partition.log_start_offset)
    found: list[Record] = []
    begin, end, step = log_end_offset, wanted.end_offset, max(count, 1)
    while begin > low and len(found) < count:
        begin = max(low, begin - step)
        scan = KafkaScan([partition], replace(wanted, offset=begin, end_offset=end))
        last = deque((record for record in scan if passes(record)), maxlen=count - len(found))
        found = [*last, *found]
        known = {problem.message for problem in told.problems}
        told.problems[:0] = [problem for problem in scan.problems if problem.message not in known]
        told.ends[:0] = scan.ends
        told.deleted += [each for each in scan.deleted if each not in told.deleted]
        told.rows += len(last)
        end, step = begin, min(2 * step, WINDOW_OFFSETS_MAX)
    return found, told
