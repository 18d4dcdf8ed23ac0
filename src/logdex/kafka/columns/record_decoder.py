"""Decodes scanned batches to Arrow batches: runs the decode kernel, and handles what it cannot
decode."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TypeAlias

import numpy as np

from logdex import limits
from logdex.errors import CorruptError
from logdex.frames.arrow import pa
from logdex.io.mapped.byte_array import ByteArray
from logdex.io.mapped.mapping import require_readable
from logdex.kafka.batch import compression as codecs
from logdex.kafka.batch.record import Compression, Record
from logdex.kafka.batch.record_batch import RecordBatch, decode_batch
from logdex.kafka.columns.plain_records import PlainRecords
from logdex.kafka.columns.record_window import PER_BATCH_COLUMNS, RecordWindow, records_to_batch, schema_of
from logdex.kernels.compiled import add_plain_work, is_plain_quicker
from logdex.kernels.kafka import record_decode as kernel
from logdex.kernels.kafka.batch_columns import BatchColumns
from logdex.kernels.kafka.batch_scan import ColumnAddresses
from logdex.kernels.kafka.decompress import LZ4_BLOCK_SIZE_BYTES, Decompressors
from logdex.layout.kafka import BATCH_CODEC_MASK, BATCH_CONTROL, RECORD_BATCH

OnBadBatch = Callable[[CorruptError], None]
"""Called with the error of a batch that is skipped."""

Rows: TypeAlias = "pa.RecordBatch | PlainRecords"

_WINDOW_BYTES_MIN = 1 << 12
_WINDOW_BYTES_MAX = 1 << 30
"""Arrow's offsets are int32."""
_BYTES_PER_ROW = 32
"""A window of n bytes has room for n / 32 rows: a third of its memory, untouched until it is
used."""
_ARENA_BYTES = 1 << 20
_SINGLE_ROWS = 16_384
_HEADERS = 4_096
_FEW = 2_000
"""So many records are decoded one by one if Numba is not there yet."""
_RECORD_US = 20
"""About how long one of them takes."""


class RecordDecoder:
    """Decodes batches of the log `data`, in order, to the columns `names`. For one thread, because
    it has a zstd context.

    Rows accumulate in a window until it is full, so call `flush` at the end. With `plain`, what is
    decoded record by record is yielded as `PlainRecords`.
    """

    def __init__(
        self,
        data: ByteArray,
        path: str,
        names: Sequence[str],
        *,
        skip_control: bool,
        window_bytes: int,
        on_bad_batch: OnBadBatch | None,
        size_bytes_max: int,
        plain: bool = False,
    ) -> None:
        self._data = data
        self._path = path
        self._names = names
        self._plain = plain
        self._skip_control = skip_control
        self._window_bytes = min(max(window_bytes, _WINDOW_BYTES_MIN), _WINDOW_BYTES_MAX)
        self._on_bad_batch = on_bad_batch
        self._size_bytes_max = min(size_bytes_max, limits.BATCH_SIZE_BYTES_MAX)
        self._needs_pieces = bool(set(names) & PER_BATCH_COLUMNS)
        self._decompressors = Decompressors()
        self._arena = np.empty(_ARENA_BYTES + kernel.SLACK, np.uint8)
        self._given: ByteArray | None = None
        self._read_from = self._read_to = 0
        self._single: list[Record] = []
        self._single_bytes = 0
        self._headers = 0
        self._state = np.zeros(kernel.STATE_SIZE, np.int64)
        self._window: RecordWindow | None = None
        self._sources = self._make_sources()

    @property
    def goes_on(self) -> bool:
        """Whether bad batches are skipped."""
        return self._on_bad_batch is not None

    def decode(self, columns: BatchColumns, addresses: ColumnAddresses, count: int) -> Iterator[Rows]:
        """Decodes the first `count` batches of `columns`, whose arrays are at `addresses`."""
        self._read_from, self._read_to = (int(columns.position[0]), _end(columns, count - 1)) if count else (0, 0)
        if count and is_plain_quicker() and columns.count[:count].min() >= 0 and columns.count[:count].sum() <= _FEW:
            yield from self._decode_few(columns, count)
            return
        state = self._state
        state[kernel.NEXT] = state[kernel.GIVEN] = 0
        while True:
            first = int(state[kernel.NEXT])
            if self._window is None:
                self._window = RecordWindow(schema_of(self._names), 0, 0, 0)
            kernel.decode_batches(count, addresses, self._window.targets, self._sources, state.ctypes.data)
            batch, reason = int(state[kernel.NEXT]), int(state[kernel.REASON])
            if self._needs_pieces and batch > first:
                self._note(self._window, columns, first, batch)
            if reason == kernel.DONE:
                require_readable(self._data, self._read_from, self._read_to)
                return
            if reason in (kernel.FULL, kernel.HEADERS_FULL):
                yield from self._make_room(self._window, reason)
                continue
            try:
                if reason == kernel.PLEASE_GIVE:
                    self._give(columns, batch)
                    continue
                if reason == kernel.LEGACY:
                    yield from self._take_records(self._batch(columns, batch))
                else:
                    self._explain(self._batch(columns, batch))
            except CorruptError as error:
                error.end_position = _end(columns, batch)
                yield from self.refuse(error)
            state[kernel.NEXT] = batch + 1
            state[kernel.GIVEN] = 0

    def _decode_few(self, columns: BatchColumns, count: int) -> Iterator[Rows]:
        """Decodes a few batches record by record, without the kernel, and yields them at once."""
        for batch in range(count):
            if self._skip_control and columns.magic[batch] == 2 and columns.attributes[batch] & BATCH_CONTROL:
                continue
            try:
                yield from self._take_records(self._batch(columns, batch))
            except CorruptError as error:
                error.end_position = _end(columns, batch)
                yield from self.refuse(error)
            add_plain_work(_RECORD_US * int(columns.count[batch]))
        yield from self.flush()

    def flush(self) -> Iterator[Rows]:
        """Yields the rows that were decoded but not yet yielded, and empties the window. Raises
        `UnreadableError` if the file was truncated while the last batches were decoded."""
        require_readable(self._data, self._read_from, self._read_to)
        if self._single:
            yield PlainRecords(self._single) if self._plain else records_to_batch(self._single, schema_of(self._names))
            self._single, self._single_bytes = [], 0
        state = self._state
        if state[kernel.ROWS] and self._window is not None:
            yield self._window.to_batch(state)
        state[kernel.ROWS : kernel.GIVEN] = 0
        self._window = None

    def refuse(self, error: CorruptError) -> Iterator[Rows]:
        """Passes an error to the callback; without one, raises it after the records before it."""
        if self._on_bad_batch is None:
            yield from self.flush()
            raise error
        self._on_bad_batch(error)

    def _make_sources(self) -> kernel.Sources:
        base = int(self._data.ctypes.data)
        return kernel.Sources(
            base=base,
            readable_end=base + self._data.size,
            arena=self._arena.ctypes.data,
            arena_room=min(self._arena.size - kernel.SLACK, self._size_bytes_max),
            lz4_function=self._decompressors.lz4_function,
            zstd_function=self._decompressors.zstd_function,
            zstd_context=self._decompressors.zstd_context,
            skip_control=int(self._skip_control),
        )

    def _note(self, window: RecordWindow, columns: BatchColumns, first: int, batch: int) -> None:
        """Records the header fields of batches [first, batch) for all their records."""
        these = slice(first, batch)
        counts, attributes = columns.count[these].copy(), columns.attributes[these].copy()
        if self._skip_control:
            counts[attributes & BATCH_CONTROL != 0] = 0
        others = (columns.leader_epoch, columns.producer_id, columns.producer_epoch)
        window.note_batches(counts, attributes, *(column[these].copy() for column in others))

    def _make_room(self, window: RecordWindow, reason: int) -> Iterator[Rows]:
        """Yields the window's rows and makes a new one, with room for at least the next batch."""
        state = self._state
        if reason == kernel.HEADERS_FULL:
            # a window exceeds its header limit only for a batch that is alone in it
            most = self._window_bytes // 8
            more = max(4 * window.headers, _HEADERS)
            self._headers = max(self._headers, min(more, most) if state[kernel.ROWS] else more)
        rows = max(self._window_bytes // _BYTES_PER_ROW, int(state[kernel.NEED_ROWS]))
        size = max(self._window_bytes, int(state[kernel.NEED_BYTES]))
        yield from self.flush()
        self._window = RecordWindow(schema_of(self._names), rows, size, self._headers)

    def _batch(self, columns: BatchColumns, batch: int) -> RecordBatch:
        """Batch `batch` of the columns as a `RecordBatch`."""
        position, size = int(columns.position[batch]), int(columns.size[batch])
        raw = self._data[position : position + size].tobytes()
        found, _ = decode_batch(raw, path=self._path, check_crc=False)
        return replace(found, position=position)

    def _give(self, columns: BatchColumns, batch: int) -> None:
        """Passes the kernel the uncompressed records of a batch that it cannot decompress
        itself."""
        position, size = int(columns.position[batch]), int(columns.size[batch])
        plain: ByteArray = self._data[position + RECORD_BATCH.size_bytes : position + size]
        codec = Compression(int(columns.attributes[batch]) & BATCH_CODEC_MASK)
        if codec is not Compression.NONE:
            inflated = codecs.decompress(
                codec, plain.tobytes(), size_bytes_max=self._size_bytes_max, path=self._path, position=position
            )
            plain = np.frombuffer(inflated, np.uint8)
            needed = plain.size + LZ4_BLOCK_SIZE_BYTES
            if needed > self._arena.size - kernel.SLACK:  # the kernel can decompress the next batch of this size itself
                self._arena = np.empty((1 << needed.bit_length()) + kernel.SLACK, np.uint8)
                self._sources = self._make_sources()
        self._given = np.zeros(plain.size + kernel.SLACK, np.uint8)
        self._given[: plain.size] = plain
        self._state[kernel.GIVEN] = self._given.ctypes.data
        self._state[kernel.GIVEN_SIZE] = plain.size

    def _take_records(self, batch: RecordBatch) -> Iterator[Rows]:
        """Decodes a batch record by record, into Arrow batches of its own."""
        records = list(batch.records(size_bytes_max=self._size_bytes_max))
        size = sum(len(record.key or b"") + len(record.value or b"") for record in records)
        is_full = len(self._single) >= _SINGLE_ROWS or self._single_bytes + size > self._window_bytes
        if self._state[kernel.ROWS] or is_full:
            yield from self.flush()
        self._single += records
        self._single_bytes += size

    def _explain(self, batch: RecordBatch) -> None:
        """Raises the error of a batch that the kernel refused."""
        for _ in batch.records(size_bytes_max=self._size_bytes_max):
            pass
        raise CorruptError("a record is malformed", path=self._path, position=batch.position, field="records")


def _end(columns: BatchColumns, batch: int) -> int:
    return int(columns.position[batch]) + int(columns.size[batch])
