"""The decode kernel's output: buffers for a window of records, and their conversion to an Arrow
batch."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from logdex.frames.arrow import pa
from logdex.kafka.batch.record import Record, TimestampType
from logdex.kafka.batch.record_format import header_key_bytes
from logdex.kernels.kafka import record_decode as kernel
from logdex.layout.kafka import BATCH_CONTROL, BATCH_LOG_APPEND_TIME, BATCH_TRANSACTIONAL

_TIMESTAMP_TYPES = tuple(kind.value for kind in TimestampType)

RECORD_COLUMNS = (
    *("offset", "timestamp_ms", "timestamp_type", "key", "value", "headers"),
    *("leader_epoch", "producer_id", "producer_epoch", "sequence", "is_transactional", "is_control"),
)
"""The columns of a record. -1 means none.

`timestamp_type` and those from `leader_epoch` on, except `sequence`, are fields of its batch.
"""


def _header_type() -> pa.DataType:
    return pa.struct([pa.field("key", pa.binary(), nullable=False), pa.field("value", pa.binary())])


@cache
def record_schema() -> pa.Schema:
    """Returns the schema of `RECORD_COLUMNS`."""
    types = (
        *(pa.int64(), pa.int64(), pa.dictionary(pa.int8(), pa.string()), pa.binary(), pa.binary()),
        pa.list_(pa.field("item", _header_type(), nullable=False)),
        *(pa.int32(), pa.int64(), pa.int16(), pa.int32(), pa.bool_(), pa.bool_()),
    )
    named = zip(RECORD_COLUMNS, types, strict=True)
    return pa.schema([pa.field(name, kind, nullable=name in ("key", "value")) for name, kind in named])


def schema_of(names: Iterable[str]) -> pa.Schema:
    """Returns the schema of some of `RECORD_COLUMNS`, in the given order."""
    return pa.schema([record_schema().field(name) for name in names])


_PER_BATCH = ("leader_epoch", "producer_id", "producer_epoch")
PER_BATCH_COLUMNS = frozenset((*_PER_BATCH, "timestamp_type", "is_transactional", "is_control"))
"""The columns that the kernel does not write: `RecordWindow.note_batches` collects them."""


class RecordWindow:
    """Room for `rows` records with `data_bytes` bytes of keys and as many of values, and `headers`
    headers.

    The buffers come from Arrow's memory pool and pass to the batch of `to_batch`, so a window makes
    only one batch.
    """

    def __init__(self, schema: pa.Schema, rows: int, data_bytes: int, headers: int) -> None:
        self.rows, self.data_bytes, self.headers = rows, data_bytes, headers
        self._schema = schema
        self._buffers: dict[str, pa.Buffer] = {}
        self._pieces: list[tuple[npt.NDArray[Any], ...]] = []
        wanted = set(schema.names)
        sizes = {"offset": 8 * rows, "timestamp_ms": 8 * rows, "sequence": 4 * rows}
        for name in ("key", "value"):
            sizes |= {f"{name}_ends": 4 * rows + 4, f"{name}_valid": rows // 8 + 1, f"{name}_data": data_bytes}
        if "headers" in wanted:
            wanted |= {"header", "header_key", "header_value"}
        sizes |= {"header_ends": 4 * rows + 4, "header_key_ends": 4 * headers + 4, "header_key_data": data_bytes}
        sizes |= {"header_value_ends": 4 * headers + 4, "header_value_valid": headers // 8 + 1}
        sizes |= {"header_value_data": data_bytes}
        for name, size in sizes.items():
            if name in wanted or name.rpartition("_")[0] in wanted:
                self._buffers[name] = pa.allocate_buffer(size + kernel.SLACK)
        places = [self._address(name) for name in kernel.RecordTargets._fields[:-3]]
        self.targets = kernel.RecordTargets._make([*places, rows, data_bytes, headers])

    def _address(self, name: str) -> int:
        return int(self._buffers[name].address) if name in self._buffers else 0

    def note_batches(self, counts: npt.NDArray[Any], attributes: npt.NDArray[Any], *others: npt.NDArray[Any]) -> None:
        """Adds header fields of decoded batches, with `counts` records each, for all their records.

        `others` are the columns of leader epoch, producer id and producer epoch. The arrays are
        kept, not copied.
        """
        self._pieces.append((counts, attributes, *others))

    def to_batch(self, state: npt.NDArray[np.int64]) -> pa.RecordBatch:
        """The rows that `state` counts, as an Arrow batch. The window cannot be used again."""
        rows = int(state[kernel.ROWS])
        arrays = [self._column(name, rows, state) for name in self._schema.names]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _column(self, name: str, rows: int, state: npt.NDArray[np.int64]) -> pa.Array:
        kind = self._schema.field(name).type
        if name in ("offset", "timestamp_ms", "sequence"):
            return pa.Array.from_buffers(kind, rows, [None, self._buffers[name]], 0)
        if name == "key":
            return self._bytes("key", rows, int(state[kernel.KEY_NULLS]))
        if name == "value":
            return self._bytes("value", rows, int(state[kernel.VALUE_NULLS]))
        if name == "headers":
            return self._headers(kind, rows, state)
        counts, attributes, *others = map(np.concatenate, zip(*self._pieces, strict=True))
        if name == "timestamp_type":
            codes = np.where(attributes & BATCH_LOG_APPEND_TIME, 2, 1).astype(np.int8)
            return pa.DictionaryArray.from_arrays(pa.array(np.repeat(codes, counts)), pa.array(_TIMESTAMP_TYPES))
        if name in _PER_BATCH:
            return pa.array(np.repeat(others[_PER_BATCH.index(name)], counts), kind)
        bit = BATCH_TRANSACTIONAL if name == "is_transactional" else BATCH_CONTROL
        return pa.array(np.repeat(attributes & bit != 0, counts))

    def _bytes(self, name: str, rows: int, nulls: int) -> pa.Array:
        valid = self._buffers.get(f"{name}_valid") if nulls else None
        buffers = [valid, self._buffers[f"{name}_ends"], self._buffers[f"{name}_data"]]
        return pa.Array.from_buffers(pa.binary(), rows, buffers, nulls)

    def _headers(self, kind: pa.DataType, rows: int, state: npt.NDArray[np.int64]) -> pa.Array:
        count = int(state[kernel.HEADERS])
        keys = self._bytes("header_key", count, 0)
        values = self._bytes("header_value", count, int(state[kernel.HEADER_NULLS]))
        structs = pa.Array.from_buffers(_header_type(), count, [None], 0, children=[keys, values])
        return pa.Array.from_buffers(kind, rows, [None, self._buffers["header_ends"]], 0, children=[structs])


def records_to_batch(records: Sequence[Record], schema: pa.Schema) -> pa.RecordBatch:
    """Converts single records to the same columns: for magic 0 and 1, and as the twin in tests."""
    return pa.RecordBatch.from_arrays([_slow_column(records, field) for field in schema], schema=schema)


def _slow_column(records: Sequence[Record], field: pa.Field) -> pa.Array:
    if field.name == "timestamp_type":
        codes = pa.array([_TIMESTAMP_TYPES.index(record.timestamp_type.value) for record in records], pa.int8())
        return pa.DictionaryArray.from_arrays(codes, pa.array(_TIMESTAMP_TYPES))
    if field.name == "headers":
        lists = [[{"key": header_key_bytes(k), "value": v} for k, v in record.headers] for record in records]
        return pa.array(lists, field.type)
    return pa.array([getattr(record, field.name) for record in records], field.type)
