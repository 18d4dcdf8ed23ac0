"""Reads the batches of a log as they are stored, a row per batch: the fields of its header, and its
bytes. Nothing is decompressed.

Damage ends the reading, or is skipped, as in `read_record_batches`.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from functools import cache
from typing import Any

import numpy as np

from logdex.errors import CorruptError
from logdex.frames.arrow import pa
from logdex.io.env import DEFAULT_ENV, Env
from logdex.io.mapped.byte_array import ByteArray
from logdex.io.mapped.mapping import require_readable
from logdex.io.record_lock import Identity
from logdex.kafka.batch.record import Compression, TimestampType
from logdex.kafka.columns.read_order import OffsetRange, ReadOrder
from logdex.kafka.columns.read_steps import names_of, open_data, read_steps
from logdex.kafka.columns.record_decoder import OnBadBatch
from logdex.kafka.scan.resume import LogResume
from logdex.kafka.scan.scanner import ScanEnd
from logdex.kernels.kafka.batch_columns import BatchColumns
from logdex.kernels.kafka.batch_scan import ColumnAddresses
from logdex.layout.kafka import BATCH_CODEC_MASK, BATCH_CONTROL, BATCH_LOG_APPEND_TIME, BATCH_TRANSACTIONAL

STORED_COLUMNS = (
    *("base_offset", "last_offset", "record_count", "base_timestamp_ms", "max_timestamp_ms", "timestamp_type"),
    *("compression", "magic", "leader_epoch", "producer_id", "producer_epoch", "base_sequence"),
    *("is_transactional", "is_control", "position", "size_bytes", "batch"),
)
"""The columns of a stored batch. -1 means none. `record_count` is null for a compressed batch of
magic 0 or 1, which does not state it; of those, both offsets and both timestamps are the stored
one. `batch` holds the bytes, `size_bytes` of them, and `position` is where they begin in the
.log."""

_TIMESTAMP_TYPES = tuple(kind.value for kind in TimestampType)
_CODECS = tuple(codec.label for codec in Compression)
_LARGE_BYTES = 1 << 30
"""A larger batch gets an Arrow batch of its own, because Arrow's offsets are int32."""


@cache
def stored_schema() -> pa.Schema:
    """Returns the schema of `STORED_COLUMNS`."""
    texts = pa.dictionary(pa.int8(), pa.string())
    types = (
        *(pa.int64(), pa.int64(), pa.int32(), pa.int64(), pa.int64(), texts),
        *(texts, pa.int8(), pa.int32(), pa.int64(), pa.int16(), pa.int32()),
        *(pa.bool_(), pa.bool_(), pa.int64(), pa.int32(), pa.binary()),
    )
    named = zip(STORED_COLUMNS, types, strict=True)
    return pa.schema([pa.field(name, kind, nullable=name == "record_count") for name, kind in named])


def read_stored_batches(
    path: str,
    *,
    start: int = 0,
    stop: int | None = None,
    columns: Iterable[str] | None = None,
    on_bad_batch: OnBadBatch | None = None,
    identity: Identity | None = None,
    offsets: OffsetRange | None = None,
    env: Env = DEFAULT_ENV,
) -> Generator[pa.RecordBatch, None, ScanEnd]:
    """Yields the batches that begin in bytes [start, stop) of a .log file, as Arrow batches of some
    4 MiB or one batch of the log, whose checksums were compared.

    `start` is the first byte of a batch. `columns` selects columns of `STORED_COLUMNS`, in the
    given order; without ``batch``, no bytes are copied. The other parameters, the errors and the
    result are those of `read_record_batches`.
    """
    schema = pa.schema([stored_schema().field(name) for name in names_of(columns, STORED_COLUMNS)])
    with open_data(path, identity, env) as data:
        rows = _StoredRows(data, schema, on_bad_batch)
        order = None if offsets is None else ReadOrder(data, path, offsets, env, empty_count=True)
        end = data.size if stop is None else stop
        return (yield from read_steps(data, path, start, end, True, rows, LogResume(data, path, env), order))


class _StoredRows:
    """Makes rows of batches as they are. See `Decoder`."""

    def __init__(self, data: ByteArray, schema: pa.Schema, on_bad_batch: OnBadBatch | None) -> None:
        self._data = data
        self._schema = schema
        self._on_bad_batch = on_bad_batch

    @property
    def goes_on(self) -> bool:
        return self._on_bad_batch is not None

    def decode(self, columns: BatchColumns, addresses: ColumnAddresses, count: int) -> Iterator[pa.RecordBatch]:
        for begin, end in _runs(columns, count):
            # copies: Arrow shows arrays as they are, and the next step writes into these
            run = BatchColumns._make(column[begin:end].copy() for column in columns)
            arrays = [self._array(name, run) for name in self._schema.names]
            batch = pa.RecordBatch.from_arrays(arrays, schema=self._schema)
            require_readable(self._data, int(run.position[0]), _end(run))
            yield batch

    def flush(self) -> Iterator[pa.RecordBatch]:
        yield from ()  # no row waits

    def refuse(self, error: CorruptError) -> Iterator[pa.RecordBatch]:
        if self._on_bad_batch is None:
            raise error
        self._on_bad_batch(error)
        yield from ()

    def _array(self, name: str, run: BatchColumns) -> pa.Array:
        kind = self._schema.field(name).type
        if name == "batch":
            first = int(run.position[0])
            ends = np.append(run.position - first, _end(run) - first).astype(np.int32)
            copied = self._data[first : _end(run)].copy()
            return pa.Array.from_buffers(kind, len(run.size), [None, pa.py_buffer(ends), pa.py_buffer(copied)], 0)
        if name == "timestamp_type":
            codes = np.where(run.attributes & BATCH_LOG_APPEND_TIME, 2, 1)
            return _named(np.where(run.magic == 0, 0, codes), _TIMESTAMP_TYPES)
        if name == "compression":
            return _named(run.attributes & BATCH_CODEC_MASK, _CODECS)
        if name in ("is_transactional", "is_control"):
            bit = BATCH_TRANSACTIONAL if name == "is_transactional" else BATCH_CONTROL
            return pa.array((run.magic == 2) & (run.attributes & bit != 0))
        if name == "record_count":
            return pa.array(run.count, kind, mask=(run.count < 0) & (run.magic < 2))
        return pa.array(getattr(run, "size" if name == "size_bytes" else name), kind)


def _named(codes: Any, names: tuple[str, ...]) -> pa.Array:
    """Returns names by number. Where there are others, which no broker writes, they are numbers."""
    others = tuple(str(number) for number in range(len(names), int(codes.max(initial=0)) + 1))
    return pa.DictionaryArray.from_arrays(pa.array(codes.astype(np.int8)), pa.array([*names, *others]))


def _runs(columns: BatchColumns, count: int) -> Iterator[tuple[int, int]]:
    """Yields the ranges of batches that follow each other without a gap."""
    if not count:
        return
    ends = columns.position[:count] + columns.size[:count]
    edges = (np.flatnonzero(columns.position[1:count] != ends[:-1]) + 1).tolist()
    if count > 1 and columns.size[count - 1] > _LARGE_BYTES and edges[-1:] != [count - 1]:
        edges.append(count - 1)
    yield from zip([0, *edges], [*edges, count], strict=True)


def _end(run: BatchColumns) -> int:
    return int(run.position[-1]) + int(run.size[-1])
