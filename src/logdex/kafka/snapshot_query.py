"""Records by key, newest first, exact: through a segment's key index where one is there and speaks of its log, else,
and for what lies behind it, by reading the log.

Kafka has no such query. An index that cannot be used is told and done without.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from logdex.errors import CorruptError, LogdexError
from logdex.io.env import Env
from logdex.kafka.key_index import KeyIndex
from logdex.kafka.log_segment import LogSegment
from logdex.kafka.partition_scan import records_of
from logdex.kafka.record import Record
from logdex.kafka.record_columns import read_record_batches
from logdex.kafka.segment_files import KEY_INDEX_SUFFIX


@dataclass(frozen=True, slots=True)
class KeyQuestion:
    """What is asked: times in milliseconds, both ends included."""

    key: bytes
    begin_ms: int | None = None
    end_ms: int | None = None

    def is_answered_by(self, record: Record) -> bool:
        """Whether a record is one of those."""
        if record.key != self.key or record.is_control:
            return False
        after = self.begin_ms is None or record.timestamp_ms >= self.begin_ms
        return after and (self.end_ms is None or record.timestamp_ms <= self.end_ms)


@dataclass(slots=True)
class KeyQueryReport:
    """How an answer came about: bytes of log that were read, segments that an index answered for, and what could not be
    read (bad batches passed over, indexes that were not used)."""

    scanned_bytes: int = 0
    indexed_segments: int = 0
    problems: list[LogdexError] = field(default_factory=list)


def query_segments(
    segments: Sequence[LogSegment], question: KeyQuestion, report: KeyQueryReport, env: Env
) -> Iterator[Record]:
    """The records of segments (rising) that answer, the highest offset first. Holds what one segment answers."""
    for segment in reversed(segments):
        found, covered = _indexed(segment, question, report, env)
        yield from reversed([*_scanned(segment, covered, question, report, env)])
        yield from found


def _indexed(segment: LogSegment, question: KeyQuestion, report: KeyQueryReport, env: Env) -> tuple[list[Record], int]:
    """(what the key index leads to, newest first; how many bytes of the log it speaks for)."""
    path = segment.path_of(KEY_INDEX_SUFFIX)
    if not env.exists(path):
        return [], 0
    try:
        with KeyIndex.open(path, env=env) as index:
            covered = index.covers(segment.log.path)
            if not covered:
                return [], 0
            offsets = index.candidates(question.key).tolist()
        found = [*_read(segment, offsets, question)]
    except LogdexError as error:  # the log is read instead, which says what is wrong with it
        report.problems.append(error)
        return [], 0
    report.indexed_segments += 1
    return found, covered


def _read(segment: LogSegment, offsets: list[int], question: KeyQuestion) -> Iterator[Record]:
    """The records at falling `offsets` that answer; each batch is decoded once."""
    first, records = -1, dict[int, Record]()
    for offset in offsets:
        if not first <= offset <= max(records, default=-2):
            found = segment.translate_offset(offset)
            if found is None:
                raise CorruptError("a key index tells of a record that is not there", path=segment.log.path, position=0)
            batch = segment.log.batch_at(found.position)
            batch.check_crc()
            first, records = found.offset, {record.offset: record for record in batch.records()}
        record = records.get(offset)
        if record is not None and question.is_answered_by(record):
            yield record


def _scanned(
    segment: LogSegment, position: int, question: KeyQuestion, report: KeyQueryReport, env: Env
) -> Iterator[Record]:
    """The records behind a byte of the log that answer, oldest first."""
    import pyarrow as pa
    import pyarrow.compute as pc

    report.scanned_bytes += segment.size_bytes - position
    wanted = pa.scalar(question.key, pa.binary())
    for batch in read_record_batches(segment.log.path, start=position, on_bad_batch=report.problems.append, env=env):
        rows = batch.filter(pc.equal(batch.column("key"), wanted))
        yield from (record for record in records_of(rows) if question.is_answered_by(record))


def merge_newest_first(streams: list[Iterator[tuple[int, Record]]]) -> Iterator[tuple[int, Record]]:
    """The records of several partitions, each with its partition's number: by time, within a partition by offset."""
    return heapq.merge(*streams, key=lambda found: -found[1].timestamp_ms)
