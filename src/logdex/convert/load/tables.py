"""The Parquet files to import: which there are, and their rows."""

from __future__ import annotations

import io
import posixpath
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq

from logdex.errors import CorruptError, MissingFileError, UsageError
from logdex.io.env import Env, ReadFile

_SUFFIX = ".parquet"
_TOPIC = "topic="
_BATCH_ROWS = 1 << 15
_BATCH_BYTES = 64 << 20
_BUFFER_BYTES = 1 << 18


class Batch(NamedTuple):
    """Rows of a file, the number of the row behind them, and about how much of the file lies before
    that."""

    rows: pa.RecordBatch
    end: int
    position: int


@dataclass(frozen=True, slots=True)
class TableFile:
    """A Parquet file. `topic` is the one that its folder is named after, None if it is not."""

    path: str
    topic: str | None
    size_bytes: int

    def names(self, env: Env) -> list[str]:
        """Returns the names of the columns."""
        with self._opened(env) as parquet:
            names: list[str] = parquet.schema_arrow.names
            return names

    def batches(
        self, env: Env, columns: Collection[str] | None = None, *, first: int = 0, batch_bytes: int = _BATCH_BYTES
    ) -> Iterator[Batch]:
        """Yields the rows from number `first` on, with a column `topic`, and only those of
        `columns` that there are if it is not None. A batch of all columns takes about
        `batch_bytes`. Raises `CorruptError` for a file that is not Parquet, and `UsageError` if
        nothing says the topic."""
        with self._opened(env) as parquet:
            groups = [parquet.metadata.row_group(at) for at in range(parquet.num_row_groups)]
            total = parquet.metadata.num_rows
            row_bytes = sum(group.total_byte_size for group in groups) // max(total, 1) + 1
            names = None if columns is None else [name for name in columns if name in parquet.schema_arrow.names]
            rows, skipped = 0, 0  # the rows of the row groups that are passed over, and their number
            while skipped < len(groups) and rows + groups[skipped].num_rows <= first:
                rows += groups[skipped].num_rows
                skipped += 1
            size = min(max(batch_bytes // row_bytes, 1), _BATCH_ROWS)
            for batch in parquet.iter_batches(size, row_groups=list(range(skipped, len(groups))), columns=names):
                rows += len(batch)
                if rows > first:
                    batch = batch.slice(max(len(batch) - (rows - first), 0))
                    yield Batch(self._with_topic(batch), rows, self.size_bytes * rows // total)

    @contextmanager
    def _opened(self, env: Env) -> Iterator[Any]:
        with env.open_read(self.path) as file:
            try:
                yield pq.ParquetFile(_Source(file), buffer_size=_BUFFER_BYTES)
            except (pa.ArrowInvalid, OSError) as error:
                if isinstance(error, OSError) and error.errno is not None:
                    raise
                raise CorruptError(f"this is no whole Parquet file: {error}", path=self.path, position=0) from error

    def _with_topic(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        if "topic" in batch.schema.names:
            if batch.column("topic").null_count:
                hint = "fill the nulls of the column topic, or leave the column out and name the folder topic=NAME"
                raise UsageError(f"{self.path}: a row has no topic", hint=hint)
            return batch
        if self.topic is None:
            hint = "add a column topic, or name the folder topic=NAME"
            raise UsageError(f"{self.path}: nothing says the topic", hint=hint)
        return batch.append_column("topic", pa.repeat(pa.scalar(self.topic, pa.string()), len(batch)))


def find_tables(path: str, env: Env) -> list[TableFile]:
    """Returns the Parquet files at a path: that file, or those in the folders below it, by name.
    Names that begin with ``_`` or ``.`` are passed over, as readers of Parquet do. Raises
    `MissingFileError` if there are none, or no such path."""
    if not env.exists(path):
        hint = "give a Parquet file, or a folder with such files, as logdex export writes them"
        raise MissingFileError("there is no such file or directory", path=path, hint=hint)
    found = list(_below(path, None, env)) if env.is_dir(path) else [TableFile(path, None, env.size_bytes(path))]
    if not found:
        raise MissingFileError(f"no file here ends with {_SUFFIX}", path=path, hint="give Parquet files")
    return found


def _below(folder: str, topic: str | None, env: Env) -> Iterator[TableFile]:
    for name in env.list_dir(folder):
        path = posixpath.join(folder, name)
        if name.startswith(("_", ".")):
            continue
        if env.is_dir(path):
            yield from _below(path, unquote(name.removeprefix(_TOPIC)) if name.startswith(_TOPIC) else topic, env)
        elif name.endswith(_SUFFIX):
            yield TableFile(path, topic, env.size_bytes(path))


class _Source(io.RawIOBase):
    """A file of `Env` as Arrow wants it."""

    def __init__(self, file: ReadFile) -> None:
        self._file = file
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._file.size_bytes}[whence]
        self._position = base + offset
        return self._position

    def read(self, size: int = -1) -> bytes:
        left = max(self._file.size_bytes - self._position, 0)
        data = self._file.read_at(self._position, left if size < 0 else min(size, left))
        self._position += len(data)
        return data
