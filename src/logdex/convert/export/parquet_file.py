"""One Parquet file, written through `Env` row group by row group."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from logdex.io.env import Env, WriteFile

CODECS = ("zstd", "snappy", "lz4", "gzip", "none")
_ZSTD_LEVEL = 1
_FALSE_POSITIVES = 0.01
_NDV_MIN = 64


class _Sink(io.RawIOBase):
    """A file of `Env` as Arrow wants it. What Arrow hands over may be large, so nothing is
    buffered."""

    def __init__(self, file: WriteFile) -> None:
        self.is_abandoned = False
        self._file = file
        self._position = 0

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def write(self, data: Any) -> int:
        view = memoryview(data).cast("B")
        if not self.is_abandoned:
            self._file.write_at(self._position, view)
        self._position += len(view)
        return len(view)


class ParquetFile:
    """A Parquet file at `path`, which must not exist, whose row groups are sorted by the columns
    `order` and have Bloom filters on the columns `keys`. `rows` and `size_bytes` are those that are
    written. Its owner calls `close` or `abandon`. For one thread.

    `rows_max` is the number of rows of the largest row group, by which the Bloom filters are made.
    """

    def __init__(
        self,
        path: str,
        schema: pa.Schema,
        *,
        order: Sequence[str],
        keys: Sequence[str],
        codec: str,
        rows_max: int,
        env: Env,
        sync: bool,
    ) -> None:
        self.rows = self.size_bytes = 0
        self._file = env.open_write(path, exclusive=True)
        self._sink = _Sink(self._file)
        self._sync = sync
        bloom = {"ndv": max(rows_max, _NDV_MIN), "fpp": _FALSE_POSITIVES}
        try:
            self._writer = pq.ParquetWriter(
                self._sink,
                schema,
                compression=codec,
                compression_level=_ZSTD_LEVEL if codec == "zstd" else None,
                write_page_index=True,
                sorting_columns=[pq.SortingColumn(_leaf_of(schema, name)) for name in order],
                bloom_filter_options=dict.fromkeys(keys, bloom),
            )
        except BaseException:
            self._sink.is_abandoned = True
            self._file.close()
            raise

    def write(self, rows: pa.Table) -> None:
        """Writes a row group. Its rows are sorted."""
        self._writer.write_table(rows, row_group_size=len(rows))
        self.rows += len(rows)

    def close(self) -> None:
        """Finishes the file. With `sync`, it is on disk when this returns."""
        try:
            self._writer.close()
            self.size_bytes = self._sink.tell()
            if self._sync:
                self._file.sync()
        except BaseException:
            self.abandon()
            raise
        self._file.close()

    def abandon(self) -> None:
        """Closes the file as it is, after an error."""
        self._sink.is_abandoned = True  # Arrow's writer writes a footer when it is closed, and when it is forgotten
        self._writer.close()
        self._file.close()


def _leaf_of(schema: pa.Schema, name: str) -> int:
    """Returns the number of a column in Parquet, where a nested column counts as its leaves."""
    return sum(_leaves(schema.field(place).type) for place in range(schema.get_field_index(name)))


def _leaves(kind: pa.DataType) -> int:
    return sum(_leaves(kind.field(place).type) for place in range(kind.num_fields)) or 1
