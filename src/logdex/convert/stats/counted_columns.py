"""The columns of each format's read that are counted."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc


@dataclass(frozen=True, slots=True)
class FigureColumns:
    """The columns of a format's read that are counted."""

    reads: tuple[str, ...]
    queue: str
    time_ms: str
    sizes: Callable[[pa.RecordBatch], pa.Array]
    keys: Callable[[pa.RecordBatch], pa.Array]


def _record_sizes(batch: pa.RecordBatch) -> pa.Array:
    lengths = [pc.binary_length(batch.column(name)).fill_null(0).cast(pa.int64()) for name in ("key", "value")]
    return pc.add(*lengths)


def _record_keys(batch: pa.RecordBatch) -> pa.Array:
    keys = batch.column("key")
    ends = np.concatenate([[0], np.cumsum(keys.is_valid().to_numpy(zero_copy_only=False))]).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(ends), keys.drop_null())


COLUMNS: Mapping[str, FigureColumns] = {
    "rocketmq": FigureColumns(
        ("topic", "queue_id", "store_timestamp_ms", "size_bytes", "keys"),
        "queue_id",
        "store_timestamp_ms",
        lambda batch: batch.column("size_bytes"),
        lambda batch: batch.column("keys"),
    ),
    "kafka": FigureColumns(
        ("topic", "partition", "timestamp_ms", "key", "value"), "partition", "timestamp_ms", _record_sizes, _record_keys
    ),
}
