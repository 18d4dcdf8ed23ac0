"""Appends an Arrow table: its rows are encoded piece by piece, and each piece is appended at
once."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any, TypedDict

import pyarrow as pa

from logdex.frames.arrow import require_table
from logdex.jobs.settings import require_known
from logdex.kafka.batch.record import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_TIMESTAMP, Compression, TimestampType
from logdex.kafka.columns.encode_columns import iter_encoded
from logdex.kafka.columns.encode_input import check_table, fill_columns
from logdex.kafka.log.append import AppendInfo, acknowledge, next_sequence, write_encoded
from logdex.kafka.log.core import LogCore
from logdex.kafka.log.encoded_append import (
    EncodedAppend,
    has_timestamp_bounds,
    parse_compression,
    require_keys,
    require_timestamps,
    with_append_time,
)


class ColumnOptions(TypedDict, total=False):
    """The keyword arguments of `Log.append_columns`. Those that are None count as not given."""

    batch_records: int | None
    batch_bytes: int | None
    leader_epoch: int | None
    producer_id: int | None
    producer_epoch: int | None
    base_sequence: int | None
    is_transactional: bool | None
    timestamp_type: TimestampType | None
    max_timestamp_ms: int | None
    piece_bytes: int | None


def append_columns(
    core: LogCore, table: pa.Table | pa.RecordBatch, compression: str | Compression, given: ColumnOptions
) -> AppendInfo | None:
    """See `Log.append_columns`."""
    require_known(given, ColumnOptions)
    require_table(table, "append_columns")
    options: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    options["compression"] = parse_compression(compression)
    now_ms = core.now_ms()
    table = check_table(fill_columns(table, now_ms))
    require_keys(core, table.column("key").null_count > 0)
    if has_timestamp_bounds(core) and options.get("timestamp_type") is not TimestampType.LOG_APPEND_TIME:
        require_timestamps(core, table.column("timestamp_ms"), now_ms)
    log_append_time_ms = now_ms if core.config.message_timestamp_type == "LogAppendTime" else NO_TIMESTAMP
    producer_id = options.get("producer_id", NO_PRODUCER_ID)
    is_next = producer_id != NO_PRODUCER_ID and "base_sequence" not in options
    with core.lock if is_next else nullcontext():  # the lock reserves the next sequence numbers for this table
        if is_next:
            producer_epoch = options.get("producer_epoch", NO_PRODUCER_EPOCH)
            options["base_sequence"] = next_sequence(core, producer_id, producer_epoch)
        infos, ticket = _write_pieces(core, table, log_append_time_ms, options)
    if not infos:
        return None
    written = [info for info in infos if not info.is_duplicate]
    told = written or infos
    info = AppendInfo(
        told[0].first_offset,
        told[-1].last_offset,
        max(info.max_timestamp_ms for info in told),
        log_append_time_ms if written else NO_TIMESTAMP,
        sum(info.size_bytes for info in infos),
        sum(info.batches for info in infos),
        is_duplicate=not written,
        duplicate_batches=sum(info.duplicate_batches for info in infos),
    )
    return acknowledge(core, info, ticket)


def _write_pieces(
    core: LogCore, table: pa.Table, log_append_time_ms: int, options: dict[str, Any]
) -> tuple[list[AppendInfo], int]:
    """Appends each piece; returns their results and the last ticket."""
    infos: list[AppendInfo] = []
    ticket = 0
    leader_epoch, trusts_sequences = options.get("leader_epoch"), "base_sequence" in options
    for piece in iter_encoded(table, base_offset=0, **options):
        data = piece.data if piece.data.flags.writeable else piece.data.copy()
        view: Any = data  # arrays are buffers
        encoded = EncodedAppend(
            memoryview(view), piece.columns, leader_epoch=leader_epoch, trusts_sequences=trusts_sequences
        )
        if log_append_time_ms != NO_TIMESTAMP:
            encoded = with_append_time(encoded, log_append_time_ms)
        info, ticket = write_encoded(core, encoded)
        infos.append(info)
    return infos, ticket
