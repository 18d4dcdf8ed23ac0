"""`Log`: reading, producers, transactions."""

from __future__ import annotations

from pathlib import Path

import pytest

from logdex.errors import (
    CrcMismatchError,
    InvalidProducerEpochError,
    InvalidTxnStateError,
    OffsetOutOfRangeError,
    OutOfOrderSequenceError,
    RecordTooLargeError,
    TransactionCoordinatorFencedError,
    UsageError,
)
from logdex.kafka.batch.record import Record
from logdex.kafka.log.log import Log
from tests.unit.kafka.log.logs import put, values


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "events-0")


# -- reading -------------------------------------------------------------------------------------
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


# -- producers and transactions ------------------------------------------------------------------
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
