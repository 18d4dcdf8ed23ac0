"""Finds all records of a key in segments, newest first: through key indexes where they exist, else
by scanning.

Both ways return the same records: a key index of another log is not used, batches appended after
the index was built are scanned, and the key of every candidate is compared. Records of aborted
transactions are included, control records are not.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Generator, Iterator
from dataclasses import replace
from itertools import groupby

from logdex.errors import CorruptError, LogdexError, MissingFileError
from logdex.io.env import Env
from logdex.io.path_look import StrPath, path_text
from logdex.kafka.batch.record import Record
from logdex.kafka.columns.record_columns import RECORD_COLUMNS
from logdex.kafka.files.file_names import KEY_INDEX_SUFFIX
from logdex.kafka.key_index.reader import KeyIndex
from logdex.kafka.read.prune import SegmentPart, lost_of, prune_segment
from logdex.kafka.read.read_filter import OFFSET_MAX, ReadFilter
from logdex.kafka.read.record_scan import records_of
from logdex.kafka.read.splits.split import OnBadBatch, ReadSplit
from logdex.kafka.read.steady import LOOKS_MAX, LookedAtPartition, PartitionView
from logdex.kafka.segment.log_segment import LogSegment
from logdex.kernels.kafka.batch_columns import Int64s

OnBadIndex = Callable[[LogdexError], None]

_CANDIDATES_AT_ONCE = 16_384


class _UselessIndexError(Exception):
    """A key index, or an offset index that it needs, cannot be trusted. `error` states why."""

    def __init__(self, error: LogdexError) -> None:
        super().__init__(error)
        self.error = error


def require_key_index_dir(given: StrPath | None, env: Env) -> str | None:
    """Returns the path of a directory of key indexes. Raises `MissingFileError` if it is given and
    is not a directory."""
    path = None if given is None else path_text(given)
    if path is not None and not env.is_dir(path):
        raise MissingFileError(
            "no such directory of key indexes", path=path, hint="name the one that logdex rebuild --key-index wrote"
        )
    return path


def query_key(
    partition: LookedAtPartition,
    wanted: ReadFilter,
    *,
    key_index_dir: StrPath | None = None,
    on_bad_batch: OnBadBatch | None = None,
    on_bad_index: OnBadIndex | None = None,
) -> Iterator[Record]:
    """Yields every record of a partition with the filter's key and within its times, newest first.

    `key_index_dir` holds the ``.keyindex`` files, by default beside the segments. An index that is
    missing, damaged (reported to `on_bad_index`) or of another log is not used. Raises
    `CorruptError` for a bad batch or a lost segment that may hold the key, unless `on_bad_batch`
    takes the error. Scanning a segment takes memory for its matching records.
    """
    home = None if key_index_dir is None else path_text(key_index_dir)
    looks, asked = 0, wanted
    while looks >= 0:
        view, before = partition.view(), wanted
        try:
            for record in _query_view(view, wanted, home, on_bad_batch, on_bad_index):
                wanted = replace(wanted, end_offset=record.offset)
                yield record
            _tell_lost(view, asked, on_bad_batch)
            looks = -1
        except LogdexError:
            if looks == LOOKS_MAX or not partition.look_again(view):
                raise
            looks = looks + 1 if wanted == before else 0


def _query_view(
    view: PartitionView,
    wanted: ReadFilter,
    key_index_dir: str | None,
    on_bad_batch: OnBadBatch | None,
    on_bad_index: OnBadIndex | None,
) -> Iterator[Record]:
    for place in reversed(range(len(view.segments))):
        part = prune_segment(view, place, wanted)
        if part is None:
            continue
        scan = _SegmentScan(part, wanted, on_bad_batch)
        below = OFFSET_MAX
        try:
            found = _by_index(scan, key_index_dir)
            while True:
                try:
                    record = next(found)
                except StopIteration as stop:
                    answered: bool = stop.value
                    break
                below = record.offset
                if _is_within(record, wanted):
                    yield record
        except _UselessIndexError as useless:
            answered = False
            if on_bad_index is not None:
                on_bad_index(useless.error)
        if not answered:
            yield from scan.records(0, below)


def _tell_lost(view: PartitionView, wanted: ReadFilter, on_bad_batch: OnBadBatch | None) -> None:
    for lost in lost_of(view, wanted):
        if on_bad_batch is None:
            raise lost.error()
        on_bad_batch(lost.error())


def _is_within(record: Record, wanted: ReadFilter) -> bool:
    after = wanted.begin_ms is None or record.timestamp_ms >= wanted.begin_ms
    return after and (wanted.end_ms is None or record.timestamp_ms <= wanted.end_ms)


class _SegmentScan:
    """Reads the records of a part of a segment that pass a filter."""

    def __init__(self, part: SegmentPart, wanted: ReadFilter, on_bad_batch: OnBadBatch | None) -> None:
        self.segment = part.segment
        self.key = wanted.key or b""
        self.on_bad_batch = on_bad_batch
        self.offset, self.end_offset = part.offset, part.end_offset
        self._part = part
        self._wanted = wanted

    def records(self, start: int, below: int) -> Iterator[Record]:
        """Yields the records from position `start` of the .log on and before offset `below`, newest
        first."""
        part = self._part
        if start >= part.end:
            return
        split = ReadSplit(
            topic="",
            partition=-1,
            path=self.segment.log.path,
            base_offset=self.segment.base_offset,
            begin=max(start, part.begin),
            end=part.end,
            offset=part.offset,
            end_offset=part.end_offset,
            first_offset=self.segment.base_offset,
            next_offset=part.next_base,
            filter=self._wanted,
        )
        segment = self.segment
        read = split.read(
            RECORD_COLUMNS, env=segment.env, identity=segment.log.identity, on_bad_batch=self.on_bad_batch, plain=True
        )
        batches = [*read]
        for batch in reversed(batches):
            for record in reversed(list(records_of(batch))):
                if record.offset < below:
                    yield record


def _by_index(scan: _SegmentScan, key_index_dir: str | None) -> Generator[Record, None, bool]:
    """Yields the segment's records through its key index. Returns False, and yields none, if there
    is no key index for this log."""
    segment = scan.segment
    path = segment.path_of(KEY_INDEX_SUFFIX)
    if key_index_dir is not None:
        path = posixpath.join(key_index_dir, posixpath.basename(path))
    if not segment.env.exists(path):
        return False
    try:
        index = KeyIndex.open(path, env=segment.env)
    except LogdexError as error:
        raise _UselessIndexError(error) from error
    with index:
        covered = index.covers(segment.log.path)
        if not covered or index.base_offset != segment.base_offset:
            return False
        try:
            offsets = index.candidates(scan.key)
        except LogdexError as error:
            raise _UselessIndexError(error) from error
    yield from scan.records(covered, OFFSET_MAX)
    offsets = offsets[(offsets >= scan.offset) & (offsets < scan.end_offset)]
    for at in range(0, len(offsets), _CANDIDATES_AT_ONCE):
        yield from _confirmed(scan, offsets[at : at + _CANDIDATES_AT_ONCE], path)
    return True


def _confirmed(scan: _SegmentScan, offsets: Int64s, path: str) -> Iterator[Record]:
    """Yields the records at falling `offsets` that have the key itself."""
    try:
        positions = scan.segment.translate_offsets(offsets)[:, 1].tolist()
    except LogdexError as error:
        raise _UselessIndexError(error) from error
    for position, group in groupby(zip(positions, offsets.tolist(), strict=True), key=lambda pair: pair[0]):
        wanted = [offset for _, offset in group]
        try:
            records = _batch_records(scan.segment, position, set(wanted)) if position >= 0 else {}
        except CorruptError as error:
            if scan.on_bad_batch is None:
                raise
            scan.on_bad_batch(error)
            continue
        for offset in wanted:
            if offset not in records:
                raise _UselessIndexError(
                    CorruptError(
                        "a record of the key index is not where the offset index leads",
                        path=path,
                        position=0,
                        field="relative_offset",
                        found=offset,
                        hint="build the indexes anew: logdex rebuild",
                    )
                )
            if records[offset].key == scan.key:
                yield records[offset]


def _batch_records(segment: LogSegment, position: int, offsets: set[int]) -> dict[int, Record]:
    """Returns the records of one batch by offset, after checking its checksum."""
    batch = segment.log.batch_at(position)
    batch.check_crc()
    return {record.offset: record for record in batch.records() if record.offset in offsets}
