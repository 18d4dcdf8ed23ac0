"""Records whose times are too far from the log's clock are refused as a broker refuses them, by
each way to append, and nothing of them is written."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from logdex.errors import InvalidRecordError, UsageError
from logdex.kafka.batch.batch_writer import encode_batch
from logdex.kafka.batch.record import Compression, Record
from logdex.kafka.batch.record_batch import decode_batch
from logdex.kafka.log.log import Log
from logdex.kafka.settings.log_config import DAY_MS, LogConfig
from logdex.layout.kafka import RECORD_BATCH
from logdex.primitives.crc32c import crc32c

NOW_MS = 1_700_000_000_000
HOUR_MS = 3_600_000
LONG_MAX = (1 << 63) - 1


def records(*times_ms: int) -> list[Record]:
    return [Record(b"k", b"v", time_ms) for time_ms in times_ms]


def by_records(log: Log, *times_ms: int) -> object:
    return log.append(records(*times_ms))


def by_batches(log: Log, *times_ms: int) -> object:
    return log.append_batches(encode_batch(records(*times_ms), base_offset=0, compression=Compression.LZ4))


def by_columns(log: Log, *times_ms: int) -> object:
    return log.append_columns(pa.table({"value": [b"v"] * len(times_ms), "timestamp_ms": list(times_ms)}))


def in_a_transaction(log: Log, *times_ms: int) -> object:
    with log.transaction(7) as transaction:
        return transaction.append(records(*times_ms))


Append = Callable[..., object]
each_way = pytest.mark.parametrize("append", [by_records, by_batches, by_columns, in_a_transaction])


def open_log(path: Path, **settings: Any) -> Log:
    return Log.open(path / "events-0", clock_ms=lambda: NOW_MS, **settings)


@each_way
def test_ten_days_ahead_is_refused_by_default(append: Append, tmp_path: Path) -> None:
    with open_log(tmp_path) as log:
        append(log, NOW_MS, NOW_MS + HOUR_MS)
        end, size = log.log_end_offset, log.size_bytes
        for late in (NOW_MS + HOUR_MS + 1, NOW_MS + 10 * DAY_MS, LONG_MAX):
            with pytest.raises(InvalidRecordError, match=f"time {late} of a record is out of range: any to"):
                append(log, NOW_MS, late, NOW_MS)
        if append is in_a_transaction:
            return  # each of them has its marker, of an aborted transaction
        assert (log.log_end_offset, log.size_bytes) == (end, size)
        append(log, 0, NOW_MS - 5000 * DAY_MS)  # as old as may be


@each_way
@pytest.mark.parametrize(
    "settings",
    [
        {"kafka_version": "3.9.2"},
        {"message_timestamp_after_max_ms": -1},
        {"message_timestamp_after_max_ms": LONG_MAX},
        {"message_timestamp_after_max_ms": 10 * DAY_MS},
        {"message_timestamp_type": "LogAppendTime"},
    ],
)
def test_the_bound_is_the_versions_and_can_be_set(append: Append, settings: dict[str, Any], tmp_path: Path) -> None:
    with open_log(tmp_path, **settings) as log:
        append(log, NOW_MS + 10 * DAY_MS)
        assert log.log_end_offset > 0


@each_way
def test_records_can_be_too_old(append: Append, tmp_path: Path) -> None:
    for settings in (
        {"message_timestamp_before_max_ms": DAY_MS},
        {"message_timestamp_difference_max_ms": DAY_MS, "kafka_version": "3.9.2"},
    ):
        with open_log(tmp_path, **settings) as log:
            append(log, NOW_MS - DAY_MS)
            with pytest.raises(InvalidRecordError, match=f"time {NOW_MS - DAY_MS - 1} of a record is out of range"):
                append(log, NOW_MS, NOW_MS - DAY_MS - 1, NOW_MS)


def test_records_without_a_time_pass(tmp_path: Path) -> None:
    with open_log(tmp_path, message_timestamp_before_max_ms=0, message_timestamp_after_max_ms=0) as log:
        for append in (by_records, by_batches, by_columns):
            append(log, -1, -1)
            append(log, -1, NOW_MS)
        assert log.log_end_offset == 12


def test_a_follower_takes_what_its_leader_has(tmp_path: Path) -> None:
    with open_log(tmp_path) as log:
        log.append_batches(encode_batch(records(NOW_MS + 10 * DAY_MS), base_offset=0), assign_offsets=False)
        assert log.log_end_offset == 1


def test_a_header_that_states_another_time_is_not_believed(tmp_path: Path) -> None:
    late = NOW_MS + 10 * DAY_MS
    data = bytearray(encode_batch(records(NOW_MS, late), base_offset=0))
    struct.pack_into(">q", data, RECORD_BATCH.offset_of("max_timestamp_ms"), NOW_MS)
    at = RECORD_BATCH.offset_of("attributes")
    struct.pack_into(">I", data, RECORD_BATCH.offset_of("crc"), crc32c(bytes(data[at:])))
    assert decode_batch(bytes(data))[0].max_timestamp_ms == NOW_MS
    with open_log(tmp_path) as log:
        with pytest.raises(InvalidRecordError, match=f"time {late} of a record is out of range"):
            log.append_batches(bytes(data))
        assert log.log_end_offset == 0


def test_the_bounds_as_the_broker_decides_them() -> None:
    def bounds(**settings: Any) -> tuple[int | None, int | None]:
        return LogConfig(**settings).timestamp_bounds_ms

    assert bounds() == bounds(kafka_version="4.0.0") == (None, HOUR_MS)
    assert bounds(message_timestamp_before_max_ms=5) == (5, HOUR_MS)
    old: dict[str, Any] = {"kafka_version": "3.9.2"}
    both = {**old, "message_timestamp_difference_max_ms": 9}
    assert bounds(**old) == (None, None)
    assert bounds(**both) == (9, 9)
    assert bounds(**both, message_timestamp_after_max_ms=3) == (9, 3)
    assert bounds(**both, message_timestamp_before_max_ms=LONG_MAX) == (9, 9)  # as in LogConfig of 3.9.2
    assert bounds(message_timestamp_type="LogAppendTime", message_timestamp_before_max_ms=5) == (None, None)
    with pytest.raises(UsageError, match=r"no setting of Kafka 4\.4\.0"):
        LogConfig(message_timestamp_difference_max_ms=9)
    for wrong in (-2, 1.5, "9", True):
        with pytest.raises(UsageError, match="message_timestamp_after_max_ms is"):
            bounds(message_timestamp_after_max_ms=wrong)
