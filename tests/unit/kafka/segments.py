"""Batches and segments for tests of segments."""

from __future__ import annotations

from logdex.kafka.batch_writer import encode_batch
from logdex.kafka.log_segment import LogSegment
from logdex.kafka.record import Compression, Record
from logdex.kafka.scan import BatchScanner
from logdex.kernels.batch_columns import BatchColumns


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
