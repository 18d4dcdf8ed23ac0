"""Writes rows to Parquet files by topic and day, each row group sorted, with bounded memory.

A folder is named as Hive does, ``topic=NAME/day=YYYY-MM-DD``, which Spark, DuckDB, Polars and Arrow
read as two columns. The day is that of the message in UTC.
"""

from __future__ import annotations

import string
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date, timedelta
from types import TracebackType
from typing import Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from logdex.convert.columns.table_form import TableForm
from logdex.convert.export.parquet_file import ParquetFile
from logdex.io.env import Env

ROW_GROUP_BYTES = 32 << 20
"""A row group is written when the rows of a topic and day take this much memory."""
WAITING_BYTES = 128 << 20
"""How much memory all rows take that wait to be written."""
_OPEN_MAX = 64
NO_VALUE = "__HIVE_DEFAULT_PARTITION__"
"""Stands for null in the name of a folder, as Hive writes it."""
_DAY_MS = 86_400_000
_EPOCH = date(1970, 1, 1)
_DAYS_MAX = (date.max - _EPOCH).days
_PLAIN = frozenset(string.ascii_letters + string.digits + "_.~-")


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """A Parquet file that was written: its name below the output, its rows and its size."""

    name: str
    rows: int
    size_bytes: int


@dataclass(slots=True)
class _Day:
    """One topic and day: the rows that wait, and its files."""

    folder: str
    waiting: list[pa.RecordBatch] = field(default_factory=list)
    waiting_bytes: int = 0
    files: int = 0


class DayWriter:
    """Writes below `directory` files whose names begin with `prefix`. `schema` is that of the rows.
    A context manager that finishes all files; `written` lists them then. For one thread."""

    def __init__(
        self, directory: str, prefix: str, form: TableForm, schema: pa.Schema, codec: str, *, env: Env, sync: bool
    ) -> None:
        self.written: list[WrittenFile] = []
        self._directory = directory
        self._prefix = prefix
        self._form = form
        self._schema = schema
        self._codec = codec
        self._env = env
        self._sync = sync
        self._days: dict[tuple[str, int], _Day] = {}
        self._open: OrderedDict[str, tuple[str, ParquetFile]] = OrderedDict()
        self._waiting_bytes = 0

    def add(self, topics: pa.DictionaryArray, times_ms: npt.NDArray[np.int64], rows: pa.RecordBatch) -> None:
        """Takes rows, each with its topic and its time."""
        for topic, day, part in _by_day(topics, times_ms, rows):
            group = self._days.get((topic, day))
            if group is None:
                group = self._days[topic, day] = _Day(f"topic={escaped(topic)}/day={day_name(day)}")
            group.waiting.append(part)
            group.waiting_bytes += part.nbytes
            self._waiting_bytes += part.nbytes
            if group.waiting_bytes >= ROW_GROUP_BYTES:
                self._write(group)
        while self._waiting_bytes >= WAITING_BYTES:
            self._write(max(self._days.values(), key=lambda each: each.waiting_bytes))

    def _write(self, group: _Day) -> None:
        rows = self._sorted(pa.Table.from_batches(group.waiting, self._schema).combine_chunks())
        self._waiting_bytes -= group.waiting_bytes
        group.waiting, group.waiting_bytes = [], 0
        self._file_of(group, len(rows)).write(rows)

    def _sorted(self, rows: pa.Table) -> pa.Table:
        order = self._form.order
        if _is_sorted([rows.column(name).to_numpy() for name in order]):
            return rows
        return rows.take(pc.sort_indices(rows, [(name, "ascending") for name in order]))

    def _file_of(self, group: _Day, rows: int) -> ParquetFile:
        found = self._open.get(group.folder)
        if found is not None:
            self._open.move_to_end(group.folder)
            return found[1]
        if len(self._open) >= _OPEN_MAX:
            self._finish(next(iter(self._open)))
        name = f"{group.folder}/{self._prefix}-{group.files}.parquet"
        group.files += 1
        self._env.make_dirs(f"{self._directory}/{group.folder}")
        file = ParquetFile(
            f"{self._directory}/{name}",
            self._schema,
            order=self._form.order,
            keys=self._form.keys,
            codec=self._codec,
            rows_max=rows,
            env=self._env,
            sync=self._sync,
        )
        self._open[group.folder] = (name, file)
        return file

    def _finish(self, folder: str) -> None:
        name, file = self._open.pop(folder)
        file.close()
        self.written.append(WrittenFile(name, file.rows, file.size_bytes))

    def close(self) -> None:
        """Writes what waits, and finishes all files."""
        try:
            for group in self._days.values():
                if group.waiting:
                    self._write(group)
            for folder in list(self._open):
                self._finish(folder)
        except BaseException:
            self.abandon()
            raise

    def abandon(self) -> None:
        """Closes all files as they are, after an error."""
        for _, file in self._open.values():
            file.abandon()
        self._open.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if error is None:
            self.close()
        else:
            self.abandon()


def _by_day(
    topics: pa.DictionaryArray, times_ms: npt.NDArray[np.int64], rows: pa.RecordBatch
) -> Iterator[tuple[str, int, pa.RecordBatch]]:
    """Yields (topic, day since 1970, rows) for each topic and day in a batch; -1 if a time is none
    that a calendar has."""
    codes = topics.indices.to_numpy().astype(np.int64)
    days = times_ms // _DAY_MS
    days[(times_ms < 0) | (days > _DAYS_MAX)] = -1
    names = topics.dictionary.to_pylist()
    width = _DAYS_MAX + 2
    kinds, inverse = np.unique(codes * width + days + 1, return_inverse=True)
    for number, kind in enumerate(kinds.tolist()):
        part = rows if len(kinds) == 1 else rows.take(pa.array(np.flatnonzero(inverse == number)))
        yield names[kind // width], kind % width - 1, part


def _is_sorted(columns: list[npt.NDArray[np.int64]]) -> bool:
    """Whether rows are in the order of some columns of numbers, the first of which counts most."""
    equal = np.ones(max(len(columns[0]) - 1, 0), np.bool_)
    for column in columns:
        steps = np.diff(column)
        if bool((steps[equal] < 0).any()):
            return False
        equal &= steps == 0
    return True


def day_name(day: int) -> str:
    """Returns a day since 1970 as ISO 8601; Hive's name for none if it is negative."""
    return NO_VALUE if day < 0 else (_EPOCH + timedelta(days=day)).isoformat()


def escaped(topic: str) -> str:
    """Returns a topic as part of a folder's name, with ASCII's special characters as Hive and Spark
    escape them."""
    return "".join(each if each in _PLAIN or not each.isascii() else f"%{ord(each):02X}" for each in topic) or NO_VALUE
