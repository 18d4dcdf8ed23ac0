"""A segment's .log: consecutive record batches, found by reading their headers.

Source: Kafka's FileRecords (once called FileMessageSet), FileLogInputStream;
``docs/formats/kafka-record-batch.md``. As in the broker, reading headers verifies no CRC.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from logdex import limits
from logdex.errors import CorruptError, StorageError, TruncatedError, UsageError
from logdex.io.env import DEFAULT_ENV, Env, MappedBytes, WriteFile
from logdex.io.open_files import OpenFiles
from logdex.io.path_look import StrPath, path_text
from logdex.kafka.batch.record import NO_LEADER_EPOCH, NO_TIMESTAMP
from logdex.kafka.batch.record_batch import RecordBatch, decode_batch
from logdex.layout.kafka import (
    LEGACY_RECORD_V0,
    LEGACY_RECORD_V1,
    LEGACY_SIZE_MIN_V0,
    LEGACY_SIZE_MIN_V1,
    LOG_OVERHEAD_SIZE_BYTES,
    MAGIC_V0,
    MAGIC_V1,
    MAGIC_V2,
    RECORD_BATCH,
)
from logdex.primitives.shown import counted, repr_of

UP_TO_MAGIC_SIZE_BYTES = RECORD_BATCH.offset_of("magic") + 1
"""The bytes of a batch up to its magic, which determine its size and format."""
_WINDOW = 4096
_LENGTH_MIN = {
    MAGIC_V0: LEGACY_SIZE_MIN_V0,
    MAGIC_V1: LEGACY_SIZE_MIN_V1,
    MAGIC_V2: RECORD_BATCH.size_bytes - LOG_OVERHEAD_SIZE_BYTES,
}


def stated_size(data: bytes, position: int) -> int:
    """The size that the batch at `position` of `data` states, with offset and length; it may be
    invalid."""
    return LOG_OVERHEAD_SIZE_BYTES + int.from_bytes(data[position + 8 : position + 12], "big", signed=True)


class BatchHeader(NamedTuple):
    """The header fields of a batch. `position` and `size_bytes` (of the whole batch) are in
    bytes."""

    position: int
    size_bytes: int
    base_offset: int
    last_offset: int
    max_timestamp_ms: int
    leader_epoch: int
    magic: int

    @property
    def end(self) -> int:
        """The position after the batch."""
        return self.position + self.size_bytes


class LogOffsetPosition(NamedTuple):
    """A batch: its base offset, its position in the file, its size."""

    offset: int
    position: int
    size_bytes: int


class TimestampAndOffset(NamedTuple):
    """A record, or a batch's last record: timestamp, offset, leader epoch of its batch (-1 for
    none)."""

    timestamp_ms: int
    offset: int
    leader_epoch: int = NO_LEADER_EPOCH


class FileRecords:
    """One .log file of at most 2^31 - 1 bytes. Thread-safety: one writer, any number of readers.

    `open_files` is a bounded set of open files that many segments share.
    """

    def __init__(
        self, path: StrPath, *, writable: bool = False, env: Env = DEFAULT_ENV, open_files: OpenFiles | None = None
    ) -> None:
        self.path = path = path_text(path)
        self._writable = writable
        self._env = env
        self._files = open_files if open_files is not None else OpenFiles(env, open_max=1)
        self._owns_files = open_files is None
        self._write_file: WriteFile | None = None
        self._renaming = threading.Lock()
        self.size_bytes = 0
        try:
            if writable and not env.exists(path):
                self._require_writable()
            self.refresh()
        except BaseException:
            self.close()
            raise

    def __repr__(self) -> str:
        return repr_of(self, repr(self.path), counted(self.size_bytes, "byte"))

    def refresh(self) -> int:
        """Reads the file's current size, which another process may change, and returns it."""
        with self._files.lend(self.path) as file:
            size = file.size_now()
            self.identity = file.identity
            """Identifies the file, whatever its path."""
        if size > limits.SEGMENT_SIZE_BYTES_MAX:
            raise CorruptError(
                "the file is too large for a segment",
                path=self.path,
                position=limits.SEGMENT_SIZE_BYTES_MAX,
                field="file size",
                expected=f"at most {limits.SEGMENT_SIZE_BYTES_MAX}",
                found=size,
            )
        self.size_bytes = size
        return size

    # -- reading ----------------------------------------------------------------------------------
    def read(self, position: int, size_bytes: int) -> bytes:
        """Returns up to `size_bytes` bytes from `position`; fewer where the file ends."""
        if position < 0 or size_bytes < 0:
            raise UsageError(f"{self.path}: cannot read {size_bytes} bytes at {position}")
        size_bytes = min(size_bytes, max(0, self.size_bytes - position))
        path = self.path
        try:
            return self._read_at(path, position, size_bytes)
        except StorageError:
            with self._renaming:
                if self.path == path:
                    raise
                return self._read_at(self.path, position, size_bytes)

    def _read_at(self, path: str, position: int, size_bytes: int) -> bytes:
        return self._files.read_at(path, position, size_bytes)

    def map(self) -> MappedBytes:
        """Maps the whole file for reading, a remote one partly. Close the mapping before the file
        is truncated."""
        return self._env.map_read(self.path, partly=True)

    def headers(self, position: int = 0, stop: int | None = None) -> Iterator[BatchHeader]:
        """Yields the headers of the batches from `position`, where a batch must begin, up to
        `stop`.

        `stop` is by default the file's end. As in Kafka, an incomplete last batch ends the
        iteration without an error. Raises `CorruptError` for an invalid header.
        """
        end = self.size_bytes if stop is None else min(stop, self.size_bytes)
        window, window_at = b"", position
        while position + UP_TO_MAGIC_SIZE_BYTES < end:
            at = position - window_at
            if at + RECORD_BATCH.size_bytes > len(window):
                window, window_at, at = self.read(position, _WINDOW), position, 0
            header = _parse_header(window, at, position, end, self.path)
            if header is None:
                return
            yield header
            position += header.size_bytes

    def last_header(self, position: int = 0) -> BatchHeader | None:
        """The last whole batch from `position`, where a batch must begin. Raises as `headers`
        does."""
        last = None
        for header in self.headers(position):
            last = header
        return last

    def search_for_offset(self, offset: int, position: int = 0) -> LogOffsetPosition | None:
        """The first batch from `position` on with a last offset of at least `offset`, or None."""
        for header in self.headers(position):
            if header.last_offset >= offset:
                return LogOffsetPosition(self.base_offset_of(header), header.position, header.size_bytes)
        return None

    def base_offset_of(self, header: BatchHeader) -> int:
        """The offset of a batch's first record. A wrapper of magic 0 or 1 is decompressed for
        it."""
        return header.base_offset if header.magic == MAGIC_V2 else self.batch_at(header.position).first_offset()

    def batch_at(self, position: int) -> RecordBatch:
        """The batch that begins at `position`, its CRC not verified. Raises `CorruptError` if none
        does."""
        header = next(self.headers(position), None)
        if header is None:
            raise TruncatedError("no complete batch begins here", path=self.path, position=position)
        batch, _ = decode_batch(self.read(position, header.size_bytes), path=self.path, check_crc=False)
        return replace(batch, position=position)

    def search_for_timestamp(
        self, timestamp_ms: int, position: int = 0, start_offset: int = 0
    ) -> TimestampAndOffset | None:
        """The first record from `position` on with these minimum timestamp and offset, or None.

        No CRC is verified. Raises `CorruptError` for records that cannot be decoded.
        """
        for header in self.headers(position):
            if header.max_timestamp_ms < timestamp_ms:
                continue
            found = self.first_record_from(header, timestamp_ms, start_offset)
            if found is not None:
                return found
        return None

    def first_record_from(self, header: BatchHeader, timestamp_ms: int, start_offset: int) -> TimestampAndOffset | None:
        """The first record of one batch with these minimum timestamp and offset, or None."""
        for record in self.batch_at(header.position).records():
            if record.timestamp_ms >= timestamp_ms and record.offset >= start_offset:
                return TimestampAndOffset(record.timestamp_ms, record.offset, header.leader_epoch)
        return None

    def largest_timestamp_after(self, position: int) -> TimestampAndOffset:
        """The largest timestamp of the batches from `position` on, and the first such batch's last
        offset."""
        largest = TimestampAndOffset(NO_TIMESTAMP, -1)
        for header in self.headers(position):
            if header.max_timestamp_ms > largest.timestamp_ms:
                largest = TimestampAndOffset(header.max_timestamp_ms, header.last_offset, header.leader_epoch)
        return largest

    # -- writing ----------------------------------------------------------------------------------
    def _require_writable(self) -> WriteFile:
        if not self._writable:
            raise UsageError(f"{self.path}: opened for reading only", hint="open it with writable=True")
        if self._write_file is None:
            self._write_file = self._env.open_write(self.path)
        return self._write_file

    def append(self, data: bytes | memoryview) -> int:
        """Appends whole batches and returns the position of the first.

        After an error the size is unchanged, and a later append overwrites what was written.
        """
        file = self._require_writable()
        if len(data) > limits.SEGMENT_SIZE_BYTES_MAX - self.size_bytes:
            raise UsageError(
                f"{self.path}: {len(data)} bytes after {self.size_bytes} are more than a segment can hold",
                hint="roll the segment first",
            )
        position = self.size_bytes
        file.write_at(position, data)
        self.size_bytes = position + len(data)
        return position

    def truncate_to(self, size_bytes: int) -> int:
        """Truncates the file and returns the number of bytes removed."""
        file = self._require_writable()
        if not 0 <= size_bytes <= self.size_bytes:
            raise UsageError(
                f"{self.path}: cannot be truncated to {size_bytes} bytes, because it has {self.size_bytes}"
            )
        dropped = self.size_bytes - size_bytes
        if self._env.size_bytes(self.path) > size_bytes:  # also removes what a failed append wrote
            file.truncate(size_bytes)
        self.size_bytes = size_bytes
        return dropped

    def flush(self) -> None:
        """Writes the file's data to disk (fsync)."""
        self._require_writable().sync()

    def rename(self, path: StrPath) -> None:
        """Renames the file. Concurrent readers of this object continue with the new name."""
        name = path_text(path)
        with self._renaming:
            self.release()
            before = self.path
            self._env.rename(before, name)
            self.path = name
            self._files.forget(before)  # a reader may have reopened the old name, which may soon belong to another file

    def release(self) -> None:
        """Closes the descriptors of a file that is no longer written. Later use opens it again."""
        self._files.forget(self.path)
        if self._write_file is not None:
            self._write_file.close()
            self._write_file = None

    def close(self) -> None:
        """Closes the file without syncing it."""
        self.release()
        if self._owns_files:
            self._files.close()

    def __enter__(self) -> FileRecords:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _parse_header(window: bytes, at: int, position: int, end: int, path: str) -> BatchHeader | None:
    """Decodes the header at `window[at:]`; None if the file ends within the batch.

    `position` is the batch's position in the file.
    """
    if len(window) - at < UP_TO_MAGIC_SIZE_BYTES:
        raise _shrunk(path)
    total = stated_size(window, at)
    length, magic = total - LOG_OVERHEAD_SIZE_BYTES, window[at + UP_TO_MAGIC_SIZE_BYTES - 1]
    if length < LEGACY_SIZE_MIN_V0:
        raise _bad(path, position + 8, "length", f"at least {LEGACY_SIZE_MIN_V0}", length)
    if position + total > end:
        return None
    if magic > MAGIC_V2:
        raise _bad(path, position + 16, "magic", "0, 1 or 2", magic)
    if length < _LENGTH_MIN[magic]:
        raise _bad(path, position + 8, "length", f"at least {_LENGTH_MIN[magic]}", length)
    if len(window) - at < LOG_OVERHEAD_SIZE_BYTES + _LENGTH_MIN[magic]:
        raise _shrunk(path)
    if magic == MAGIC_V2:
        fields = RECORD_BATCH.struct.unpack_from(window, at)
        return BatchHeader(position, total, fields[0], fields[0] + fields[6], fields[8], fields[2], magic)
    if magic == MAGIC_V1:
        fields = LEGACY_RECORD_V1.struct.unpack_from(window, at)
        return BatchHeader(position, total, fields[0], fields[0], fields[5], NO_LEADER_EPOCH, magic)
    offset = LEGACY_RECORD_V0.struct.unpack_from(window, at)[0]
    return BatchHeader(position, total, offset, offset, NO_TIMESTAMP, NO_LEADER_EPOCH, magic)


def _shrunk(path: str) -> StorageError:
    return StorageError("the file was truncated by another process while it was read", path=path, hint="open it again")


def _bad(path: str, position: int, field: str, expected: str, found: int) -> CorruptError:
    return CorruptError(
        "no batch begins here",
        path=path,
        position=position,
        field=field,
        expected=expected,
        found=found,
        hint="logdex verify shows the damage",
    )
