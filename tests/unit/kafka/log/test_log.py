"""`Log`: appending and rolling."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from logdex.errors import InvalidRecordError, RecordTooLargeError, UsageError
from logdex.kafka.batch.batch_writer import encode_batch, encode_end_marker
from logdex.kafka.batch.record import Compression, Record, TimestampType
from logdex.kafka.log.encoded_append import columns_of_batch
from logdex.kafka.log.log import Log
from logdex.kafka.scan.scanner import BatchScanner
from logdex.kernels.kafka.batch_columns import BatchColumns
from tests.unit.kafka.log.logs import put, values


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "events-0")


# -- appending -----------------------------------------------------------------------------------
@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd", Compression.LZ4])
def test_records_come_back_as_they_were(path: str, compression: str | Compression) -> None:
    given = [
        Record(b"k", b"v" * 300, 1_700_000_000_000, (("trace", b"1"), ("none", None))),
        Record(None, None, 1_700_000_000_005),
        Record(b"", b"", 0),
    ]
    with Log.open(path) as log:
        info = log.append(given, compression=compression)
        assert (info.first_offset, info.last_offset, info.batches) == (0, 2, 1)
        assert info.max_timestamp_ms == 1_700_000_000_005
        assert info.size_bytes == log.size_bytes
        found = log.read(0)
    for number, (record, wanted) in enumerate(zip(found, given, strict=True)):
        assert record.offset == number
        assert record.leader_epoch == 0
        assert (record.key, record.value, record.timestamp_ms, record.headers) == (
            wanted.key,
            wanted.value,
            wanted.timestamp_ms,
            wanted.headers,
        )


def test_records_without_a_timestamp_get_the_time(path: str) -> None:
    with Log.open(path, clock_ms=lambda: 777) as log:
        log.append(Record(value=b"x"))
        assert log.read(0)[0].timestamp_ms == 777


def test_log_append_time(path: str) -> None:
    raw = encode_batch([Record(value=b"b", timestamp_ms=5)], base_offset=0)
    table = pa.table({"key": pa.array([None], pa.binary()), "value": [b"c"], "timestamp_ms": [6]})
    with Log.open(path, message_timestamp_type="LogAppendTime", clock_ms=lambda: 777) as log:
        assert log.append(Record(value=b"a", timestamp_ms=4)).log_append_time_ms == 777
        assert log.append_batches(raw).log_append_time_ms == 777
        log.append_columns(table)
        for record in log.read(0):
            assert record.timestamp_ms == 777
            assert record.timestamp_type is TimestampType.LOG_APPEND_TIME
        assert log.offset_for_timestamp(777) is not None


def test_nothing_is_appended_of_what_is_refused(path: str) -> None:
    with Log.open(path, max_message_bytes=200) as log:
        with pytest.raises(InvalidRecordError):
            log.append([])
        with pytest.raises(RecordTooLargeError, match="at most 200"):
            log.append(Record(value=b"x" * 300))
        with pytest.raises(UsageError):
            log.append(Record(value=b"x"), compression="brotli")
        with pytest.raises(UsageError):
            log.append(Record(value=b"x", timestamp_ms=-7))
        assert log.log_end_offset == 0
        assert log.size_bytes == 0
        put(log, "fits")
    with Log.open(path, cleanup_policy=("compact",)) as log:
        with pytest.raises(InvalidRecordError, match="key"):
            log.append(Record(value=b"no key"))
        with pytest.raises(InvalidRecordError, match="key"):
            log.append_batches(encode_batch([Record(value=b"no key")], base_offset=0))
        assert log.log_end_offset == 1


def test_columns_of_one_batch_are_those_of_the_scan() -> None:
    raw = encode_batch(
        [Record(value=b"x", timestamp_ms=5), Record(value=b"y", timestamp_ms=9)],
        base_offset=7,
        leader_epoch=4,
        compression=Compression.ZSTD,
        producer_id=3,
        producer_epoch=2,
        base_sequence=11,
        is_transactional=True,
        timestamp_type=TimestampType.LOG_APPEND_TIME,
        max_timestamp_ms=77,
    )
    (window,) = BatchScanner().scan_bytes(raw)
    made = columns_of_batch(raw)
    for name in BatchColumns._fields:
        ours, scanned = getattr(made, name), getattr(window.columns, name)
        assert ours.tolist() == scanned.tolist(), name
        assert ours.dtype == scanned.dtype
        assert ours.flags.c_contiguous


def test_a_batch_larger_than_a_segment_is_refused(path: str) -> None:
    with Log.open(path, segment_bytes=150) as log, pytest.raises(RecordTooLargeError):
        log.append(Record(value=b"x" * 200))


@pytest.mark.parametrize("epoch", [-2, 1 << 31])
def test_a_leader_epoch_that_no_batch_can_have_is_refused(path: str, epoch: int) -> None:
    with Log.open(path) as log:
        with pytest.raises(UsageError, match=f"leader_epoch is {epoch}"):
            log.append(Record(value=b"x"), leader_epoch=epoch)
        with pytest.raises(UsageError, match=f"leader_epoch is {epoch}"):
            log.append_batches(encode_batch([Record(value=b"x")], base_offset=0), leader_epoch=epoch)
        assert log.append(Record(value=b"x"), leader_epoch=-1).first_offset == 0


def test_raw_batches_get_offsets_and_nothing_else_changes(path: str) -> None:
    with Log.open(path, segment_bytes=5000) as log:
        put(log, "first")
        for number in range(300):
            raw = encode_batch([Record(value=b"%d" % number, timestamp_ms=number)] * 2, base_offset=0, leader_epoch=-1)
            info = log.append_batches(raw, leader_epoch=3)
            assert (info.first_offset, info.last_offset, info.batches) == (2 * number + 1, 2 * number + 2, 1)
        batches = [batch for offset in range(1, 601, 2) for batch in log.read_batches(offset, 1)]
        assert [batch.base_offset for batch in batches] == list(range(1, 601, 2))
        assert {batch.leader_epoch for batch in batches} == {3}
        assert log.leader_epochs == [(0, 0), (3, 1)]
        assert len(log.segments) > 3


@pytest.mark.parametrize(
    "harm",
    [lambda raw: raw[:-1], lambda raw: raw + b"\0" * 30, lambda raw: raw[:-1] + bytes([raw[-1] ^ 1]), lambda raw: b""],
    ids=["cut", "zeros behind", "flipped", "nothing"],
)
def test_raw_batches_that_are_not_whole_are_refused(path: str, harm: Callable[[bytes], bytes]) -> None:
    raw = encode_batch([Record(value=b"x")], base_offset=0)
    with Log.open(path) as log:
        with pytest.raises(InvalidRecordError):
            log.append_batches(harm(raw))
        assert log.log_end_offset == 0


def test_a_clients_batches_must_be_a_clients(path: str) -> None:
    marker = encode_end_marker(True, producer_id=1, producer_epoch=0, coordinator_epoch=0, offset=0, timestamp_ms=1)
    gapped = encode_batch(
        [Record(value=b"x", offset=0), Record(value=b"y", offset=5)], base_offset=0, keep_offsets=True
    )
    legacy = encode_batch([Record(value=b"x")], base_offset=0, magic=1)
    with Log.open(path) as log:
        for raw in (marker, gapped, legacy):
            with pytest.raises(InvalidRecordError):
                log.append_batches(raw)
            log.append_batches(_moved(raw, log.log_end_offset), assign_offsets=False)
        assert [record.offset for record in log.read(0)] == [1, 6, 7]


def _moved(raw: bytes, offset: int) -> bytes:
    return offset.to_bytes(8, "big") + raw[8:]


def test_a_leaders_batches_keep_their_offsets(path: str) -> None:
    with Log.open(path) as log:
        log.append_batches(encode_batch([Record(value=b"x")], base_offset=10, leader_epoch=4), assign_offsets=False)
        assert log.log_end_offset == 11
        assert log.leader_epochs == [(4, 10)]
        with pytest.raises(InvalidRecordError, match="below"):
            log.append_batches(encode_batch([Record(value=b"x")], base_offset=10), assign_offsets=False)
        far = 11 + (1 << 31)
        log.append_batches(encode_batch([Record(value=b"far")], base_offset=far), assign_offsets=False)
        assert [segment.base_offset for segment in log.segments] == [0, far]
        assert values(log.read(11)) == ["far"]


@pytest.mark.parametrize("compression", ["none", "lz4", "zstd", "gzip", "snappy"])
def test_columns_are_appended_over_many_segments(path: str, compression: str) -> None:
    table = pa.table(
        {
            "key": pa.array([str(number).encode() for number in range(3000)]),
            "value": pa.array([b"v%d" % number for number in range(3000)]),
            "timestamp_ms": pa.array(range(3000), pa.int64()),
        }
    )
    with Log.open(path, segment_bytes=20_000, segment_index_bytes=240, index_interval_bytes=100) as log:
        put(log, "before")
        info = log.append_columns(table, compression=compression, batch_records=10)
        assert info is not None
        assert (info.first_offset, info.last_offset, info.batches) == (1, 3000, 300)
        put(log, "after")
        assert log.append_columns(table.slice(0, 0)) is None
        found = list(log.records())
        assert values(found[1:-1]) == [f"v{number}" for number in range(3000)]
        assert [record.offset for record in found] == list(range(3002))
        assert len(log.segments) > 2
    with Log.open(path, index_interval_bytes=100) as log:
        assert sum(1 for _ in log.records()) == 3002


# -- rolling -------------------------------------------------------------------------------------
def test_segments_roll_by_size(path: str) -> None:
    with Log.open(path, segment_bytes=200) as log:
        for number in range(6):
            put(log, "x" * 20, timestamp_ms=number)
        assert all(segment.size_bytes <= 200 for segment in log.segments)
        assert [segment.base_offset for segment in log.segments] == [0, 2, 4]
        names = {file.name for file in Path(path).iterdir()}
        assert {"00000000000000000002.snapshot", "00000000000000000004.snapshot"} <= names
        assert (Path(path) / "00000000000000000000.timeindex").stat().st_size == 12  # the roll's entry
        assert log.recovery_point == 4


def test_segments_roll_by_time_of_records(path: str) -> None:
    with Log.open(path, segment_ms=1000) as log:
        put(log, "a", timestamp_ms=5_000)
        put(log, "b", timestamp_ms=6_000)
        assert len(log.segments) == 1
        put(log, "c", timestamp_ms=6_001)
        assert [segment.base_offset for segment in log.segments] == [0, 2]


def test_segments_roll_where_an_index_is_full(path: str) -> None:
    with Log.open(path, segment_index_bytes=48, index_interval_bytes=0) as log:
        for number in range(12):
            put(log, "x", timestamp_ms=number)
        assert all(segment.offset_index.entries <= 6 for segment in log.segments)
        assert len(log.segments) > 2
        assert values(log.read(0)) == ["x"] * 12


def test_rolling_an_empty_segment_does_nothing(path: str) -> None:
    with Log.open(path) as log:
        log.roll()
        put(log, "a")
        log.roll()
        log.roll()
        assert [segment.base_offset for segment in log.segments] == [0, 1]
