"""A producer has one transaction at a time."""

from __future__ import annotations

from pathlib import Path

import pytest

from logdex.errors import RecordTooLargeError, UsageError
from logdex.kafka.batch.record import Record
from logdex.kafka.log.log import Log


def committed(log: Log) -> list[bytes | None]:
    return [record.value for record in log.records(isolation="read_committed")]


def test_two_transactions_of_one_producer_do_not_mix(tmp_path: Path) -> None:
    with Log.open(tmp_path / "events-0") as log:
        outer, other, inner = log.transaction(2), log.transaction(3), log.transaction(2)
        outer.append(Record(value=b"outer"))
        other.append(Record(value=b"other"))
        with pytest.raises(UsageError, match="producer 2 is in a transaction"):
            inner.append(Record(value=b"inner"))
        assert inner.commit() is None
        other.commit()
        outer.abort()
        assert committed(log) == [b"other"]
        with log.transaction(2) as again:
            again.append(Record(value=b"again"))
        assert committed(log) == [b"other", b"again"]


def test_a_transaction_whose_first_append_was_refused_writes_nothing(tmp_path: Path) -> None:
    with Log.open(tmp_path / "events-0", max_message_bytes=200) as log:
        with log.transaction(2) as refused, pytest.raises(RecordTooLargeError, match="1070 bytes"):
            refused.append(Record(value=bytes(1000)))
        assert log.log_end_offset == 0
        with log.transaction(2) as next_one:
            next_one.append(Record(value=b"v"))
        assert committed(log) == [b"v"]


def test_what_a_killed_process_left_open_is_aborted(tmp_path: Path) -> None:
    path = tmp_path / "events-0"
    with Log.open(path) as log:
        log.transaction(2).append(Record(value=b"left"))
        log.append(Record(value=b"plain"))
    with Log.open(path) as log:
        assert committed(log) == []
        with log.transaction(2) as transaction:
            transaction.append(Record(value=b"next"))
        assert committed(log) == [b"plain", b"next"]
