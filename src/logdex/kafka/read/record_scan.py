"""Records of a partition's segments, or of several partitions, that pass a filter: as Arrow batches and as objects.

Bad batches are passed over and told. Source: Kafka's consumer, for isolation; ``docs/formats/kafka-record-batch.md``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, fields
from typing import Generic, NamedTuple, Protocol, TypedDict, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from logdex.errors import CorruptError, UsageError
from logdex.io.env import Env
from logdex.jobs.reports import Progress
from logdex.kafka.batch.record import Header, Record, TimestampType
from logdex.kafka.batch.record_format import header_key_of
from logdex.kafka.columns.record_columns import RECORD_SCHEMA, read_record_batches
from logdex.kafka.read.committed import AbortedTransactions, find_aborted
from logdex.kafka.read.log_read import READ_COMMITTED, check_isolation
from logdex.kafka.read.scan_state import position_of, walk_from
from logdex.kafka.scan.scanner import EndKind, ScanEnd
from logdex.kafka.segment.log_segment import LogSegment

OFFSET_MAX = (1 << 63) - 1
SCAN_SCHEMA = pa.schema(
    [
        pa.field("topic", pa.dictionary(pa.int32(), pa.string()), nullable=False),
        pa.field("partition", pa.int32(), nullable=False),
        *RECORD_SCHEMA,
    ]
)
"""What a scan gives: where a record lies, and its columns."""

_PLACE = ("topic", "partition")
_RECORD_FIELDS = tuple(field.name for field in fields(Record))
_TIMESTAMP_TYPES = {kind.value: kind for kind in TimestampType}


class ScannedPartition(Protocol):
    """What is scanned: a `PartitionSnapshot`."""

    topic: str
    partition: int
    segments: list[LogSegment]
    env: Env

    @property
    def log_start_offset(self) -> int:
        """The first offset that a consumer sees."""

    @property
    def last_stable_offset(self) -> int:
        """The offset that committed records end before."""


Partition = TypeVar("Partition", bound=ScannedPartition)


class ScanOptions(TypedDict, total=False):
    """`RecordFilter`'s fields, as the snapshots' `scan` takes them."""

    begin_ms: int | None
    end_ms: int | None
    offset: int | None
    end_offset: int | None
    limit: int | None
    control: bool
    isolation: str | None


@dataclass(frozen=True, slots=True)
class RecordFilter:
    """Which records are wanted: times in milliseconds, both ends included; offsets in [`offset`, `end_offset`) of each
    partition; at most `limit` in all.

    `isolation`: None for all that lies in the files; ``read_uncommitted`` for what a consumer sees, who begins at the
    log start offset; ``read_committed`` without aborted transactions and what is behind the last stable offset.
    """

    begin_ms: int | None = None
    end_ms: int | None = None
    offset: int | None = None
    end_offset: int | None = None
    limit: int | None = None
    control: bool = False
    isolation: str | None = None

    def __post_init__(self) -> None:
        """`UsageError` for what cannot be."""
        if self.isolation is not None:
            check_isolation(self.isolation)
        if self.limit is not None and self.limit < 0:
            raise UsageError(f"limit is {self.limit}", hint="say 0 or more")


class SegmentEnd(NamedTuple):
    """How a segment that was read to its end ends; `is_last`: of its partition."""

    segment: LogSegment
    end: ScanEnd
    is_last: bool

    @property
    def is_good(self) -> bool:
        """Whether it ends with its last batch, or, in the active segment, in room that was preallocated."""
        return self.end.kind is EndKind.END or (self.end.kind is EndKind.ZEROS and self.is_last)


@dataclass(slots=True)
class KafkaScan(Generic[Partition]):
    """One pass over partitions, each in log order; iterate it (records), `items` or `to_arrow`, once. Then look at
    what it met: bad batches that were passed over, how segments end, gaps. One thread at a time.

    `gaps` counts jumps in the offsets that were read, `missing_offsets` what they leave out: information, since
    compaction leaves them too.
    """

    partitions: list[Partition]
    wanted: RecordFilter
    progress: Progress | None = None
    problems: list[CorruptError] = field(default_factory=list)
    ends: list[SegmentEnd] = field(default_factory=list)
    gaps: int = 0
    missing_offsets: int = 0
    rows: int = 0
    """Records given so far."""
    _read_rows: int = 0
    _read_bytes: int = 0

    @property
    def is_good(self) -> bool:
        """Whether nothing was passed over and every segment that was read ends well."""
        return not self.problems and all(end.is_good for end in self.ends)

    # -- the ways to read it -------------------------------------------------------------------------------------------
    def __iter__(self) -> Iterator[Record]:
        return self.records()

    def records(self) -> Iterator[Record]:
        """The records one by one."""
        return (record for _, record in self.items())

    def items(self) -> Iterator[tuple[Partition, Record]]:
        """The records with the partition that each is of."""
        for partition, batch in self._batches(RECORD_SCHEMA.names):
            for record in records_of(batch):
                yield partition, record

    def to_arrow(self, columns: Iterable[str] | None = None) -> pa.RecordBatchReader:
        """The records as Arrow batches with the columns of `SCAN_SCHEMA` that are wanted, in the order wanted."""
        names = SCAN_SCHEMA.names if columns is None else list(columns)
        unknown = [name for name in names if name not in SCAN_SCHEMA.names]
        if unknown:
            raise UsageError(f"no column {unknown[0]!r}", hint=f"choose from {', '.join(SCAN_SCHEMA.names)}")
        schema = pa.schema([SCAN_SCHEMA.field(name) for name in names])
        inner = [name for name in names if name not in _PLACE]
        return pa.RecordBatchReader.from_batches(schema, self._placed(schema, inner))

    def _placed(self, schema: pa.Schema, inner: list[str]) -> Iterator[pa.RecordBatch]:
        for partition, batch in self._batches(inner):
            place = {
                "topic": pa.DictionaryArray.from_arrays(
                    pa.array(np.zeros(len(batch), np.int32)), pa.array([partition.topic], pa.string())
                ),
                "partition": pa.array(np.full(len(batch), partition.partition, np.int32)),
            }
            columns = [place[name] if name in place else batch.column(name) for name in schema.names]
            yield pa.RecordBatch.from_arrays(columns, schema=schema)

    # -- reading -------------------------------------------------------------------------------------------------------
    def _batches(self, names: list[str]) -> Iterator[tuple[Partition, pa.RecordBatch]]:
        """Batches with the columns `names` (and others that the filter needs), none empty."""
        for partition in self.partitions:
            if self.wanted.limit is not None and self.rows >= self.wanted.limit:
                return
            for batch in _PartitionPass(self, partition, names):
                self.rows += len(batch)
                yield partition, batch

    def _moved(self, rows: int, size_bytes: int) -> None:
        self._read_rows += rows
        self._read_bytes += size_bytes
        if self.progress is not None:
            self.progress(self._read_rows, self._read_bytes)


class _PartitionPass(Generic[Partition]):
    """One partition's part of a scan."""

    def __init__(self, scan: KafkaScan[Partition], partition: Partition, names: list[str]) -> None:
        self._scan = scan
        self._partition = partition
        wanted = scan.wanted
        self._wanted = wanted
        start = -OFFSET_MAX if wanted.offset is None else wanted.offset
        end = OFFSET_MAX + 1 if wanted.end_offset is None else wanted.end_offset
        if wanted.isolation is not None:
            start = max(start, partition.log_start_offset)
        self._committed = wanted.isolation == READ_COMMITTED
        if self._committed:
            end = min(end, partition.last_stable_offset)
        self._start, self._end = start, end
        needed = {"offset", "is_control"}
        needed |= {"timestamp_ms"} if wanted.begin_ms is not None or wanted.end_ms is not None else set()
        needed |= {"producer_id", "is_transactional"} if self._committed else set()
        self._columns = [*names, *sorted(needed - set(names))]
        self._last_offset: int | None = None

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        segments = self._partition.segments
        env = self._partition.env
        wanted = self._segments()
        aborted = find_aborted(segments, self._start, self._end) if self._committed else None
        for segment in wanted:
            position = 0
            if self._start > segment.base_offset:
                position = position_of(segment, self._start)
            read = read_record_batches(
                segment.log.path,
                start=position,
                stop=segment.size_bytes,  # what a writer has appended since is not of this snapshot
                columns=self._columns,
                skip_control=False,
                on_bad_batch=self._scan.problems.append,
                env=env,
            )
            while True:
                try:
                    batch = next(read)
                except StopIteration as stopped:
                    self._scan.ends.append(SegmentEnd(segment, stopped.value, segment is segments[-1]))
                    break
                yield from self._pass(batch, aborted)
                if self._is_done(batch):
                    read.close()
                    return
            self._scan._moved(0, segment.size_bytes - position)

    def _segments(self) -> list[LogSegment]:
        """Those that can hold what is wanted. By time, batch headers are asked, whatever an index says."""
        segments = self._partition.segments
        following = [*(segment.base_offset for segment in segments), OFFSET_MAX + 1][1:]
        found = [
            segment
            for segment, upto in zip(segments, following, strict=True)
            if segment.base_offset < self._end and upto > self._start
        ]
        begin = self._wanted.begin_ms
        if begin is None or self._committed:
            return found
        return [segment for segment in found if self._reaches(segment, begin)]

    def _reaches(self, segment: LogSegment, begin_ms: int) -> bool:
        """Whether the segment has a batch at or after a time, or something wrong that is to be told."""
        walk = walk_from(segment, segment.base_offset, self._partition.env)
        if any(int(window.columns.max_timestamp_ms.max()) >= begin_ms for window in walk):
            return True
        return walk.end is None or walk.end.kind is not EndKind.END

    def _is_done(self, batch: pa.RecordBatch) -> bool:
        limit = self._wanted.limit
        return (limit is not None and self._scan.rows >= limit) or (
            len(batch) > 0 and self._end - 1 <= batch.column("offset")[-1].as_py() < OFFSET_MAX
        )

    def _pass(self, batch: pa.RecordBatch, aborted: AbortedTransactions | None) -> Iterator[pa.RecordBatch]:
        """What of a batch is wanted, if anything."""
        offsets = batch.column("offset").to_numpy()
        self._count_gaps(offsets)
        self._scan._moved(len(batch), 0)
        keep = (offsets >= self._start) & (offsets < self._end)
        if not self._wanted.control:
            keep &= ~batch.column("is_control").to_numpy(zero_copy_only=False)
        if self._wanted.begin_ms is not None:
            keep &= batch.column("timestamp_ms").to_numpy() >= self._wanted.begin_ms
        if self._wanted.end_ms is not None:
            keep &= batch.column("timestamp_ms").to_numpy() <= self._wanted.end_ms
        if aborted is not None:
            keep &= ~aborted.rows(batch)
        if not keep.all():
            batch = batch.filter(pa.array(keep))
        if self._wanted.limit is not None:
            batch = batch.slice(0, self._wanted.limit - self._scan.rows)
        if len(batch):
            yield batch

    def _count_gaps(self, offsets: npt.NDArray[np.int64]) -> None:
        if not len(offsets):
            return
        before = offsets[:0] if self._last_offset is None else self._last_offset
        jumps = np.diff(offsets, prepend=before) - 1
        jumps = jumps[jumps > 0]
        self._scan.gaps += len(jumps)
        self._scan.missing_offsets += int(jumps.sum())
        self._last_offset = int(offsets[-1])


def records_of(batch: pa.RecordBatch) -> Iterator[Record]:
    """The rows of an Arrow batch with all columns of `RECORD_SCHEMA`, as objects."""
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
