"""The entries of the segments' offset indexes and time indexes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from logdex.frames.conditions import Conditions
from logdex.kafka.segment.log_segment import LogSegment
from logdex.kafka.snapshot.partition_snapshot import PartitionSnapshot
from logdex.layout.kafka import OFFSET_INDEX_ENTRY, TIME_INDEX_ENTRY

SCHEMA = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("base_offset", pa.int64()),
        ("index", pa.string()),
        ("offset", pa.int64()),
        ("position", pa.int32()),
        ("timestamp_ms", pa.int64()),
    ]
)
"""`index` is ``offset`` or ``time``. Entries of an offset index have a position and no timestamp,
those of a time index the reverse."""


class IndexEntries:
    """All entries of some partitions, segment by segment."""

    schema = SCHEMA

    def __init__(self, partitions: Iterable[PartitionSnapshot]) -> None:
        self._partitions = [*partitions]

    def batches(self, columns: Sequence[str], conditions: Conditions) -> Iterator[pa.RecordBatch]:
        """Yields batches."""
        for partition in self._partitions:
            if conditions.hold("topic", partition.topic) and conditions.hold("partition", partition.partition):
                for segment in partition.view().segments:
                    yield _of_offset_index(partition, segment)
                    yield _of_time_index(partition, segment)


def _of_offset_index(partition: PartitionSnapshot, segment: LogSegment) -> pa.RecordBatch:
    rows = np.frombuffer(segment.offset_index.used_bytes.tobytes(), OFFSET_INDEX_ENTRY.dtype)
    positions = pa.array(rows["position"].astype(np.int32))
    return _batch(partition, segment, "offset", rows["relative_offset"], positions, pa.nulls(len(rows), pa.int64()))


def _of_time_index(partition: PartitionSnapshot, segment: LogSegment) -> pa.RecordBatch:
    rows = np.frombuffer(segment.time_index.used_bytes.tobytes(), TIME_INDEX_ENTRY.dtype)
    times = pa.array(rows["timestamp_ms"].astype(np.int64))
    return _batch(partition, segment, "time", rows["relative_offset"], pa.nulls(len(rows), pa.int32()), times)


def _batch(
    partition: PartitionSnapshot,
    segment: LogSegment,
    index: str,
    relative: np.ndarray,
    positions: pa.Array,
    times: pa.Array,
) -> pa.RecordBatch:
    count = len(relative)
    place = (partition.topic, partition.partition, segment.base_offset, index)
    constants = [pa.repeat(pa.scalar(value, field.type), count) for value, field in zip(place, SCHEMA, strict=False)]
    offsets = pa.array(segment.base_offset + relative.astype(np.int64))
    return pa.RecordBatch.from_arrays([*constants, offsets, positions, times], schema=SCHEMA)
