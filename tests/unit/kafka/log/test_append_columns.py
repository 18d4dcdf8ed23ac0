"""`Log.append_columns` keeps the rules of `append`: times that are not said, the next sequence,
options by name."""

from __future__ import annotations

import contextlib
import itertools
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from logdex.errors import InvalidRecordError, OutOfOrderSequenceError, ProducerStateError, UsageError
from logdex.kafka.batch.record import Record
from logdex.kafka.columns.encode_columns import encode_columns
from logdex.kafka.log.log import Log
from logdex.testing import CHANGES, Fault, FaultEnv, Killed
from tests.examples import takes_all


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "events-0")


def make_table(times: list[int | None], type_: pa.DataType | None = None) -> pa.Table:
    keys = pa.array([b"k%d" % place for place in range(len(times))], pa.binary())
    return pa.table({"key": keys, "value": keys, "timestamp_ms": pa.array(times, type_ or pa.int64())})


def sequence_of(log: Log, producer_id: int) -> int | None:
    state = log.producer(producer_id)
    return None if state is None else state.last_sequence


@pytest.mark.parametrize(
    ("table", "wanted"),
    [
        (make_table([5, -1, 7]), [5, 777, 7]),
        (make_table([5, None, -1, 0]), [5, 777, 777, 0]),
        (make_table([None, None], pa.null()), [777, 777]),
        (pa.concat_tables([make_table([5, 6]), make_table([-1])]), [5, 6, 777]),
        (make_table([4, -1, None]).slice(1), [777, 777]),
        (make_table([-1, 3]).to_batches()[0], [777, 3]),
    ],
)
def test_rows_without_a_time_get_now(path: str, table: pa.Table | pa.RecordBatch, wanted: list[int]) -> None:
    with Log.open(path, clock_ms=lambda: 777) as log:
        info = log.append_columns(table)
        assert info is not None
        assert info.max_timestamp_ms == max(wanted)
        assert [record.timestamp_ms for record in log.records()] == wanted


@pytest.mark.parametrize("as_batch", [False, True])
def test_keys_and_times_may_be_left_out(path: str, as_batch: bool) -> None:
    table = pa.table({"value": ["a", None, "c"]})
    with Log.open(path, clock_ms=lambda: 777) as log:
        log.append_columns(table.to_batches()[0] if as_batch else table)
        told = [(record.key, record.value, record.timestamp_ms) for record in log.records()]
    assert told == [(None, b"a", 777), (None, None, 777), (None, b"c", 777)]


MISSPELT = make_table([5]).drop(["key"]).append_column("kye", pa.array([b"k"]))


def test_a_misspelt_column_is_named(path: str) -> None:
    with Log.open(path) as log:
        with pytest.raises(UsageError, match=r"unknown column: kye .did you mean key"):
            log.append_columns(MISSPELT)
        with pytest.raises(UsageError, match=r"unknown column: val .did you mean value"):
            log.append_columns(pa.table({"val": [b"x"]}))
        with pytest.raises(UsageError, match="a column value is missing"):
            log.append_columns(pa.table({"key": [b"x"]}))


@pytest.mark.parametrize("times", [make_table([-2]), make_table([5], pa.int32()), MISSPELT])
@pytest.mark.parametrize("policy", ["delete", "compact"])
def test_columns_that_cannot_be_are_still_refused(path: str, times: pa.Table, policy: str) -> None:
    with Log.open(path, cleanup_policy=policy) as log:
        with pytest.raises(UsageError, match="column"):
            log.append_columns(times)
        assert log.log_end_offset == 0


def test_a_compacted_log_takes_no_null_keys(path: str) -> None:
    table = make_table([1, 2]).set_column(0, "key", pa.array([b"k", None], pa.binary()))
    with Log.open(path, cleanup_policy="compact") as log, pytest.raises(InvalidRecordError, match="key"):
        log.append_columns(table)


@pytest.mark.parametrize("options", [{}, {"base_sequence": None}])
def test_the_next_sequence_is_found(path: str, options: dict[str, Any]) -> None:
    table = make_table([5] * 7)
    producer: dict[str, Any] = {"producer_id": 4, "producer_epoch": 1}
    with Log.open(path) as log:
        log.append_columns(table, batch_records=3, piece_bytes=200, **producer, **options)
        log.append(Record(b"k"), **producer)
        log.append_columns(table, batch_records=3, **producer, **options)
        assert sequence_of(log, 4) == 14
        log.append_columns(table, producer_id=4, producer_epoch=2, **options)  # a new epoch begins with 0
        assert sequence_of(log, 4) == 6
        with pytest.raises(ProducerStateError):
            log.append_columns(table, producer_id=4, producer_epoch=2, base_sequence=9)
        assert log.log_end_offset == 22


def test_the_leader_epoch_is_the_one_given(path: str) -> None:
    with Log.open(path) as log:
        log.append_columns(make_table([5, 6]), leader_epoch=3)
        assert [record.leader_epoch for record in log.records()] == [3, 3]
        assert [entry.epoch for entry in log.leader_epochs] == [3]


@pytest.mark.parametrize("option", ["batch_size", "base_offset", "sequence"])
def test_an_unknown_option_is_named_with_those_there_are(path: str, option: str) -> None:
    bad: dict[str, Any] = {option: 5}
    with Log.open(path) as log:
        with pytest.raises(UsageError, match=f"unknown setting: {option} .(did you mean|choose from) "):
            log.append_columns(make_table([5]), **bad)
        assert log.log_end_offset == 0
    given: dict[str, Any] = {"base_offset": 0, option + "_": 5}
    with pytest.raises(UsageError, match=f"unknown option {option}_ .*batch_records"):
        encode_columns(make_table([5]), **given)


def test_text_is_no_number(path: str) -> None:
    with Log.open(path) as log, pytest.raises(UsageError, match="batch_records is '5'"):
        log.append_columns(make_table([5]), batch_records="5")  # type: ignore[arg-type]


IDEMPOTENT: dict[str, Any] = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0, "batch_records": 4}


def rows(count: int) -> pa.Table:
    values = [b"value %d" % number for number in range(count)]
    times = pa.array([1000] * count, pa.int64())
    return pa.table({"key": pa.array(values), "value": pa.array(values), "timestamp_ms": times})


@pytest.mark.parametrize("piece_bytes", [1, pytest.param(1 << 20, marks=pytest.mark.slow)])
def test_a_retry_after_any_kill_writes_what_is_missing(tmp_path: Path, piece_bytes: int) -> None:
    """Killed at each call to the system (the default run: at one of three) and repeated: every row
    is there once, whatever the append acknowledged."""
    table = rows(28)
    options: dict[str, Any] = {**IDEMPOTENT, "piece_bytes": piece_bytes}
    seen_duplicates = set()
    for at in itertools.count(1, 1 if takes_all() else 3):
        path = tmp_path / f"kill-{at}" / "events-0"
        path.parent.mkdir()
        env = FaultEnv(str(path.parent), Fault(at, kinds=CHANGES))
        with contextlib.suppress(Killed), Log.open(str(path), env=env, segment_bytes=500, clock_ms=lambda: 1000) as log:
            log.append_columns(table, **options)
        was_killed = env.killed
        env.restart()
        with Log.open(str(path), env=env, segment_bytes=500, clock_ms=lambda: 1000) as log:
            info = log.append_columns(table, **options)
            assert info is not None
            assert [record.value for record in log.records()] == table.column("value").to_pylist()
            assert info.batches + info.duplicate_batches == 7
            assert info.is_duplicate is (info.duplicate_batches == 7)
            seen_duplicates.add(info.duplicate_batches)
        if not was_killed:
            break
    assert {0, 3, 6, 7} <= seen_duplicates


def test_duplicates_are_skipped_and_the_rest_is_written(tmp_path: Path) -> None:
    options = IDEMPOTENT
    with Log.open(str(tmp_path / "events-0")) as log:
        log.append_columns(rows(20), **options)
        info = log.append_columns(rows(40), **options)
        assert info is not None
        assert (info.first_offset, info.last_offset, info.batches, info.duplicate_batches) == (20, 39, 5, 5)
        assert not info.is_duplicate
        again = log.append_columns(rows(8), **options)  # these two are no longer remembered
        assert again is not None
        assert (again.first_offset, again.last_offset, again.duplicate_batches, again.is_duplicate) == (-1, -1, 2, True)
        with pytest.raises(OutOfOrderSequenceError):  # other batches with some of the sequences
            log.append_columns(rows(48), **{**options, "base_sequence": 2})
        assert log.log_end_offset == 40
