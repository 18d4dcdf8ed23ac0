"""Records as Arrow columns: a log read in bounded memory, checked, decompressed and decoded in one pass.

Reading ends where a scan ends (`logdex.kafka.scan`): at the end, at what is torn off, at zeros. A batch that is wrong
is a located error, or goes to a callback and is passed over.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pyarrow as pa

from logdex import limits
from logdex.errors import CorruptError, UsageError
from logdex.io.env import DEFAULT_ENV, ByteArray, Env
from logdex.kafka import compression as codecs
from logdex.kafka.record import Compression, Record
from logdex.kafka.record_batch import RecordBatch, decode_batch
from logdex.kafka.record_source import BytesSource, Chunk, FileSource, RecordSource
from logdex.kafka.record_window import PER_BATCH_COLUMNS, RecordWindow, records_to_batch
from logdex.kafka.record_window import RECORD_SCHEMA as RECORD_SCHEMA
from logdex.kafka.scan import EndKind, ScanEnd, find_next_batch, scan_end
from logdex.kernels import batch_scan
from logdex.kernels import record_decode as kernel
from logdex.kernels.batch_columns import make_batch_columns
from logdex.kernels.codec_functions import LZ4_BLOCK_SIZE_BYTES, Decompressors
from logdex.kernels.crc32c import crc_sources
from logdex.layout import BATCH_CONTROL, RECORD_BATCH

OnBadBatch = Callable[[CorruptError], None]

WINDOW_BYTES = 4 << 20
_SCAN_BATCHES = 4_096
_ROWS_PER_BYTE = 1 / 32
_ARENA_BYTES = 1 << 20
_LEGACY_ROWS = 16_384
_HEADERS = 4_096


def read_record_batches(
    path_or_data: str | bytes | ByteArray,
    *,
    start: int = 0,
    stop: int | None = None,
    columns: Iterable[str] | None = None,
    check_crc: bool = True,
    skip_control: bool = True,
    window_bytes: int = WINDOW_BYTES,
    on_bad_batch: OnBadBatch | None = None,
    decompressed_size_bytes_max: int = limits.BATCH_DECOMPRESSED_SIZE_BYTES_MAX,
    path: str | None = None,
    env: Env = DEFAULT_ENV,
) -> Generator[pa.RecordBatch, None, ScanEnd]:
    """Records of the batches that begin in bytes [start, stop) of a .log or of bytes in memory, as Arrow batches.

    `start` is a batch's first byte. `columns` names those of `RECORD_SCHEMA` that are wanted, in the order wanted;
    others cost nothing. A batch of the result holds about `window_bytes` of keys, values or headers at most, or one
    batch of the log. Memory is bounded by that and by the largest batch, which must not exceed
    `decompressed_size_bytes_max`. `path` names bytes in errors.

    Raises `CorruptError` (after the records before it) for a batch that is wrong, unless `on_bad_batch` takes it: then
    reading goes on at the next good batch. Returns, as a scan does, where and why the good batches end.
    """
    schema = _schema_of(columns)
    with _open_source(path_or_data, path, env) as source:
        reader = _Reader(
            source, schema, check_crc, skip_control, window_bytes, on_bad_batch, decompressed_size_bytes_max
        )
        return (yield from reader.read(start, source.size_bytes if stop is None else stop))


def _schema_of(columns: Iterable[str] | None) -> pa.Schema:
    if columns is None:
        return RECORD_SCHEMA
    names = list(columns)
    unknown = [name for name in names if name not in RECORD_SCHEMA.names]
    if unknown:
        raise UsageError(f"no column {unknown[0]!r}", hint=f"choose from {', '.join(RECORD_SCHEMA.names)}")
    return pa.schema([RECORD_SCHEMA.field(name) for name in names])


@contextmanager
def _open_source(path_or_data: str | bytes | ByteArray, path: str | None, env: Env) -> Iterator[RecordSource]:
    if isinstance(path_or_data, str):
        with env.open_read(path_or_data) as file:
            yield FileSource(file)
    else:
        data = np.frombuffer(path_or_data, np.uint8) if isinstance(path_or_data, bytes) else path_or_data
        yield BytesSource(data, path or "<bytes>")


class _Reader:
    """One pass over a source. `_state` is the kernel's, `_window` the one it fills."""

    def __init__(
        self,
        source: RecordSource,
        schema: pa.Schema,
        check_crc: bool,
        skip_control: bool,
        window_bytes: int,
        on_bad_batch: OnBadBatch | None,
        size_bytes_max: int,
    ) -> None:
        self._source = source
        self._schema = schema
        self._per_batch = bool(set(schema.names) & PER_BATCH_COLUMNS)
        self._check_crc = int(check_crc)
        self._skip_control = int(skip_control)
        self._window_bytes = max(window_bytes, 1 << 12)
        self._on_bad_batch = on_bad_batch
        self._size_bytes_max = size_bytes_max
        self._crcs = crc_sources()
        self._columns = make_batch_columns(_SCAN_BATCHES)
        places = [column.ctypes.data for column in self._columns]
        self._addresses = batch_scan.ColumnAddresses._make([*places, _SCAN_BATCHES])
        self._scan_state = np.zeros(batch_scan.STATE_SIZE, np.int64)
        self._state = np.zeros(kernel.STATE_SIZE, np.int64)
        self._decompressors = Decompressors()
        self._arena = np.empty(_ARENA_BYTES + kernel.SLACK, np.uint8)
        self._given: ByteArray | None = None
        self._legacy: list[Record] = []
        self._headers = 0
        self._window = RecordWindow(schema, 0, 0, 0)

    def read(self, start: int, stop: int) -> Generator[pa.RecordBatch, None, ScanEnd]:
        """Goes through the chunks; behind damage, on from the next good batch where someone takes the error."""
        position = start
        while True:
            chunk = self._source.chunk(position)
            position, reason = yield from self._read_chunk(chunk, position, stop)
            is_cut = reason in (batch_scan.FILE_END, batch_scan.TORN) and chunk.end < self._source.size_bytes
            if is_cut and position > chunk.position:
                continue
            with self._source.whole() as data:
                end = scan_end(data, position, reason, self._source.path)
                error = end.error if end.kind in (EndKind.CORRUPT, EndKind.TORN) else None
                following = -1 if error is None or self._on_bad_batch is None else find_next_batch(data, position)
            if error is not None and (following >= 0 or end.kind is EndKind.CORRUPT):
                yield from self._refuse(error)
            if following < 0:
                yield from self._flush()
                return end
            position = following

    def _read_chunk(self, chunk: Chunk, position: int, stop: int) -> Generator[pa.RecordBatch, None, tuple[int, int]]:
        """Decodes the whole batches of a chunk; where the scan of it stopped, and why."""
        scanned = self._scan_state
        while True:
            scanned[batch_scan.POSITION] = position
            batch_scan.scan_window(
                chunk.base, chunk.end, stop, self._check_crc, scanned.ctypes.data, self._addresses, self._crcs
            )
            position, count, reason = (int(place) for place in scanned)
            yield from self._decode(chunk, count)
            if reason != batch_scan.WINDOW_FULL:
                return position, reason

    def _decode(self, chunk: Chunk, count: int) -> Iterator[pa.RecordBatch]:
        """Puts the first `count` batches of the columns out."""
        state = self._state
        state[kernel.NEXT] = state[kernel.GIVEN] = 0
        while True:
            first = int(state[kernel.NEXT])
            kernel.decode_batches(count, self._addresses, self._window.targets, self._sources(chunk), state.ctypes.data)
            batch, reason = int(state[kernel.NEXT]), int(state[kernel.REASON])
            self._note(first, batch)
            if reason == kernel.DONE:
                return
            if reason in (kernel.FULL, kernel.HEADERS_FULL):
                yield from self._make_room(reason)
                continue
            try:
                if reason == kernel.PLEASE_GIVE:
                    self._give(self._batch(chunk, batch))
                    continue
                if reason == kernel.LEGACY:
                    yield from self._take_legacy(self._batch(chunk, batch))
                else:
                    self._explain(self._batch(chunk, batch))
            except CorruptError as error:
                yield from self._refuse(error)
            state[kernel.NEXT] = batch + 1
            state[kernel.GIVEN] = 0

    def _sources(self, chunk: Chunk) -> kernel.Sources:
        """What the kernel reads from."""
        codecs_there = self._decompressors
        return kernel.Sources(
            base=chunk.base,
            readable_end=chunk.base + chunk.end,
            arena=self._arena.ctypes.data,
            arena_room=self._arena.size - kernel.SLACK,
            lz4_function=codecs_there.lz4_function,
            zstd_function=codecs_there.zstd_function,
            zstd_context=codecs_there.zstd_context,
            skip_control=self._skip_control,
        )

    def _note(self, first: int, batch: int) -> None:
        """Keeps what batches [first, batch) of the columns say for all their records."""
        if not self._per_batch or first == batch:
            return
        c, these = self._columns, slice(first, batch)
        attributes = c.attributes[these].copy()
        counts = c.count[these].copy()
        if self._skip_control:
            counts[attributes & BATCH_CONTROL != 0] = 0
        others = (column[these].copy() for column in (c.leader_epoch, c.producer_id, c.producer_epoch))
        self._window.note_batches(counts, attributes, *others)

    def _make_room(self, reason: int) -> Iterator[pa.RecordBatch]:
        """A new window, with room for the batch that is next at least."""
        state = self._state
        is_first = state[kernel.ROWS] == 0
        if reason == kernel.HEADERS_FULL:
            most = self._window_bytes // 8
            self._headers = max(self._headers, min(max(4 * self._headers, _HEADERS), most))
            if is_first and self._window.headers >= self._headers:
                self._headers = 4 * self._window.headers
        yield from self._flush()
        rows = max(int(self._window_bytes * _ROWS_PER_BYTE), int(state[kernel.NEED_ROWS]))
        size = max(self._window_bytes, int(state[kernel.NEED_BYTES]))
        self._window = RecordWindow(self._schema, rows, size, self._headers)

    def _flush(self) -> Iterator[pa.RecordBatch]:
        """What has been decoded so far; the window is used up."""
        if self._legacy:
            yield records_to_batch(self._legacy, self._schema)
            self._legacy = []
        state = self._state
        if state[kernel.ROWS]:
            yield self._window.to_batch(state)
        state[kernel.ROWS : kernel.GIVEN] = 0
        self._window = RecordWindow(self._schema, 0, 0, 0)

    def _refuse(self, error: CorruptError) -> Iterator[pa.RecordBatch]:
        """Hands an error to the caller, after the records before it."""
        if self._on_bad_batch is None:
            yield from self._flush()
            raise error
        self._on_bad_batch(error)

    def _batch(self, chunk: Chunk, batch: int) -> RecordBatch:
        """Batch `batch` of the columns, as the scalar code has it."""
        position = int(self._columns.position[batch])
        raw = chunk.cut(position, int(self._columns.size[batch]))
        found, _ = decode_batch(raw, path=self._source.path, check_crc=False)
        return replace(found, position=position)

    def _give(self, batch: RecordBatch) -> None:
        """Gives the kernel the plain records of a batch that it cannot get at."""
        plain: bytes | memoryview = memoryview(batch.raw)[RECORD_BATCH.size_bytes :]
        if batch.compression is not Compression.NONE:
            plain = codecs.decompress(
                batch.compression,
                plain,
                size_bytes_max=self._size_bytes_max,
                path=self._source.path,
                position=batch.position,
            )
            needed = len(plain) + LZ4_BLOCK_SIZE_BYTES
            if needed > self._arena.size - kernel.SLACK:
                self._arena = np.empty((1 << needed.bit_length()) + kernel.SLACK, np.uint8)
        self._given = np.zeros(len(plain) + kernel.SLACK, np.uint8)
        self._given[: len(plain)] = np.frombuffer(plain, np.uint8)
        self._state[kernel.GIVEN] = self._given.ctypes.data
        self._state[kernel.GIVEN_SIZE] = len(plain)

    def _take_legacy(self, batch: RecordBatch) -> Iterator[pa.RecordBatch]:
        """The records of magic 0 and 1 go the slow way, gathered into Arrow batches of their own."""
        records = list(batch.records(size_bytes_max=self._size_bytes_max))
        if self._state[kernel.ROWS] or len(self._legacy) >= _LEGACY_ROWS:
            yield from self._flush()
        self._legacy += records

    def _explain(self, batch: RecordBatch) -> None:
        """Raises what is wrong with a batch that the kernel gave up."""
        for _ in batch.records(size_bytes_max=self._size_bytes_max):
            pass
        raise CorruptError("a record is not whole", path=self._source.path, position=batch.position, field="records")
