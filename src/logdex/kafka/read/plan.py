"""A read plan: the parts of a partition's segments that a filter needs, found from names, headers
and indexes.

No record is read for a plan. Its splits can be sent to other processes. Their rows, in the order of
the splits, are those of a scan with the same filter.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

from logdex.errors import UnreadableError, UsageError, VanishedError
from logdex.frames.arrow import pa
from logdex.jobs.read_plan import ReadPlanBase
from logdex.kafka.read.committed import NOTHING_ABORTED, AbortedTransactions, find_aborted
from logdex.kafka.read.log_read import READ_COMMITTED
from logdex.kafka.read.prune import ReadPartition, SegmentPart, lost_of, offset_range, prune
from logdex.kafka.read.read_filter import ReadFilter
from logdex.kafka.read.splits.cuts import cut
from logdex.kafka.read.splits.split import ReadSplit, schema_of
from logdex.kafka.read.steady import LookedAtPartition, PartitionView, first_current, steadily


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ReadPlan(ReadPlanBase[ReadSplit]):
    """What to read for `filter`: `splits` by partition, in log order. Files are the .log files with
    any bytes."""

    filter: ReadFilter
    columns: tuple[str, ...] | None

    @property
    def schema(self) -> pa.Schema:
        """Returns the schema of all batches."""
        return schema_of(self.columns)


def plan_read(
    partitions: Iterable[LookedAtPartition],
    wanted: ReadFilter,
    *,
    columns: Iterable[str] | None = None,
    split_bytes: int | None = None,
) -> ReadPlan:
    """Returns the plan for a filter and some columns of `SCAN_COLUMNS` (None: all).

    `split_bytes` cuts larger segments into parts of about that size; None leaves them whole.
    """
    if split_bytes is not None and split_bytes < 1:
        raise UsageError(f"split_bytes is {split_bytes}", hint="say 1 or more")
    names = None if columns is None else tuple(columns)
    schema_of(names)
    splits: list[ReadSplit] = []
    sizes: list[int] = []
    for partition in partitions:

        def plan(view: PartitionView) -> tuple[list[ReadSplit], list[int]]:
            found = [*splits_of(view, wanted, names, split_bytes)]
            return found, [segment.size_bytes for segment in view.segments if segment.size_bytes]

        found, found_sizes = steadily(partition, plan, wanted.isolation)
        splits += found
        sizes += found_sizes
    return ReadPlan(
        splits=tuple(splits),
        total_files=len(sizes),
        total_bytes=sum(sizes),
        pruned_files=len(sizes) - len({split.path for split in splits if split.lost is None}),
        pruned_bytes=sum(sizes) - sum(split.size_bytes for split in splits),
        filter=wanted,
        columns=names,
    )


def splits_of(
    partition: PartitionView, wanted: ReadFilter, columns: tuple[str, ...] | None = None, split_bytes: int | None = None
) -> Iterator[ReadSplit]:
    """Yields the splits of one partition; see `plan_read`. A lost segment has one in its place."""
    lost = deque(_lost_splits(partition, wanted, columns))
    for split in _splits_there(partition, wanted, columns, split_bytes):
        while lost and lost[0].base_offset <= split.base_offset:
            yield lost.popleft()
        yield split
    yield from lost


def _lost_splits(partition: PartitionView, wanted: ReadFilter, columns: tuple[str, ...] | None) -> Iterator[ReadSplit]:
    for each in lost_of(partition, wanted):
        yield ReadSplit(
            topic=partition.topic,
            partition=partition.partition,
            path=each.path,
            base_offset=each.base_offset,
            begin=0,
            end=0,
            offset=each.base_offset,
            end_offset=each.base_offset,
            first_offset=each.base_offset,
            next_offset=each.base_offset + 1 if each.next_offset < 0 else each.next_offset,
            filter=wanted,
            columns=columns,
            lost=each.error(partition.log_start_offset),
        )


def _splits_there(
    partition: ReadPartition, wanted: ReadFilter, columns: tuple[str, ...] | None, split_bytes: int | None
) -> Iterator[ReadSplit]:
    aborted = NOTHING_ABORTED
    if wanted.isolation == READ_COMMITTED:
        aborted, wanted = _find_aborted(partition, wanted)
    for part in prune(partition, wanted):
        ends = _ends(part, split_bytes)
        offsets = [part.segment.base_offset, *_offsets_at(part, ends[1:-1]), part.next_base]
        for (begin, end), (first, following) in zip(pairwise(ends), pairwise(offsets), strict=True):
            yield ReadSplit(
                topic=partition.topic,
                partition=partition.partition,
                path=part.segment.log.path,
                base_offset=part.segment.base_offset,
                begin=begin,
                end=end,
                offset=part.offset,
                end_offset=part.end_offset,
                first_offset=first,
                next_offset=following,
                identity=part.segment.log.identity,
                filter=wanted,
                columns=columns,
                aborted=aborted.between(part.segment.base_offset, part.next_base),
            )


def _find_aborted(partition: ReadPartition, wanted: ReadFilter) -> tuple[AbortedTransactions, ReadFilter]:
    """Returns the aborted transactions for a filter, and the filter without the offsets of segments
    that retention has removed meanwhile. Raises `VanishedError` if others were removed or
    replaced."""
    segments = partition.segments
    while True:
        aborted, error = NOTHING_ABORTED, None
        try:
            aborted = find_aborted(segments, *offset_range(partition, wanted))
        except VanishedError as vanished:
            error = vanished
        removed = first_current(segments, partition.env)  # a .txnindex may have been gone already
        if removed:
            segments = segments[removed:]
            wanted = replace(wanted, offset=max(wanted.offset or 0, segments[0].base_offset))
        if error is None:
            return aborted, wanted
        if not removed:
            raise error


def _offsets_at(part: SegmentPart, positions: list[int]) -> list[int]:
    """Returns the base offsets of the batches at some positions, at which the part is cut. Raises
    `UnreadableError` if the log is shorter by now."""
    offsets, log = list[int](), part.segment.log
    for position in positions:
        header = next(log.headers(position), None)
        if header is None:
            raise UnreadableError(
                path=log.path,
                position=position,
                end_position=part.end,
                size_bytes=part.segment.env.size_bytes(log.path),
            )
        offsets.append(header.base_offset)
    return offsets


def _ends(part: SegmentPart, split_bytes: int | None) -> list[int]:
    return [part.begin, part.end] if split_bytes is None else cut(part, split_bytes)
