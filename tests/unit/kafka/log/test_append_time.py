"""A log that stamps records itself: what is told of an append is what was written."""

from __future__ import annotations

import itertools
from pathlib import Path

import pyarrow as pa

from logdex.kafka.batch.record import TimestampType
from logdex.kafka.log.log import Log


def test_all_batches_of_a_table_have_the_time_that_is_told(tmp_path: Path) -> None:
    ticks = itertools.count(1_700_000_000_000)
    table = pa.table(
        {
            "key": pa.array([None] * 9, pa.binary()),
            "value": pa.array([b"v"] * 9, pa.binary()),
            "timestamp_ms": pa.array(range(9), pa.int64()),
        }
    )
    path = str(tmp_path / "events-0")
    with Log.open(path, message_timestamp_type="LogAppendTime", clock_ms=lambda: next(ticks)) as log:
        info = log.append_columns(table, batch_records=2)
        assert info is not None
        records = log.read(0)
    assert len(records) == 9
    assert {record.timestamp_ms for record in records} == {info.log_append_time_ms} == {info.max_timestamp_ms}
    assert {record.timestamp_type for record in records} == {TimestampType.LOG_APPEND_TIME}
