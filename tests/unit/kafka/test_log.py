"""`Log`: appending, reading, rolling, transactions, retention, truncation, one writer, several threads."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from logdex.errors import CrcMismatchError, MissingFileError, UsageError
from logdex.io.env import Env
from logdex.kafka.batch_writer import encode_batch, encode_end_marker
from logdex.kafka.errors import (
    InvalidProducerEpochError,
    InvalidRecordError,
    InvalidTxnStateError,
    LogClosedError,
    LogInUseError,
    OffsetOutOfRangeError,
    OutOfOrderSequenceError,
    RecordTooLargeError,
    TransactionCoordinatorFencedError,
)
from logdex.kafka.log import Log
from logdex.kafka.log_append import columns_of_batch
from logdex.kafka.record import Compression, Record, TimestampType
from logdex.kafka.scan import BatchScanner
from logdex.kernels.batch_columns import BatchColumns

Open = Callable[..., Log]


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "events-0")


def put(log: Log, *values: str, timestamp_ms: int = 1000, **options: Any) -> None:
    log.append([Record(b"k", value.encode(), timestamp_ms) for value in values], **options)


def values(records: list[Record]) -> list[str]:
    return [(record.value or b"").decode() for record in records]


# -- appending ---------------------------------------------------------------------------------------------------------
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


def test_raw_batches_get_offsets_and_nothing_else_changes(path: str) -> None:
    raw = b"".join(
        encode_batch([Record(value=str(number).encode(), timestamp_ms=number)] * 2, base_offset=0, leader_epoch=-1)
        for number in range(300)
    )
    with Log.open(path, segment_bytes=5000) as log:
        put(log, "first")
        info = log.append_batches(raw, leader_epoch=3)
        assert (info.first_offset, info.last_offset, info.batches) == (1, 600, 300)
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
            log.append_batches(harm(raw + raw))
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


# -- rolling -----------------------------------------------------------------------------------------------------------
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


# -- reading -----------------------------------------------------------------------------------------------------------
def test_reading_is_bounded_and_goes_on_over_segments(path: str) -> None:
    with Log.open(path, segment_bytes=300) as log:
        for number in range(10):
            put(log, f"{number}a", f"{number}b")
        assert values(log.read(3, max_records=4)) == ["1b", "2a", "2b", "3a"]
        assert values(log.read(5, max_bytes=0)) == ["2b"]  # one batch at least
        assert values(log.read(0)) == [f"{number}{letter}" for number in range(10) for letter in "ab"]
        batch = log.read_batches(0, 1)[0]
        assert len(log.read_batches(0, batch.size_bytes * 5)) == 5
        assert log.read(20) == []
        for offset in (-1, 21):
            with pytest.raises(OffsetOutOfRangeError) as raised:
                log.read(offset)
            assert (raised.value.log_start_offset, raised.value.log_end_offset) == (0, 20)
        with pytest.raises(UsageError):
            log.read(0, isolation="serializable")


def test_a_harmed_batch_is_named_with_its_place_in_the_file(path: str) -> None:
    with Log.open(path) as log:
        put(log, "good")
        position = log.size_bytes
        put(log, "harmed")
        with (Path(path) / "00000000000000000000.log").open("r+b") as file:
            file.seek(log.size_bytes - 1)
            file.write(b"\xff")
        assert values(log.read(0, max_bytes=1)) == ["good"]
        with pytest.raises(CrcMismatchError) as raised:
            log.read(1)
        assert raised.value.path.endswith("events-0/00000000000000000000.log")
        assert raised.value.position == position


def test_timestamps(path: str) -> None:
    with Log.open(path, segment_bytes=250, index_interval_bytes=0, segment_ms=1 << 40) as log:
        assert log.offset_for_timestamp(0) is None
        assert log.offset_for_timestamp(-3) is None
        for number, timestamp in enumerate((100, 300, 200, 300, 500, 400)):
            put(log, str(number), timestamp_ms=timestamp)
        asked = {0: (100, 0), 101: (300, 1), 300: (300, 1), 301: (500, 4), 500: (500, 4), 501: None}
        for timestamp, wanted in asked.items():
            found = log.offset_for_timestamp(timestamp)
            assert (found and found[:2]) == wanted, timestamp
        assert [log.offset_for_timestamp(special)[1] for special in (-2, -1, -3)] == [0, 6, 4]  # type: ignore[index]
        log.delete_records(2)
        assert log.offset_for_timestamp(0)[:2] == (200, 2)  # type: ignore[index]
        assert log.offset_for_timestamp(-2)[1] == 2  # type: ignore[index]
        with pytest.raises(UsageError):
            log.offset_for_timestamp(-4)


def test_the_high_watermark_holds_readers_back(path: str) -> None:
    with Log.open(path) as log:
        put(log, "a", "b")
        put(log, "c")
        log.high_watermark = 2
        assert values(log.read(0)) == ["a", "b"]
        assert log.last_stable_offset == 2
        assert log.read(2) == []
        with pytest.raises(OffsetOutOfRangeError):
            log.delete_records(3)
        log.high_watermark = None
        assert log.high_watermark == 3
        assert values(log.read(2)) == ["c"]


# -- producers and transactions ----------------------------------------------------------------------------------------
def test_idempotent_producers(path: str) -> None:
    with Log.open(path) as log:
        first = log.append([Record(value=b"a")] * 3, producer_id=7, producer_epoch=0, sequence=0)
        again = log.append([Record(value=b"a")] * 3, producer_id=7, producer_epoch=0, sequence=0)
        assert (again.first_offset, again.last_offset, again.is_duplicate) == (0, 2, True)
        assert not first.is_duplicate
        assert log.log_end_offset == 3
        with pytest.raises(OutOfOrderSequenceError):
            log.append(Record(value=b"gap"), producer_id=7, producer_epoch=0, sequence=4)
        log.append(Record(value=b"b"), producer_id=7, producer_epoch=1)  # a new epoch begins at 0
        with pytest.raises(InvalidProducerEpochError):
            log.append(Record(value=b"old"), producer_id=7, producer_epoch=0, sequence=3)
        with pytest.raises(OutOfOrderSequenceError):
            log.append(Record(value=b"epoch"), producer_id=7, producer_epoch=2, sequence=9)
        assert [record.sequence for record in log.read(0)] == [0, 1, 2, 0]
        assert log.log_end_offset == 4
    with Log.open(path) as log:  # from the snapshot
        assert log.append(Record(value=b"b"), producer_id=7, producer_epoch=1, sequence=0).is_duplicate
        state = log.producer(7)
        assert state is not None
        assert (state.producer_epoch, state.last_sequence) == (1, 0)
        assert log.producer(8) is None


def test_transactions(path: str) -> None:
    with Log.open(path) as log:
        put(log, "plain")
        with log.transaction(1) as good, log.transaction(2) as bad:
            good.append([Record(value=b"good 1"), Record(value=b"good 2")])
            bad.append(Record(value=b"bad"))
            assert log.last_stable_offset == 1
            put(log, "also plain")
            assert values(log.read(0, isolation="read_committed")) == ["plain"]
            bad.abort()
            with pytest.raises(UsageError):
                bad.append(Record(value=b"too late"))
            assert log.last_stable_offset == 1
        committed = ["plain", "good 1", "good 2", "also plain"]
        assert values(log.read(0, isolation="read_committed")) == committed
        assert values(list(log.records(isolation="read_committed"))) == committed
        assert len(log.read(0)) == 5
        shown = log.read(0, control=True)
        assert [record.is_control for record in shown].count(True) == 2
        assert [txn.producer_id for txn in log.aborted_transactions(0, log.log_end_offset)] == [2]
        assert log.last_stable_offset == log.log_end_offset
        with pytest.raises(RecordTooLargeError):
            fail_within(log)
        with log.transaction(3):
            pass  # nothing in it: nothing is written
        assert values(log.read(0, isolation="read_committed")) == committed
        assert log.log_end_offset == 9
    with Log.open(path) as log:
        assert values(log.read(0, isolation="read_committed")) == committed
        log.append(Record(value=b"x"), producer_id=4, producer_epoch=0, transactional=True)
        with pytest.raises(InvalidTxnStateError):
            log.append(Record(value=b"x"), producer_id=4, producer_epoch=0)
        log.append_end_marker(4, 0, commit=True, coordinator_epoch=5)
        with pytest.raises(TransactionCoordinatorFencedError):
            log.append_end_marker(4, 0, commit=True, coordinator_epoch=4)


def fail_within(log: Log) -> None:
    with log.transaction(1) as transaction:
        transaction.append(Record(value=b"failed"))
        transaction.append(Record(value=bytes(2 << 20)))


def test_a_transaction_is_stable_once_its_end_is_below_the_high_watermark(path: str) -> None:
    with Log.open(path) as log:
        with log.transaction(1) as transaction:
            transaction.append(Record(value=b"a"))
        put(log, "b")
        log.high_watermark = 1
        assert log.last_stable_offset == 0
        log.high_watermark = 2
        assert log.last_stable_offset == 2


# -- what goes ---------------------------------------------------------------------------------------------------------
def test_delete_records_removes_whole_segments(path: str) -> None:
    with Log.open(path) as log:
        for number in range(6):
            put(log, str(number))
            if number % 2:
                log.roll()
        assert log.delete_records(3) == 3
        assert [segment.base_offset for segment in log.segments] == [2, 4, 6]
        assert values(log.read(3)) == ["3", "4", "5"]
        with pytest.raises(OffsetOutOfRangeError):
            log.read(2)
        assert log.leader_epochs == [(0, 3)]
        assert log.delete_records(1) == 3  # never back
        assert log.delete_records(-1) == 6
        assert log.read(6) == []
        put(log, "6")
    with Log.open(path) as log:
        assert (log.log_start_offset, log.log_end_offset) == (6, 7)


def test_the_log_start_outlives_a_clean_close(path: str) -> None:
    with Log.open(path) as log:
        put(log, "a", "b", "c")
        log.delete_records(2)
    with Log.open(path) as log:
        assert log.load_report.was_clean
        assert (log.log_start_offset, log.segments[0].base_offset) == (2, 0)
        assert values(log.read(2)) == ["c"]


def test_retention_by_size_and_age(path: str) -> None:
    with Log.open(path, retention_bytes=200, retention_ms=-1) as log:
        for number in range(5):
            put(log, str(number), timestamp_ms=1000 * number)
            log.roll()
        size = log.size_bytes // 5
        gone = log.apply_retention(0)
        assert log.size_bytes >= 200 > log.size_bytes - size
        assert gone == list(range(log.log_start_offset))
        assert log.apply_retention(0) == []
    with Log.open(path, retention_ms=1000) as log:
        assert log.apply_retention(3000) == []
        assert log.apply_retention(5001) == [2, 3, 4]
        assert log.log_start_offset == log.log_end_offset == 5
        put(log, "5", timestamp_ms=10_000)
        assert log.apply_retention(10_500) == []
        assert log.apply_retention(11_001) == [5]  # the active segment too, a new one is rolled
        assert [segment.base_offset for segment in log.segments] == [6]
    names = sorted(file.name for file in Path(path).iterdir())
    assert [name for name in names if name.endswith((".log", ".deleted"))] == ["00000000000000000006.log"]
    assert [name for name in names if name.endswith(".snapshot")] == ["00000000000000000006.snapshot"]
    with Log.open(path, cleanup_policy=("compact",), retention_ms=0) as log:
        put(log, "kept", timestamp_ms=1)
        assert log.apply_retention(1 << 40) == []


def test_truncation(path: str) -> None:
    with Log.open(path, index_interval_bytes=0, flush="sync") as log:
        for number in range(10):
            log.append(Record(value=str(number).encode()), producer_id=1, producer_epoch=0, leader_epoch=number // 4)
            if number in (3, 6):
                log.roll()
        assert not log.truncate_to(10)
        assert not log.truncate_to(99)
        assert log.truncate_to(5)
        assert log.log_end_offset == log.high_watermark == 5
        assert [segment.base_offset for segment in log.segments] == [0, 4]
        assert log.leader_epochs == [(0, 0), (1, 4)]
        state = log.producer(1)
        assert state is not None
        assert state.last_sequence == 4
        assert log.recovery_point <= 5
        log.append(Record(value=b"new"), producer_id=1, producer_epoch=0, sequence=5)
        assert values(log.read(3)) == ["3", "4", "new"]
        log.truncate_to(0)
        assert log.log_end_offset == 0
        assert log.read(0) == []
        assert log.producer(1) is None
        log.append(Record(value=b"again"))
        with pytest.raises(UsageError):
            log.truncate_to(-1)
    with Log.open(path) as log:
        assert values(log.read(0)) == ["again"]


def test_beginning_anew(path: str) -> None:
    with Log.open(path) as log:
        put(log, "a", "b")
        log.roll()
        put(log, "c")
        log.truncate_fully_and_start_at(100)
        assert (log.log_start_offset, log.log_end_offset, log.leader_epochs) == (100, 100, [])
        put(log, "d")
        assert values(log.read(100)) == ["d"]
        log.truncate_to(50)  # before everything: the same
        assert (log.log_start_offset, log.log_end_offset) == (50, 50)
    with Log.open(path) as log:
        assert (log.log_start_offset, log.log_end_offset) == (50, 50)


# -- one writer, many threads ------------------------------------------------------------------------------------------
def test_one_writer(path: str) -> None:
    with Log.open(path) as log:
        with pytest.raises(LogInUseError):
            Log.open(path)
        put(log, "a")
    with Log.open(path) as log:
        assert values(log.read(0)) == ["a"]


def test_another_process_holds_the_lock(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Env, "lock_file", lambda *_, **__: None)
    with pytest.raises(LogInUseError, match="another process"):
        Log.open(path)


def test_a_closed_log(path: str) -> None:
    log = Log.open(path)
    log.close()
    log.close()
    for call in (lambda: put(log, "x"), lambda: log.read(0), log.flush, log.roll, lambda: log.truncate_to(0)):
        with pytest.raises(LogClosedError):
            call()


def test_where_and_how_it_is_opened(tmp_path: Path) -> None:
    with pytest.raises(MissingFileError):
        Log.open(str(tmp_path / "none-0"), create=False)
    assert not (tmp_path / "none-0").exists()
    with pytest.raises(UsageError, match="TOPIC-PARTITION"):
        Log.open(str(tmp_path / "not a partition"))
    with pytest.raises(UsageError, match="settings are"):
        Log.open(str(tmp_path / "events-0"), segment_byte=1)


@pytest.mark.parametrize("flush", ["sync", "async"])
def test_threads_append_and_read_at_once(path: str, flush: str) -> None:
    threads_count, each = 6, 40
    errors: list[BaseException] = []

    def work(number: int) -> None:
        try:
            for at in range(each):
                info = log.append(Record(value=f"{number}:{at}".encode()), producer_id=number, producer_epoch=0)
                if flush == "sync":
                    assert log.high_watermark > info.last_offset
                found = log.read(info.last_offset, max_records=1)
                assert flush == "async" or values(found) == [f"{number}:{at}"]
                if at % 13 == 0:
                    log.roll()
        except BaseException as error:  # told below, in the test's own thread
            errors.append(error)

    with Log.open(path, flush=flush, segment_bytes=3000) as log:
        threads = [threading.Thread(target=work, args=(number,)) for number in range(threads_count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert errors == []
        found = values(list(log.records()))
        assert len(found) == threads_count * each
        for number in range(threads_count):
            assert [v for v in found if v.startswith(f"{number}:")] == [f"{number}:{at}" for at in range(each)]


def test_waiting_threads_share_an_fsync(path: str) -> None:
    class Slow(Env):
        """Counts fsyncs, and holds each back until `gate` opens."""

        def __init__(self) -> None:
            super().__init__()
            self.gate = threading.Event()
            self.syncs = 0

        def operation(self, kind: str, path: str):  # type: ignore[no-untyped-def]
            if kind == "sync" and path.endswith(".log"):
                self.syncs += 1
                self.gate.wait(20)
            return super().operation(kind, path)

    env = Slow()
    env.gate.set()
    with Log.open(path, flush="sync", env=env) as log:
        env.gate.clear()
        before = env.syncs
        threads = [threading.Thread(target=put, args=(log, str(number))) for number in range(10)]
        for thread in threads:
            thread.start()
        while log.log_end_offset < 10:
            threading.Event().wait(0.002)
        assert log.high_watermark == 0  # written, not on disk: not shown
        assert log.read(0) == []
        env.gate.set()
        for thread in threads:
            thread.join(20)
        assert log.high_watermark == 10
        assert env.syncs - before <= 3
