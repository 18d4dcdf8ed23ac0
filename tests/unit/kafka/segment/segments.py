"""Batches and segments for tests of segments."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

import pytest

from logdex.errors import CorruptError
from logdex.kafka.batch.batch_writer import encode_batch
from logdex.kafka.batch.record import Compression, Record
from logdex.kafka.scan.scanner import BatchScanner
from logdex.kafka.segment.log_segment import LogSegment
from logdex.kafka.segment.sparse_index import IndexFile
from logdex.kafka.settings.log_config import LogConfig
from logdex.kernels.kafka.batch_columns import BatchColumns


def batch(
    base_offset: int,
    *timestamps_ms: int,
    value: bytes = b"",
    compression: Compression = Compression.NONE,
    magic: int = 2,
    leader_epoch: int = 0,
    last_offset: int | None = None,
) -> bytes:
    """A batch with a record for each timestamp."""
    records = [Record(value=value, timestamp_ms=timestamp) for timestamp in timestamps_ms]
    return encode_batch(
        records,
        base_offset=base_offset,
        compression=compression,
        magic=magic,
        leader_epoch=leader_epoch,
        last_offset=last_offset,
    )


def columns_of(data: bytes) -> BatchColumns:
    """The columns of whole batches (not more than a window of them)."""
    window = next(BatchScanner().scan_bytes(data))
    return BatchColumns._make(column.copy() for column in window.columns)


def append(segment: LogSegment, data: bytes) -> int:
    """Appends whole batches."""
    return segment.append(data, columns_of(data))


CONFIG = LogConfig(index_interval_bytes=10, segment_index_bytes=1000, segment_ms=10_000, segment_bytes=2000)
"""Settings that give small segments many index entries."""


def make_segment(path: Path, base_offset: int = 40, config: LogConfig = CONFIG, clock: int = 0) -> LogSegment:
    """A segment to write to."""
    return LogSegment(str(path), base_offset, config, writable=True, clock_ms=lambda: clock)


def grown(path: Path, count: int = 30) -> LogSegment:
    """The same with batches of one record at offsets from 40 on, timestamps ten times those."""
    segment = make_segment(path)
    for offset in range(40, 40 + count):
        append(segment, batch(offset, offset * 10, value=b"x" * 20))
    return segment


def check_sanity(index: IndexFile, message: str | None) -> None:
    """An index's `sanity_check` says what matches `message`; nothing where that is None."""
    with nullcontext() if message is None else pytest.raises(CorruptError, match=message):
        index.sanity_check()


def files(path: Path) -> dict[str, bytes]:
    """The contents of all files of a directory, by name."""
    return {file.name: file.read_bytes() for file in sorted(path.iterdir())}
