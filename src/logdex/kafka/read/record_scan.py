"""Reads the records of one or several partitions that pass a filter, as Arrow batches or as
objects.

Bad batches are skipped and reported.

Source: Kafka's consumer, for isolation; ``docs/formats/kafka-record-batch.md``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, fields, replace
from typing import ClassVar, Generic, NamedTuple, Protocol, Self, TypeVar

import numpy as np

from logdex.errors import CorruptError, VanishedError
from logdex.frames.arrow import pa
from logdex.frames.conditions import Conditions
from logdex.frames.scan_frames import ScanFrames
from logdex.jobs.look_again import LOOKS_MAX
from logdex.jobs.reports import Progress
from logdex.kafka.batch.record import Header, Record, TimestampType
from logdex.kafka.batch.record_format import header_key_of
from logdex.kafka.columns.plain_records import PlainRecords
from logdex.kafka.columns.record_columns import RECORD_COLUMNS
from logdex.kafka.columns.record_decoder import Rows
from logdex.kafka.read.narrow import narrowed
from logdex.kafka.read.plan import splits_of
from logdex.kafka.read.prune import ReadPartition
from logdex.kafka.read.read_filter import ReadFilter
from logdex.kafka.read.splits.split import ReadSplit, schema_of, with_place
from logdex.kafka.read.steady import PartitionView
from logdex.kafka.scan.scanner import EndKind, ScanEnd
from logdex.kafka.segment.log_segment import LogSegment
from logdex.kernels.kafka.batch_columns import Int64s
from logdex.primitives.wrong_questions import require_counts

_RECORD_FIELDS = tuple(field.name for field in fields(Record))
_TIMESTAMP_TYPES = {kind.value: kind for kind in TimestampType}


class ScanPartition(ReadPartition, Protocol):
    """A partition that can be listed again."""

    path: str

    def view(self, isolation: str | None = None) -> PartitionView:
        """Returns the partition as it was when it was last looked at."""

    def listed_again(self) -> Self:
        """Returns the partition with the segments that it has now. Raises `VanishedError` if it is
        deleted."""

    def close(self) -> None:
        """Closes the segments."""


Partition = TypeVar("Partition", bound=ScanPartition)


class SegmentEnd(NamedTuple):
    """How a segment that was read to its end ends. `is_last` states whether it is the last one of
    its partition."""

    segment: LogSegment
    end: ScanEnd
    is_last: bool

    @property
    def is_good(self) -> bool:
        """Whether it ends with a whole batch, or, in the active segment, with preallocated
        space."""
        return self.end.kind is EndKind.END or (self.end.kind is EndKind.ZEROS and self.is_last)

    @property
    def description(self) -> str:
        """Where and why the segment ends."""
        return f"{self.segment.log.path} ends at byte {self.end.position}: {self.end.reason}"


@dataclass(slots=True)
class KafkaScan(ScanFrames, Generic[Partition]):
    """One pass over partitions, each in log order. Iterate it (records), `items` or `to_arrow`,
    once. Afterwards its fields hold what was found: skipped bad batches, how segments end, gaps.
    One thread at a time.

    At most `limit` records are returned. `gaps` counts jumps in the offsets that were read,
    `missing_offsets` the offsets that they leave out. They are information, because compaction
    causes them too.
    """

    COUNTED_BY: ClassVar[str] = "offset"

    partitions: list[Partition]
    wanted: ReadFilter
    limit: int | None = None
    progress: Progress | None = None
    problems: list[CorruptError] = field(default_factory=list)
    ends: list[SegmentEnd] = field(default_factory=list)
    gaps: int = 0
    missing_offsets: int = 0
    rows: int = 0
    """The number of records returned so far."""
    _read_rows: int = field(default=0, repr=False)
    _read_bytes: int = field(default=0, repr=False)
    deleted: list[Partition] = field(default_factory=list)
    """The partitions that a broker deleted before they were read to their end."""
    _last_offset: int | None = field(default=None, repr=False)
    """The last offset that was read, if the next records follow it directly in the log."""
    _plain: bool = field(default=False, repr=False)
    _reached: int = field(default=0, repr=False)
    """All records of the partition below this offset were read, or are not wanted."""

    def __post_init__(self) -> None:
        """Raises `UsageError` for a limit that is no number of records."""
        require_counts(limit=self.limit)

    @property
    def is_good(self) -> bool:
        """Whether no batch was skipped and every segment that was read ends well."""
        return not self.problems and all(end.is_good for end in self.ends)

    @property
    def losses(self) -> list[str]:
        """What could not be read, in words; empty if everything was."""
        ends = (end.description for end in self.ends if not end.is_good)
        return [*(problem.message for problem in self.problems), *ends]

    # -- the ways to read it ----------------------------------------------------------------------
    def __iter__(self) -> Iterator[Record]:
        return self.records()

    def records(self) -> Iterator[Record]:
        """Yields the records one by one."""
        return (record for _, record in self.items())

    def items(self) -> Iterator[tuple[Partition, Record]]:
        """Yields the records, each with its partition."""
        for partition, batch in self._batches(RECORD_COLUMNS, plain=True):
            for record in records_of(batch):
                yield partition, record

    def batches(self) -> Iterator[tuple[Partition, pa.RecordBatch]]:
        """Yields the records as Arrow batches with the columns of `RECORD_COLUMNS`, each with its
        partition. None is empty."""
        return self._batches(RECORD_COLUMNS)

    def arrow_reader(self, columns: Iterable[str] | None = None) -> pa.RecordBatchReader:
        """Returns the records with the given columns of `SCAN_COLUMNS`, as `to_arrow` does."""
        schema = schema_of(columns)
        batches = (
            with_place(batch, schema, partition.topic, partition.partition)
            for partition, batch in self._batches([name for name in schema.names if name in RECORD_COLUMNS])
        )
        return pa.RecordBatchReader.from_batches(schema, batches)

    @property
    def schema(self) -> pa.Schema:
        """The schema of all columns."""
        return schema_of(None)

    def narrowed(self, conditions: Conditions) -> KafkaScan[Partition] | None:
        """Returns a new scan for the records for which the conditions hold, as `narrowed` of a
        filter does. With a limit, it is the same scan."""
        if self.limit is not None:
            return KafkaScan(self.partitions, self.wanted, self.limit, self.progress)
        found = [(each, narrowed(self.wanted, each.topic, each.partition, conditions)) for each in self.partitions]
        kept = [(each, wanted) for each, wanted in found if wanted is not None]
        if not kept:
            return None
        return KafkaScan([each for each, _ in kept], kept[0][1], None, self.progress)

    # -- reading ----------------------------------------------------------------------------------
    def _batches(self, names: Sequence[str], *, plain: bool = False) -> Iterator[tuple[Partition, pa.RecordBatch]]:
        """Yields batches with the columns `names` and those that the filter needs. None is empty.
        With `plain`, a few records may come as `PlainRecords`, so that PyArrow is not needed."""
        self._plain = plain
        for partition in self.partitions:
            if self.limit is not None and self.rows >= self.limit:
                return
            for batch in self._looking_again(partition, names):
                yield partition, batch
                if self.limit is not None and self.rows >= self.limit:
                    return

    def _looking_again(self, partition: Partition, names: Sequence[str]) -> Iterator[Rows]:
        """Yields the batches of a partition. Where a broker has removed or replaced a segment since
        the partition was listed, the partition is listed again, and reading goes on with the next
        offset. `VanishedError` is raised where `LOOKS_MAX` looks more have got no further."""
        current, wanted, self._reached = partition, self.wanted, 0
        looks = 0
        try:
            while True:
                before = self._reached
                try:
                    yield from self._of_partition(current.view(wanted.isolation), wanted, names)
                    return
                except VanishedError:
                    looks = looks + 1 if self._reached == before else 0
                    if looks > LOOKS_MAX:
                        raise
                listed = self._listed_again(partition)
                if listed is None:
                    return
                if current is not partition:
                    current.close()
                current, wanted = listed, replace(wanted, offset=max(self._reached, wanted.offset or 0))
        finally:
            if current is not partition:
                current.close()

    def _listed_again(self, partition: Partition) -> Partition | None:
        """Returns the partition as it is now; None if it is deleted, which is noted."""
        try:
            return partition.listed_again()
        except VanishedError:
            if partition.env.exists(partition.path):
                raise
            self.deleted.append(partition)
            return None

    def _of_partition(self, partition: PartitionView, wanted: ReadFilter, names: Sequence[str]) -> Iterator[Rows]:
        places = {segment.base_offset: place for place, segment in enumerate(partition.segments)}
        last_place, self._last_offset = -1, None
        for split in splits_of(partition, wanted):
            if split.lost is not None:
                self.problems.append(split.lost)
                self._reached = max(self._reached, split.next_offset)
                continue
            place = places[split.base_offset]
            if split.begin > 0 or place != last_place + 1:
                self._last_offset = None  # the records between are not read, so this may be no gap
            last_place, self._reached = place, max(self._reached, split.base_offset)
            yield from self._of_split(split, names, partition, partition.segments[place])

    def _of_split(
        self, split: ReadSplit, names: Sequence[str], partition: ReadPartition, segment: LogSegment
    ) -> Iterator[Rows]:
        read = split.read(
            names,
            env=partition.env,
            identity=segment.log.identity,
            on_bad_batch=self.problems.append,
            on_offsets=self._passed,
            plain=self._plain,
        )
        with closing(read):
            while True:
                try:
                    batch = next(read)
                except StopIteration as stopped:
                    if stopped.value is not None and split.end == segment.size_bytes:
                        self.ends.append(SegmentEnd(segment, stopped.value, segment is partition.segments[-1]))
                    break
                if self.limit is not None:
                    batch = batch.slice(0, self.limit - self.rows)
                self.rows += len(batch)
                yield batch
        self._moved(0, split.size_bytes)

    def _passed(self, offsets: Int64s) -> None:
        """Counts the records that are read, wanted or not, and the gaps between them."""
        self._moved(len(offsets), 0)
        if not len(offsets):
            return
        before = offsets[:0] if self._last_offset is None else self._last_offset
        jumps = np.diff(offsets, prepend=before) - 1
        jumps = jumps[jumps > 0]
        self.gaps += len(jumps)
        self.missing_offsets += int(jumps.sum())
        self._last_offset = int(offsets[-1])
        self._reached = max(self._reached, self._last_offset + 1)

    def _moved(self, rows: int, size_bytes: int) -> None:
        self._read_rows += rows
        self._read_bytes += size_bytes
        if self.progress is not None:
            self.progress(self._read_rows, self._read_bytes)


def records_of(batch: Rows) -> Iterator[Record]:
    """Yields the rows of a batch with all columns of `RECORD_COLUMNS`, as objects."""
    if isinstance(batch, PlainRecords):
        return iter(batch.records)
    kinds = batch.column("timestamp_type")
    known = [_TIMESTAMP_TYPES[name] for name in kinds.dictionary.to_pylist()]
    lists = {"timestamp_type": [known[place] for place in kinds.indices.to_pylist()], "headers": _headers(batch)}
    columns = [lists[name] if name in lists else batch.column(name).to_pylist() for name in _RECORD_FIELDS]
    return map(Record, *columns)


def _headers(batch: pa.RecordBatch) -> list[tuple[Header, ...]]:
    column = batch.column("headers")
    if not len(column.flatten()):
        return [()] * len(column)
    return [tuple((header_key_of(each["key"]), each["value"]) for each in found) for found in column.to_pylist()]
