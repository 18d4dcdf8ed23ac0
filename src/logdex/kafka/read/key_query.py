"""All records of a key in segments, newest first: through key indexes where they are, by scanning where not.

Which way was taken does not show in the answer: the index of another log is not used, what was appended since is
scanned, and every candidate's key is compared. Records of aborted transactions are among them, control records not.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Generator, Iterable, Iterator
from itertools import groupby

import pyarrow as pa
import pyarrow.compute as pc

from logdex.errors import CorruptError, LogdexError, MissingFileError
from logdex.io.env import Env
from logdex.kafka.batch.record import Record
from logdex.kafka.columns.record_columns import read_record_batches
from logdex.kafka.files.file_names import KEY_INDEX_SUFFIX
from logdex.kafka.key_index.reader import KeyIndex
from logdex.kafka.read.record_scan import OFFSET_MAX, records_of
from logdex.kafka.segment.log_segment import LogSegment
from logdex.kernels.kafka.batch_columns import Int64s

OnBadBatch = Callable[[CorruptError], None]
OnBadIndex = Callable[[LogdexError], None]

_CANDIDATES_AT_ONCE = 16_384


class _UselessIndexError(Exception):
    """A key index, or an offset index on the way, cannot be trusted; `error` says why."""

    def __init__(self, error: LogdexError) -> None:
        super().__init__(error)
        self.error = error


def require_key_index_dir(path: str | None, env: Env) -> None:
    """`MissingFileError` where a directory of key indexes is named that is none."""
    if path is not None and not env.is_dir(path):
        raise MissingFileError(
            "no such directory of key indexes", path=path, hint="name the one that logdex rebuild --key-index wrote"
        )


def query_key(
    segments: Iterable[LogSegment],
    key: bytes,
    *,
    key_index_dir: str | None = None,
    on_bad_batch: OnBadBatch | None = None,
    on_bad_index: OnBadIndex | None = None,
) -> Iterator[Record]:
    """Every record with `key`, from the newest on.

    `key_index_dir` is where the ``.keyindex`` files are, by default beside the segments. An index that is missing,
    damaged (then `on_bad_index` is told) or of another log is done without. Raises `CorruptError` for a batch that is
    wrong and may have the key, unless `on_bad_batch` takes it. A segment that is scanned takes memory for its answers.
    """
    for segment in sorted(segments, key=lambda one: one.base_offset, reverse=True):
        below = OFFSET_MAX
        try:
            found = _by_index(segment, key, key_index_dir, on_bad_batch)
            while True:
                try:
                    record = next(found)
                except StopIteration as stop:
                    answered: bool = stop.value
                    break
                below = record.offset
                yield record
        except _UselessIndexError as useless:
            answered = False
            if on_bad_index is not None:
                on_bad_index(useless.error)
        if not answered:
            yield from _by_scan(segment, key, 0, below, on_bad_batch)


def _by_index(
    segment: LogSegment, key: bytes, key_index_dir: str | None, on_bad_batch: OnBadBatch | None
) -> Generator[Record, None, bool]:
    """The segment's records through its key index; False, after no record, where there is none for this log."""
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
            offsets = index.candidates(key)
        except LogdexError as error:
            raise _UselessIndexError(error) from error
    yield from _by_scan(segment, key, covered, OFFSET_MAX, on_bad_batch)
    for at in range(0, len(offsets), _CANDIDATES_AT_ONCE):
        yield from _confirmed(segment, key, offsets[at : at + _CANDIDATES_AT_ONCE], path, on_bad_batch)
    return True


def _confirmed(
    segment: LogSegment, key: bytes, offsets: Int64s, path: str, on_bad_batch: OnBadBatch | None
) -> Iterator[Record]:
    """The records at falling `offsets` that do have the key."""
    try:
        positions = segment.translate_offsets(offsets)[:, 1].tolist()
    except LogdexError as error:
        raise _UselessIndexError(error) from error
    for position, group in groupby(zip(positions, offsets.tolist(), strict=True), key=lambda pair: pair[0]):
        wanted = [offset for _, offset in group]
        try:
            records = _batch_records(segment, position) if position >= 0 else {}
        except CorruptError as error:
            if on_bad_batch is None:
                raise
            on_bad_batch(error)
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
            if records[offset].key == key:
                yield records[offset]


def _batch_records(segment: LogSegment, position: int) -> dict[int, Record]:
    """The records of one batch by their offsets, its checksum checked."""
    batch = segment.log.batch_at(position)
    batch.check_crc()
    return {record.offset: record for record in batch.records()}


def _by_scan(
    segment: LogSegment, key: bytes, start: int, below: int, on_bad_batch: OnBadBatch | None
) -> Iterator[Record]:
    """The records with the key from byte `start` of the .log on, those before offset `below`, newest first."""
    found: list[pa.RecordBatch] = []
    wanted = pa.scalar(key, pa.binary())
    for batch in read_record_batches(segment.log.path, start=start, on_bad_batch=on_bad_batch, env=segment.env):
        matching = batch.filter(pc.equal(batch.column("key"), wanted))
        if matching.num_rows:
            found.append(matching)
    for batch in reversed(found):
        for record in reversed(list(records_of(batch))):
            if record.offset < below:
                yield record
