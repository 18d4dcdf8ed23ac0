"""The sizes of the Arrow batches that Spark is given. What a batch of a stream takes is decided in
`stream_table.py`."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

BATCH_ROWS_MAX = 1 << 16
BATCH_BYTES_MAX = 4 << 20
BATCH_BYTES_MIN = 1 << 20
"""Spark is fastest with batches of this size: with fewer bytes the cost of a batch counts, with
more they leave the processor's cache."""


def resized(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yields the rows of `batches` in batches of `BATCH_BYTES_MIN` to `BATCH_BYTES_MAX` bytes and
    at most `BATCH_ROWS_MAX` rows. Only the last may have fewer bytes, and only a single row
    more."""
    waiting: list[pa.RecordBatch] = []
    rows = size_bytes = 0
    try:
        for whole in batches:
            for batch in _cut(whole):
                if rows + len(batch) > BATCH_ROWS_MAX or size_bytes + batch.nbytes > BATCH_BYTES_MAX:
                    yield from _joined(waiting)
                    waiting, rows, size_bytes = [], 0, 0
                waiting.append(batch)
                rows, size_bytes = rows + len(batch), size_bytes + batch.nbytes
                if size_bytes >= BATCH_BYTES_MIN:
                    yield from _joined(waiting)
                    waiting, rows, size_bytes = [], 0, 0
    except Exception:
        yield from _joined(waiting)
        raise
    yield from _joined(waiting)


def _cut(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    if len(batch) > 1 and (batch.nbytes > BATCH_BYTES_MAX or len(batch) > BATCH_ROWS_MAX):
        middle = len(batch) // 2
        yield from _cut(batch.slice(0, middle))
        yield from _cut(batch.slice(middle))
    elif len(batch):
        yield batch


def _joined(batches: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    if len(batches) < 2:
        return batches
    joined: list[pa.RecordBatch] = pa.Table.from_batches(batches).combine_chunks().to_batches()
    return joined
