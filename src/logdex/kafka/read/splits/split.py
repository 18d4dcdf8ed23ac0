"""One split of a read plan: a value that can be sent to another process and read there."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cache, partial

import numpy as np
import numpy.typing as npt

from logdex.errors import CorruptError, LostSegmentError, UsageError, VanishedError
from logdex.frames.arrow import pa, pc
from logdex.io.env import DEFAULT_ENV, Env
from logdex.io.record_lock import Identity
from logdex.kafka.columns.plain_records import PlainRecords
from logdex.kafka.columns.read_order import OffsetRange
from logdex.kafka.columns.record_columns import RECORD_COLUMNS, read_record_batches, record_schema
from logdex.kafka.columns.record_decoder import Rows
from logdex.kafka.columns.stored_batches import STORED_COLUMNS, read_stored_batches, stored_schema
from logdex.kafka.read.committed import NOTHING_ABORTED, AbortedTransactions
from logdex.kafka.read.read_filter import OFFSET_MAX, ReadFilter
from logdex.kafka.read.splits.split_again import is_created_again, parts_now
from logdex.kafka.read.steady import LOOKS_MAX
from logdex.kafka.scan.scanner import EndKind, ScanEnd
from logdex.kernels.kafka.batch_columns import Int64s
from logdex.primitives.wrong_questions import require_column_names

OnBadBatch = Callable[[CorruptError], None]
OnOffsets = Callable[[Int64s], None]
OnGone = Callable[[VanishedError], None]

_PLACE = ("topic", "partition")
SCAN_COLUMNS = (*_PLACE, *RECORD_COLUMNS)
"""The columns of a read: the place of a record, and its fields."""
STORED_SCAN_COLUMNS = (*_PLACE, *STORED_COLUMNS)
"""The columns of a read of batches as they are stored."""


@cache
def scan_schema(stored: bool = False) -> pa.Schema:
    """Returns the schema of `SCAN_COLUMNS`, or of `STORED_SCAN_COLUMNS`."""
    topic = pa.field("topic", pa.dictionary(pa.int32(), pa.string()), nullable=False)
    fields = stored_schema() if stored else record_schema()
    return pa.schema([topic, pa.field("partition", pa.int32(), nullable=False), *fields])


def schema_of(columns: Iterable[str] | None, stored: bool = False) -> pa.Schema:
    """Returns the schema of some of the columns of `scan_schema`, in the given order; None: all.
    Raises `UsageError` for an unknown one."""
    known = scan_schema(stored)
    if columns is not None:
        require_column_names(columns)
    names = known.names if columns is None else list(columns)
    unknown = [name for name in names if name not in known.names]
    if unknown:
        raise UsageError(f"no column {unknown[0]!r}", hint=f"choose from {', '.join(known.names)}")
    return pa.schema([known.field(name) for name in names])


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadSplit:
    """The records of the batches that begin in bytes [`begin`, `end`) of one .log. A batch begins
    at `begin`. Of these, the records are read that have offsets in [`offset`, `end_offset`), pass
    the filter and are not of an aborted transaction, with some columns (None: all).

    With `stored`, the rows are the batches as they are stored: those that have their last offset
    there. Of the filter, `control` alone counts for them.

    These batches hold the partition's records with offsets in [`first_offset`, `next_offset`): by
    them `to_batches` finds the records again if the .log is not the file `identity` any more.

    `base_offset` is that of the segment. `path` is as it was given to the plan; a process with
    another working directory needs a plan of absolute paths. Immutable; can be pickled.
    """

    topic: str
    partition: int
    path: str
    base_offset: int
    begin: int
    end: int
    offset: int
    end_offset: int
    filter: ReadFilter
    first_offset: int
    next_offset: int
    identity: Identity | None = None
    columns: tuple[str, ...] | None = None
    aborted: AbortedTransactions = NOTHING_ABORTED
    stored: bool = False
    topic_id: str | None = None
    """The topic's id, if records of a topic that was created again are not to be read."""
    lost: LostSegmentError | None = None
    """Why there is nothing to read, if the whole segment is lost. Reading it meets this error."""

    @property
    def size_bytes(self) -> int:
        """The number of bytes of the .log that the split covers."""
        return self.end - self.begin

    @property
    def schema(self) -> pa.Schema:
        """Returns the schema of the batches."""
        return schema_of(self.columns, self.stored)

    def __repr__(self) -> str:
        return f"ReadSplit({self.path!r}, bytes {self.begin} to {self.end})"

    def to_batches(
        self, *, env: Env = DEFAULT_ENV, on_bad_batch: OnBadBatch | None = None, on_gone: OnGone | None = None
    ) -> Generator[pa.RecordBatch, None, ScanEnd | None]:
        """Yields the records in log order as Arrow batches of the columns. None is empty.

        Raises `CorruptError` for a bad batch, after the records before it, unless `on_bad_batch`
        takes the error; then reading continues after the batch. Returns how the part ends, or None
        if the offsets ended it earlier. If a broker has removed or replaced the segment, the
        records are read from where they are now, and `VanishedError` is raised if their partition
        is gone or is another one's. `on_gone` is called with an error at the end if there are not
        all of them any more.
        """
        schema = self.schema
        names = [name for name in schema.names if name not in _PLACE]
        reached, gone = self.first_offset, list[str]()
        try:
            end = yield from self._placed(names, schema, env, self.identity, on_bad_batch)
            return end
        except VanishedError:
            pass  # raised before the first batch, as the file was opened
        for look in range(LOOKS_MAX):
            try:
                for split in self._now(reached, env, gone):
                    yield from split._placed(names, schema, env, split.identity, on_bad_batch)
                    reached = split.next_offset
                break
            except VanishedError:
                if look == LOOKS_MAX - 1 or not env.exists(posixpath.dirname(self.path) or "."):
                    raise
        if gone and on_gone is not None:
            on_gone(VanishedError(gone[0], path=self.path))
        return None

    def cut_at(self, end: ScanEnd | None, sure_end: int, env: Env = DEFAULT_ENV) -> VanishedError | None:
        """Returns the error for what a broker has cut off the .log since it was planned, given what
        `to_batches` returned, if that ended there. See `damage_at`."""
        if end is None or end.kind not in (EndKind.END, EndKind.TORN):
            return None
        wanted = min(self.end, sure_end)
        if end.position >= wanted or (end.kind is EndKind.TORN and env.size_bytes(self.path) >= wanted):
            return None
        what = f"the log was cut to {end.position} bytes before the rest was read"
        return VanishedError(what, path=self.path)

    def damage_at(self, end: ScanEnd | None, sure_end: int) -> CorruptError | None:
        """Returns the damage at which `to_batches` ended, given what that returned, if there is
        any. Up to `sure_end`, a position in the .log, batches were known to be."""
        if end is None or end.kind is EndKind.CORRUPT or end.position >= min(self.end, sure_end):
            return None
        what = "zeros where a batch must be" if end.kind is EndKind.ZEROS else "the file ends where a batch must be"
        error = end.error or CorruptError(what, path=self.path, position=end.position)
        error.end_position = self.end
        return error

    def _placed(
        self, names: list[str], schema: pa.Schema, env: Env, identity: Identity | None, on_bad_batch: OnBadBatch | None
    ) -> Generator[pa.RecordBatch, None, ScanEnd | None]:
        read = self.read(names, env=env, identity=identity, on_bad_batch=on_bad_batch)
        while True:
            try:
                batch = next(read)
            except StopIteration as stopped:
                end: ScanEnd | None = stopped.value
                return end
            yield with_place(batch, schema, self.topic, self.partition)

    def _now(self, reached: int, env: Env, gone: list[str]) -> Iterator[ReadSplit]:
        """Yields splits of the segments that the partition has now, with the records of this split
        from offset `reached` on. What of them is `gone` is added, in words."""
        first, end = max(self.offset, reached), min(self.end_offset, self.next_offset)
        if first >= end:
            return
        wanted = replace(self.filter, offset=first, end_offset=None if end > OFFSET_MAX else end, isolation=None)
        if is_created_again(posixpath.dirname(self.path) or ".", self.topic_id, env):
            raise VanishedError("the topic was deleted and created again meanwhile", path=self.path)
        for part in parts_now(self.path, self.topic, self.partition, wanted, env, gone):
            yield replace(
                self,
                path=part.segment.log.path,
                base_offset=part.segment.base_offset,
                begin=part.begin,
                end=part.end,
                offset=first,
                end_offset=end,
                first_offset=first,
                next_offset=part.next_base,
                identity=part.segment.log.identity,
            )

    def read(
        self,
        names: Iterable[str],
        *,
        env: Env = DEFAULT_ENV,
        identity: Identity | None = None,
        on_bad_batch: OnBadBatch | None = None,
        on_offsets: OnOffsets | None = None,
        plain: bool = False,
    ) -> Generator[Rows, None, ScanEnd | None]:
        """Yields batches as `to_batches` does, with the columns `names` of `RECORD_COLUMNS`, or of
        `STORED_COLUMNS`, then those that the filter needs. `on_offsets` is called with the offsets
        of all rows that are read, before the filter. `plain` is that of `read_record_batches`.
        Raises `VanishedError` if the .log is not the file `identity` by now."""
        if self.lost is not None:
            if on_bad_batch is None:
                raise self.lost
            on_bad_batch(self.lost)
            return None
        columns = list(names)
        read = (read_stored_batches if self.stored else partial(read_record_batches, skip_control=False, plain=plain))(
            self.path,
            start=self.begin,
            stop=self.end,
            columns=[*columns, *sorted(self._needed_columns() - set(columns))],
            on_bad_batch=on_bad_batch,
            identity=identity,
            offsets=OffsetRange(self.base_offset, None if self.next_offset > OFFSET_MAX else self.next_offset),
            env=env,
        )
        is_last = False
        while True:
            try:
                batch = next(read)
            except StopIteration as stopped:
                end: ScanEnd = stopped.value
                return end
            offsets = batch.column(self._offset).to_numpy()
            if on_offsets is not None:
                on_offsets(offsets)
            kept = self._kept(batch, offsets)
            if len(kept):
                yield kept
            if is_last or (len(offsets) and self.end_offset - 1 <= offsets[-1] < OFFSET_MAX):
                if is_last or not self.stored or on_bad_batch is None:
                    read.close()
                    return None
                is_last = True  # records wait in their window until damage behind them is told; batches do not

    @property
    def _offset(self) -> str:
        """The column by which rows are in the offsets that are read."""
        return "last_offset" if self.stored else "offset"

    def _needed_columns(self) -> set[str]:
        wanted = self.filter
        needed = {self._offset, "is_control"}
        needed |= set() if wanted.begin_ms is None and wanted.end_ms is None else {"timestamp_ms"}
        needed |= set() if wanted.key is None else {"key"}
        return needed | ({"producer_id", "is_transactional"} if self.aborted else set())

    def _kept(self, batch: Rows, offsets: Int64s) -> Rows:
        """Returns the wanted rows of a batch."""
        wanted = self.filter
        keep: npt.NDArray[np.bool_] = (offsets >= self.offset) & (offsets < self.end_offset)
        if not wanted.control:
            keep &= ~batch.column("is_control").to_numpy(zero_copy_only=False)
        if wanted.begin_ms is not None:
            keep &= batch.column("timestamp_ms").to_numpy() >= wanted.begin_ms
        if wanted.end_ms is not None:
            keep &= batch.column("timestamp_ms").to_numpy() <= wanted.end_ms
        if wanted.key is not None:
            keep &= _has_key(batch, wanted.key)
        if self.aborted:
            keep &= ~self.aborted.rows(batch)
        if keep.all():
            return batch
        return batch.filter(keep if isinstance(batch, PlainRecords) else pa.array(keep))


def _has_key(batch: Rows, key: bytes) -> npt.NDArray[np.bool_]:
    if isinstance(batch, PlainRecords):
        return np.array([record.key == key for record in batch.records])
    matches = pc.equal(batch.column("key"), pa.scalar(key, pa.binary()))
    found: npt.NDArray[np.bool_] = pc.fill_null(matches, False).to_numpy(zero_copy_only=False)
    return found


def with_place(batch: pa.RecordBatch, schema: pa.Schema, topic: str, partition: int) -> pa.RecordBatch:
    """Returns the batch with the columns of `schema`, which include topic and partition."""
    rows = len(batch)
    place = {
        "topic": lambda: pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int32)), pa.array([topic])),
        "partition": lambda: pa.array(np.full(rows, partition, np.int32)),
    }
    columns = [place[name]() if name in place else batch.column(name) for name in schema.names]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
