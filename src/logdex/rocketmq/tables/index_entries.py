"""The entries of a store's IndexFiles."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from logdex.frames.conditions import Conditions
from logdex.rocketmq.snapshot.store_snapshot import StoreSnapshot

_ENTRIES_AT_ONCE = 1 << 16

SCHEMA = pa.schema(
    [
        ("file", pa.string()),
        ("number", pa.int32()),
        ("key_hash", pa.int32()),
        ("physical_offset", pa.int64()),
        ("store_timestamp_ms", pa.int64()),
        ("previous_number", pa.int32()),
    ]
)
"""An entry has the whole seconds since its file's first one, so its time is that of its message or
up to a second earlier."""


class IndexEntries:
    """All entries, in the order of files and of their numbers. One CommitLog file has none."""

    schema = SCHEMA

    def __init__(self, snapshot: StoreSnapshot) -> None:
        self._snapshot = snapshot

    def batches(self, columns: Sequence[str], conditions: Conditions) -> Iterator[pa.RecordBatch]:
        """Yields batches."""
        if self._snapshot.commit_log.is_one_file:
            return
        for file in self._snapshot.index_service.files:
            for first in range(1, file.header.index_count, _ENTRIES_AT_ONCE):
                found = file.entries(first, _ENTRIES_AT_ONCE)
                count = len(found.key_hash)
                path = pa.repeat(pa.scalar(file.path), count)
                numbers = np.arange(first, first + count, dtype=np.int32)
                times = file.header.begin_timestamp_ms + found.time_diff_s.astype(np.int64) * 1000
                arrays = (numbers, found.key_hash, found.phy_offset, times, found.previous_index)
                yield pa.RecordBatch.from_arrays([path, *map(pa.array, arrays)], schema=SCHEMA)
