"""Encodes many records, given as Arrow columns, to batches of magic 2.

`encode_columns` returns all batches at once, `iter_encoded` pieces of bounded size for large
tables. Both write the bytes that `logdex.kafka.batch.record_batch.encode_batch` writes for the same
records (with zstd: other frames of the same content). The batches' columns are returned too, so
that an append need not scan what was just encoded. Source: ``docs/formats/kafka-record-batch.md``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypedDict, Unpack

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from logdex import limits
from logdex.errors import LogdexError, UsageError
from logdex.io.mapped.byte_array import ByteArray
from logdex.kafka.batch.batch_writer import FIELD_BOUNDS, check_producer
from logdex.kafka.batch.compression import compress
from logdex.kafka.batch.record import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE, Compression, TimestampType
from logdex.kafka.columns.encode_input import RecordSlice, check_table, read_slice
from logdex.kernels.common.crc32c import crc_sources
from logdex.kernels.kafka import record_encode as kernel
from logdex.kernels.kafka.batch_columns import WIDE_COLUMNS, BatchColumns, Int64s
from logdex.kernels.kafka.compress import CODEC_NONE, Compressor
from logdex.layout import kafka as layout
from logdex.primitives.crc32c import crc32c
from logdex.primitives.wrong_questions import require_bool, require_within

BATCH_BYTES = 16384
"""The default of batch.size in Kafka's producer."""
PIECE_BYTES = 4 << 20

_SCRATCH_BYTES = 1 << 18
_ROWS = 1 << 12
_HEAD_SIZE = layout.RECORD_BATCH.size_bytes
_AT_LENGTH = layout.RECORD_BATCH.offset_of("length")
_AT_CRC = layout.RECORD_BATCH.offset_of("crc")
_AT_ATTRIBUTES = layout.RECORD_BATCH.offset_of("attributes")
_RECORD_BYTES = 40
"""The most bytes of a record beside key, value and headers: seven numbers, one of up to ten
bytes."""
_BOUNDS = {
    **FIELD_BOUNDS,
    "batch_records": (1, (1 << 31) - 1),
    "batch_bytes": (1, limits.BATCH_SIZE_BYTES_MAX),
    "max_timestamp_ms": (-1, (1 << 63) - 1),
}
_BY_COLUMN = {name: place for place, name in enumerate(kernel.ROW)}


@dataclass(frozen=True, slots=True)
class EncodedBatches:
    """Consecutive batches in `data` (uint8), and their columns. Positions count from the start of
    `data`."""

    data: ByteArray
    columns: BatchColumns


class BatchSettings(TypedDict, total=False):
    """The keyword arguments of `encode_columns` and `iter_encoded`; defaults as in `encode_batch`.

    With `batch_records` a batch ends after that many records, whatever their size. Otherwise it
    ends before the record that would make it larger than `batch_bytes` (default 16384; header plus
    uncompressed records), but a single record may be larger. `base_sequence` is the first record's
    sequence number; the others follow, with 0 after 2^31 - 1. `max_timestamp_ms` is the append
    time, given if and only if `timestamp_type` is LogAppendTime.
    """

    compression: Compression
    batch_records: int | None
    batch_bytes: int
    leader_epoch: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    is_transactional: bool
    timestamp_type: TimestampType
    max_timestamp_ms: int | None


BATCH_OPTIONS = tuple(BatchSettings.__annotations__)
"""The names of `BatchSettings`."""


@dataclass(frozen=True, slots=True)
class _Settings:
    """`BatchSettings` with its values checked."""

    compression: Compression = Compression.NONE
    batch_records: int | None = None
    batch_bytes: int = BATCH_BYTES
    leader_epoch: int = 0
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH
    base_sequence: int = NO_SEQUENCE
    is_transactional: bool = False
    timestamp_type: TimestampType = TimestampType.CREATE_TIME
    max_timestamp_ms: int | None = None

    def __post_init__(self) -> None:
        require_within(
            _BOUNDS,
            batch_records=self.batch_records,
            batch_bytes=self.batch_bytes,
            leader_epoch=self.leader_epoch,
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            base_sequence=self.base_sequence,
            max_timestamp_ms=self.max_timestamp_ms,
        )
        require_bool("is_transactional", self.is_transactional)
        check_producer(self.producer_id, self.producer_epoch, self.base_sequence, self.is_transactional, False)
        if (self.timestamp_type is TimestampType.LOG_APPEND_TIME) != (self.max_timestamp_ms is not None):
            raise UsageError("max_timestamp_ms and LogAppendTime go together", hint="give both or neither")

    @property
    def attributes(self) -> int:
        """The attributes of every batch."""
        append_time = self.timestamp_type is TimestampType.LOG_APPEND_TIME
        return (
            self.compression.value
            | layout.BATCH_LOG_APPEND_TIME * append_time
            | layout.BATCH_TRANSACTIONAL * self.is_transactional
        )


def encode_columns(
    table: pa.Table | pa.RecordBatch, *, base_offset: int, **settings: Unpack[BatchSettings]
) -> EncodedBatches:
    """Encodes all rows of `table` as batches with consecutive offsets from `base_offset`.

    Columns: `key`, `value` (binary, nullable), `timestamp_ms` (int64) and optionally `headers`
    (lists of structs of `key` and `value`). Uses as much memory again as the table; for large
    tables `iter_encoded` is faster. Raises `UsageError` for columns of another type and for records
    that no batch can hold.
    """
    encoder = _Encoder(table, base_offset, _settings(settings))
    return encoder.next_piece(encoder.size_bytes_max, may_grow=True)


def iter_encoded(
    table: pa.Table | pa.RecordBatch,
    *,
    base_offset: int,
    piece_bytes: int = PIECE_BYTES,
    **settings: Unpack[BatchSettings],
) -> Iterator[EncodedBatches]:
    """Yields the bytes of `encode_columns` in pieces of whole batches.

    A piece has up to `piece_bytes` bytes, or up to twice the size of a batch that is larger. Memory
    is bounded by the piece and a slice of the table. A yielded piece belongs to the caller and is
    not written to later.
    """
    encoder = _Encoder(table, base_offset, _settings(settings))
    while encoder.row < encoder.rows:
        yield encoder.next_piece(piece_bytes, may_grow=False)


def _settings(given: BatchSettings) -> _Settings:
    unknown = ", ".join(sorted(given.keys() - set(BATCH_OPTIONS)))
    if unknown:
        raise UsageError(f"unknown option {unknown}", hint=f"options are {', '.join(BATCH_OPTIONS)}")
    return _Settings(**given)


class _Encoder:
    """Encodes one table; `row` (of `rows`) is encoded next. Not thread-safe."""

    def __init__(self, table: pa.Table | pa.RecordBatch, base_offset: int, settings: _Settings) -> None:
        self._table = check_table(table)
        self._settings = settings
        self._base_offset = base_offset
        self._sequence = settings.base_sequence
        self._compressor = Compressor(settings.compression.value)
        self._scratch = np.empty(_SCRATCH_BYTES if self._compressor.function else 0, np.uint8)
        self._table_rows = np.empty((_ROWS, len(kernel.ROW)), np.int64)
        self._state = np.zeros(kernel.STATE_SIZE, np.int64)
        self._slice: RecordSlice | None = None
        self._slice_factor = 1
        self.row = 0
        self.rows = int(self._table.num_rows)
        if not 0 <= base_offset <= (1 << 63) - 1 - self.rows:
            raise UsageError(f"base_offset is {base_offset}: there are not enough offsets for {self.rows} records")

    @property
    def size_bytes_max(self) -> int:
        """An estimate of the bytes of all batches, which is almost always enough."""
        batches = self.rows // (self._settings.batch_records or 1) + 1
        size = int(self._table.nbytes) + self.rows * _RECORD_BYTES + batches * _HEAD_SIZE
        return size + size // 128 + (1 << 16)

    def next_piece(self, size_bytes: int, *, may_grow: bool) -> EncodedBatches:
        """Encodes batches from `row` on, until `size_bytes` bytes are used; `may_grow`: all
        rows."""
        out, used = np.empty(size_bytes, np.uint8), 0
        parts: list[Int64s] = []
        while self.row < self.rows:
            reason = self._run(out[used:])
            _, batches, size, needed, _ = self._state.tolist()
            part = self._table_rows[:batches].copy()
            part[:, 0] += used
            parts.append(part)
            used += size
            if reason == kernel.OUTPUT_FULL:
                if used and not may_grow:
                    break
                grown = np.empty(max(2 * out.size, used + needed), np.uint8)
                grown[:used] = out[:used]
                out = grown
            elif reason == kernel.SCRATCH_FULL:
                self._scratch = np.empty(max(2 * self._scratch.size, needed), np.uint8)
            elif reason == kernel.TOO_LARGE:
                raise UsageError(
                    f"the batch from record {self.row} on would have more than {self._records_size_max} bytes",
                    hint="give fewer batch_records; no batch can hold a larger record",
                )
            elif reason == kernel.REFUSED:
                raise LogdexError(f"the {self._settings.compression.label} library refused to compress a batch")
        table = np.concatenate(parts) if parts else np.zeros((0, len(kernel.ROW)), np.int64)
        data = out[:used]
        if self._settings.compression is not Compression.NONE and not self._compressor.function:
            data = self._compressed(data, table)
        return EncodedBatches(data, self._columns(table))

    def _run(self, out: ByteArray) -> int:
        """Calls the kernel once: it encodes batches from `row` on to `out`.

        Returns why it stopped; `_state` has the details.
        """
        if self._slice is None:
            self._slice = read_slice(self._table, self.row, self._slice_factor)
        start, records = self._slice.start, self._slice.records
        reason = self._encode(records, self.row - start, out)
        taken = int(self._state[kernel.RECORDS]) + start - self.row
        self.row += taken
        self._sequence = int(self._state[kernel.SEQUENCE])
        if reason == kernel.INPUT_END:
            # A batch is longer than the slice, so that none was complete.
            self._slice_factor = self._slice_factor * 2 if self.row == start else 1
            self._slice = None
        return int(reason)

    def _encode(self, records: kernel.Records, first: int, out: ByteArray) -> int:
        settings, crcs, codec = self._settings, crc_sources(), self._compressor
        assert self._slice is not None
        rule = kernel.BatchRule(
            batch_records=settings.batch_records or (1 << 31) - 1,
            batch_bytes=1 << 40 if settings.batch_records else settings.batch_bytes,
            is_final=int(self._slice.start + records.count == self.rows),
            base_offset=self._base_offset + self._slice.start,
            leader_epoch=settings.leader_epoch,
            attributes=settings.attributes,
            producer_id=settings.producer_id,
            producer_epoch=settings.producer_epoch,
            base_sequence=self._sequence,
            append_timestamp=kernel.NO_APPEND_TIMESTAMP
            if settings.max_timestamp_ms is None
            else settings.max_timestamp_ms,
        )
        target = kernel.Target(
            out=out.ctypes.data,
            out_size=out.size,
            records_size_max=self._records_size_max,
            scratch=self._scratch.ctypes.data,
            scratch_size=self._scratch.size,
            rows=self._table_rows.ctypes.data,
            rows_max=_ROWS,
            codec=codec.codec if codec.function else CODEC_NONE,
            compress_function=codec.function,
            compress_context=codec.context,
            crc_function=crcs.crc32c_function,
            crc_table=crcs.crc32c_table,
        )
        return int(kernel.encode_records(records, first, rule, target, self._state.ctypes.data))

    @property
    def _records_size_max(self) -> int:
        """The most bytes of a batch's records that readers will decompress."""
        if self._settings.compression is Compression.NONE:
            return limits.BATCH_SIZE_BYTES_MAX - _HEAD_SIZE
        return limits.BATCH_DECOMPRESSED_SIZE_BYTES_MAX

    def _compressed(self, data: ByteArray, table: Int64s) -> ByteArray:
        """Compresses batches that the kernel left uncompressed, and updates `table`."""
        parts: list[bytes] = []
        position = 0
        for row in table:
            start, end = int(row[_BY_COLUMN["position"]]), int(row[_BY_COLUMN["position"]] + row[_BY_COLUMN["size"]])
            head = bytearray(data[start : start + _HEAD_SIZE])
            body = compress(self._settings.compression, data[start + _HEAD_SIZE : end].tobytes())
            size = _HEAD_SIZE + len(body)
            head[_AT_LENGTH : _AT_LENGTH + 4] = (size - layout.LOG_OVERHEAD_SIZE_BYTES).to_bytes(4, "big")
            crc = crc32c(bytes(head[_AT_ATTRIBUTES:]) + body)
            head[_AT_CRC : _AT_CRC + 4] = crc.to_bytes(4, "big")
            parts += bytes(head), body
            row[_BY_COLUMN["position"]], row[_BY_COLUMN["size"]], row[_BY_COLUMN["crc"]] = position, size, crc
            position += size
        return np.frombuffer(b"".join(parts), np.uint8)

    def _columns(self, table: Int64s) -> BatchColumns:
        """The kernel's rows and the fields that all batches share, as columns."""
        settings = self._settings
        shared = {
            "producer_id": settings.producer_id,
            "control_timestamp_ms": -1,
            "leader_epoch": settings.leader_epoch,
            "magic": layout.MAGIC_V2,
            "attributes": settings.attributes,
            "producer_epoch": settings.producer_epoch,
            "control_type": -1,
            "coordinator_epoch": -1,
        }

        def column(name: str) -> npt.NDArray[Any]:
            kind = np.int64 if name in WIDE_COLUMNS else np.int32
            if name in shared:
                return np.full(len(table), shared[name], kind)
            return np.ascontiguousarray(table[:, _BY_COLUMN[name]], kind)

        return BatchColumns(*map(column, BatchColumns._fields))
