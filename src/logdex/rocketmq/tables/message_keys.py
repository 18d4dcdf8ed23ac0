"""The messages by their keys: a row for each of KEYS and for the unique key, with all columns of
the message. So a key is a column, and a condition for it is looked up in the IndexFiles."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from logdex.frames.conditions import Conditions
from logdex.rocketmq.read.message_scan import LogScan
from logdex.rocketmq.read.narrow import KEY

_NEEDED = ("keys", "unique_key")


class MessageKeys:
    """The keys of a scan's messages. A key that a message has twice has one row. `scans` are the
    scans that reads have made."""

    def __init__(self, scan: LogScan) -> None:
        self.schema = pa.schema([pa.field(KEY, pa.string()), *scan.schema])
        self.scans: list[LogScan] = []
        self._scan = scan

    def batches(self, columns: Sequence[str], conditions: Conditions) -> Iterator[pa.RecordBatch]:
        """Yields batches of some columns, and of those that have the keys."""
        narrower = self._scan.narrowed(conditions)
        if narrower is None:
            return
        self.scans.append(narrower)
        reads = [name for name in dict.fromkeys((*columns, *_NEEDED)) if name != KEY]
        for batch in narrower.arrow_reader(reads):
            rows, keys = _keys_of(batch)
            taken = batch.take(rows)
            yield pa.RecordBatch.from_arrays([keys, *taken.columns], names=[KEY, *reads])


def _keys_of(batch: pa.RecordBatch) -> tuple[pa.Array, pa.Array]:
    """Returns the rows of a batch, each as often as its message has different keys, and these keys,
    in the order of KEYS and then the unique key."""
    lists, unique = batch.column("keys"), batch.column("unique_key")
    rows = pa.concat_arrays([pc.list_parent_indices(lists), pa.array(np.arange(len(batch)), pa.int64())])
    keys = pa.concat_arrays([lists.flatten(), unique])
    pairs = pa.table({"row": rows, "key": keys, "place": np.arange(len(keys))}).drop_null()
    different = pairs.group_by(["row", "key"], use_threads=False).aggregate([("place", "min")])
    ordered = different.sort_by([("row", "ascending"), ("place_min", "ascending")]).combine_chunks()
    return _array(ordered.column("row")), _array(ordered.column("key"))


def _array(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks or [pa.array([], column.type)])
