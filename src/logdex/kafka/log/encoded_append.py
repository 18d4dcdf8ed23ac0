"""Encodes and compresses what is appended, before the log's lock is taken.

Source: Kafka's MemoryRecordsBuilder. A batch's CRC covers neither its base offset nor its leader
epoch, so these are set when the batch is written.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow.compute as pc

from logdex.errors import InvalidRecordError, UsageError
from logdex.kafka.batch.batch_writer import FIELD_BOUNDS, encode_batch, encode_end_marker
from logdex.kafka.batch.record import NO_TIMESTAMP, Compression, Record, TimestampType
from logdex.kafka.log.core import LogCore
from logdex.kafka.scan.scanner import BatchScanner, EndKind
from logdex.kernels.kafka.batch_columns import BatchColumns, join_columns, pick_columns
from logdex.layout.kafka import BATCH_LOG_APPEND_TIME, LOG_OVERHEAD_SIZE_BYTES, RECORD_BATCH
from logdex.primitives.crc32c import crc32c
from logdex.primitives.wrong_questions import give_whole_number, require_bool, require_given, require_within

_BYTES = (bytes, bytearray, memoryview)
_ONE_VALUE = (str, *_BYTES, Mapping)
"""Values that can be iterated over, but are no collections of records."""
_NO_HEADERS = Record().headers
"""Other headers are looked at, also none of another type."""
_AT_CRC = RECORD_BATCH.offset_of("crc")
_AT_ATTRIBUTES = RECORD_BATCH.offset_of("attributes")
_AT_MAX_TIMESTAMP = RECORD_BATCH.offset_of("max_timestamp_ms")


@dataclass(frozen=True, slots=True)
class EncodedAppend:
    """Batches to append, and their columns; `data` may be modified.

    With `is_client` they are checked as a producer's and get offsets; otherwise they are a
    replica's and keep theirs. `trusts_sequences` is as of `find_written`.
    """

    data: bytearray | memoryview
    columns: BatchColumns
    is_client: bool = True
    leader_epoch: int | None = None
    log_append_time_ms: int = NO_TIMESTAMP
    trusts_sequences: bool = False

    def without_first(self, batches: int) -> EncodedAppend:
        """Returns the append without its first `batches` batches, which must not be all."""
        start = int(self.columns.position[batches])
        columns = pick_columns(self.columns, slice(batches, None))
        columns = columns._replace(position=columns.position - start)
        return replace(self, data=memoryview(self.data)[start:], columns=columns)


def parse_compression(value: str | Compression) -> Compression:
    """Parses ``none``, ``gzip``, ``snappy``, ``lz4`` or ``zstd``; a `Compression` is returned
    unchanged.

    Raises `UsageError` for anything else.
    """
    if isinstance(value, Compression):
        return value
    try:
        return Compression[value.upper()]
    except (KeyError, AttributeError):
        raise UsageError(f"compression is {value!r}", hint="use none, gzip, snappy, lz4 or zstd") from None


def encode_records(
    core: LogCore,
    records: Record | Iterable[Record],
    *,
    compression: str | Compression,
    producer_id: int,
    producer_epoch: int,
    sequence: int,
    transactional: bool,
    leader_epoch: int | None,
) -> EncodedAppend:
    """Encodes records as one batch at offset 0.

    Raises `UsageError` and `InvalidRecordError` for records that this log cannot have.
    """
    kept = records_of(records)
    if not kept:
        raise InvalidRecordError("no records to append", path=core.path)
    require_keys(core, any(record.key is None for record in kept))
    now_ms = core.now_ms()
    stamped = [
        Record(each.key, each.value, now_ms if each.timestamp_ms == NO_TIMESTAMP else each.timestamp_ms, each.headers)
        for each in kept
    ]
    appended = core.config.message_timestamp_type == "LogAppendTime"
    if has_timestamp_bounds(core):
        times = [record.timestamp_ms for record in stamped]
        require_times(core, min(times), max(times), now_ms)
    data = encode_batch(
        stamped,
        base_offset=0,
        compression=parse_compression(compression),
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=sequence,
        is_transactional=transactional,
        timestamp_type=TimestampType.LOG_APPEND_TIME if appended else TimestampType.CREATE_TIME,
        max_timestamp_ms=now_ms if appended else None,
    )
    columns = columns_of_batch(data)
    return EncodedAppend(bytearray(data), columns, True, leader_epoch, now_ms if appended else NO_TIMESTAMP)


def records_of(records: Record | Iterable[Record]) -> list[Record]:
    """Returns what is appended as a list. Raises `UsageError` for anything but records, and for
    values that no record can have."""
    if isinstance(records, Record):
        kept = [records]
    elif isinstance(records, _ONE_VALUE) or not isinstance(records, Iterable):
        raise _no_record(records)
    else:
        kept = list(records)
    for record in kept:
        if (
            type(record) is not Record
            or type(record.value) is not bytes
            or (record.key is not None and type(record.key) is not bytes)
            or type(record.timestamp_ms) is not int
            or record.headers is not _NO_HEADERS
        ):
            _require_record(record)
    return kept


def _require_record(record: object) -> None:
    if not isinstance(record, Record):
        raise _no_record(record)
    for name in ("key", "value"):
        value: object = getattr(record, name)
        if value is not None and not isinstance(value, _BYTES):
            hint = f"encode text: {name}={value[:20]!r}.encode()" if isinstance(value, str) else None
            raise UsageError(f"a record's {name} must be bytes or None, not {type(value).__name__}", hint=hint)
    if not isinstance(record.timestamp_ms, int):
        raise UsageError(
            f"a record's timestamp_ms is {record.timestamp_ms!r}", hint=give_whole_number(record.timestamp_ms)
        )
    _require_headers(record.headers)


def _no_record(value: object) -> UsageError:
    return UsageError(f"only records can be appended, not {type(value).__name__}", hint="append(Record(value=b'...'))")


def _require_headers(headers: object) -> None:
    """Raises `UsageError` unless headers are pairs of a name and bytes or None."""
    hint = "headers=(('trace', b'1'),), because a name may occur more than once"
    if isinstance(headers, (Mapping, *_ONE_VALUE)) or not isinstance(headers, Sequence):
        raise UsageError(f"a record's headers are pairs, not {type(headers).__name__}", hint=hint)
    for pair in headers:
        is_pair = isinstance(pair, Sequence) and not isinstance(pair, _ONE_VALUE) and len(pair) == 2
        if not is_pair or not isinstance(pair[0], (str, bytes)) or not isinstance(pair[1], (*_BYTES, type(None))):
            raise UsageError(f"a record's header is {pair!r}, not a name with bytes or None", hint=hint)


def encode_marker(
    core: LogCore, *, commit: bool, producer_id: int, producer_epoch: int, coordinator_epoch: int, timestamp_ms: int
) -> EncodedAppend:
    """Encodes the control batch that ends a producer's transaction. Raises `UsageError` for what no
    marker can have."""
    require_bool("commit", commit, "give True to commit, False to abort")
    require_given(
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        coordinator_epoch=coordinator_epoch,
        timestamp_ms=timestamp_ms,
    )
    require_within(
        FIELD_BOUNDS, producer_id=producer_id, producer_epoch=producer_epoch, coordinator_epoch=coordinator_epoch
    )
    data = encode_end_marker(
        commit,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        coordinator_epoch=coordinator_epoch,
        offset=0,
        timestamp_ms=core.now_ms() if timestamp_ms == NO_TIMESTAMP else timestamp_ms,
    )
    return EncodedAppend(bytearray(data), columns_of(core, data))


def with_append_time(encoded: EncodedAppend, now_ms: int) -> EncodedAppend:
    """Sets the records' timestamps to the append time, in `encoded` itself."""
    set_max_timestamp(encoded, now_ms, BATCH_LOG_APPEND_TIME)
    return replace(encoded, is_client=True, log_append_time_ms=now_ms)


def set_max_timestamp(encoded: EncodedAppend, timestamp_ms: int, attributes: int = 0) -> None:
    """Sets the highest timestamp in the batches' headers, and adds `attributes`."""
    data, columns = encoded.data, encoded.columns
    view = memoryview(data)
    columns.attributes[:] |= attributes
    columns.max_timestamp_ms[:] = timestamp_ms
    for place, (position, size) in enumerate(zip(columns.position.tolist(), columns.size.tolist(), strict=True)):
        struct.pack_into(">H", data, position + _AT_ATTRIBUTES, int(columns.attributes[place]) & 0xFFFF)
        struct.pack_into(">q", data, position + _AT_MAX_TIMESTAMP, timestamp_ms)
        crc = crc32c(view[position + _AT_ATTRIBUTES : position + size])
        struct.pack_into(">I", data, position + _AT_CRC, crc)
        columns.crc[place] = crc


def columns_of(core: LogCore, raw: bytes, *, check_crc: bool = False) -> BatchColumns:
    """Scans batches to append. Raises `InvalidRecordError` for bytes that are not whole batches."""
    scanner = BatchScanner(check_crc=check_crc, window_batches=256, env=core.env)
    windows = [
        BatchColumns._make(column.copy() for column in window.columns)
        for window in scanner.scan_bytes(raw, path="<append>")
    ]
    end = scanner.end
    if end.kind is not EndKind.END:
        raise InvalidRecordError(f"{end.kind.value}: {end.reason}", path=core.path) from end.error
    if not windows:
        raise InvalidRecordError("no batch to append", path=core.path)
    return join_columns(windows)


def columns_of_batch(raw: bytes) -> BatchColumns:
    """The columns of one batch of magic 2, as a scan returns them, but faster."""
    (base_offset, length, epoch, magic, crc, attributes, last_delta, first_ms, last_ms, *producer) = (
        RECORD_BATCH.struct.unpack_from(raw)
    )
    producer_id, producer_epoch, sequence, count = producer
    wide = np.array([0, base_offset, base_offset + last_delta, first_ms, last_ms, producer_id, -1, crc], np.int64)
    size = LOG_OVERHEAD_SIZE_BYTES + length
    narrow = np.array([size, epoch, magic, attributes, producer_epoch, sequence, count, -1, -1], np.int32)
    return BatchColumns._make([*wide.reshape(-1, 1), *narrow.reshape(-1, 1)])


def require_keys(core: LogCore, is_keyless: bool) -> None:
    """Refuses a record without a key in a compacted log."""
    if is_keyless and core.config.is_compacted:
        raise InvalidRecordError("a compacted log accepts only records with a key", path=core.path)


def has_timestamp_bounds(core: LogCore) -> bool:
    """Whether the times of appended records are checked."""
    return core.timestamp_bounds_ms != (None, None)


def require_timestamps(core: LogCore, times: Any, now_ms: int) -> None:
    """As `require_times`, for a column of times. -1 is none."""
    if pc.min(times).as_py() == NO_TIMESTAMP:
        times = times.filter(pc.not_equal(times, NO_TIMESTAMP))
    if len(times):
        bounds = pc.min_max(times)
        require_times(core, bounds["min"].as_py(), bounds["max"].as_py(), now_ms)


def require_times(core: LogCore, first_ms: int, last_ms: int, now_ms: int) -> None:
    """Refuses records whose times, of which the first and the last are given, are too far from the
    log's clock, as LogValidator.validateTimestamp does."""
    before, after = core.timestamp_bounds_ms
    least = None if before is None else now_ms - before
    most = None if after is None else now_ms + after
    if (least is None or least <= first_ms) and (most is None or last_ms <= most):
        return
    wrong, name = (first_ms, "before") if least is not None and first_ms < least else (last_ms, "after")
    raise InvalidRecordError(
        f"the time {wrong} of a record is out of range: {'any' if least is None else least} to "
        f"{'any' if most is None else most} may be appended now",
        path=core.path,
        hint=f"raise message_timestamp_{name}_max_ms, -1 for no bound, or give put --no-timestamp-check",
    )
