"""What cannot be meant is refused with an error of Logdex that says what to give instead: values of
another type, numbers out of range, and questions to what was closed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import logdex
from logdex.errors import LogClosedError, UsageError
from logdex.kafka import Log, LogFollower, LogReader, Record
from logdex.rocketmq import Consumer, ConsumerOffsetManager, Message, MessageStore

SIZES: dict[str, Any] = {"mapped_file_size_commit_log": 4096, "max_hash_slot_num": 7, "max_index_num": 8}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Any]:
    with MessageStore.open(tmp_path / "store", background=False, **SIZES) as opened:
        opened.put_message(Message("orders", b"paid", keys="k", queue_id=0))
        opened.dispatch()
        yield opened


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Any]:
    with Log.open(tmp_path / "orders-0") as opened:
        opened.append([Record(b"k", b"%d" % number) for number in range(5)])
        yield opened


ON_A_STORE: dict[str, tuple[Callable[[Any], object], str]] = {
    "a commit that is no bool": (lambda s: s.end_transaction(s.put_half(Message("t", b"")), commit="no"), "commit"),
    "a cut of bytes": (lambda s: s.get_message("orders", 0, 0, 1, max_bytes=-3), "max_bytes is -3"),
    "no offset": (lambda s: s.get_message("orders", 0, None, 1), "offset is None"),
    "no queue": (lambda s: s.get_message("orders", None, 0), "queue_id is None"),
    "no queue of columns": (lambda s: s.get_columns("orders", None, 0), "queue_id is None"),
    "a queue offset from the end": (lambda s: s.scan(queue_offset=-3), "queue_offset is -3"),
    "an offset of what": (
        lambda s: s.scan("orders", offset=3),
        "offset .queue_offset is a place in a queue, start_offset",
    ),
    "a physical offset from the end": (lambda s: s.scan(start_offset=-3), "start_offset is -3"),
    "a datetime": (lambda s: s.scan(begin_ms=datetime.now(UTC)), r"give milliseconds: int\(when.timestamp"),
    "a born datetime": (
        lambda s: s.put_message(Message("orders", b"", born_timestamp_ms=datetime.now(UTC))),  # type: ignore[arg-type]
        r"give milliseconds: int\(when.timestamp",
    ),
    "no offset of columns": (lambda s: s.get_columns("orders", 0, None, 1), "offset is None"),
    "an unknown kind of key": (lambda s: s.query_message("orders", "k", index_type="Q"), "index_type is 'Q'"),
    "a column as a text": (lambda s: s.get_columns("orders", 0, 0, 1, columns="body"), r"\['body'\]"),
    "a misspelt column": (lambda s: s.get_columns("orders", 0, 0, 1, columns=["bdy"]), "did you mean body"),
    "no columns": (lambda s: s.get_columns("orders", 0, 0, 1, columns=3), "the columns are 3"),
    "no columns of Arrow": (lambda s: s.to_arrow(3), "the columns are 3"),
    "no number of last messages": (lambda s: s.get_tail("orders", 0, None), "count is None"),
    "an id in bytes": (lambda s: s.look_message(b"7F00"), "a str, not bytes"),
    "no id": (lambda s: s.look_message(None), "not NoneType"),
    "a place as a text": (lambda s: s.look_message_by_offset("3"), "phy_offset is '3'"),
    "a count as a text": (lambda s: s.create_topic("zz", "4"), "queue_nums is '4'"),
    "a time as a text": (lambda s: s.deliver_due("now"), "now_ms is 'now'"),
    "seconds as a text": (lambda s: s.wait_dispatched("1"), "timeout is '1'"),
    "a path as an offset store": (
        lambda s: Consumer(s, "g", "orders", mode="broadcasting", offset_store="offsets.json"),  # type: ignore[arg-type]
        "LocalFileOffsetStore",
    ),
    "fewer than no tries": (lambda s: Consumer(s, "g", "orders", max_reconsume_times=-3), "max_reconsume_times is -3"),
    "less than no time": (lambda s: Consumer(s, "g", "orders", rebalance_interval_s=-1), "rebalance_interval_s is -1"),
}


@pytest.mark.parametrize("what", ON_A_STORE)
def test_a_store_refuses(what: str, store: Any) -> None:
    call, told = ON_A_STORE[what]
    with pytest.raises(UsageError, match=told):
        call(store)


RECORD: Any = Record(value=b"")
PRODUCER: dict[str, Any] = {"producer_id": 5, "producer_epoch": 0}
ON_A_LOG: dict[str, tuple[Callable[[Any], object], str]] = {
    "a watermark as a text": (lambda g: setattr(g, "high_watermark", "3"), "high_watermark is '3'"),
    "a negative watermark": (lambda g: setattr(g, "high_watermark", -1), "high_watermark is -1"),
    "fewer than no records": (lambda g: g.read(0, max_records=-1), "max_records is -1"),
    "no offset": (lambda g: g.read(None), "offset is None"),
    "an offset as a text": (lambda g: g.read("0"), "offset is '0'"),
    "a start as a text": (lambda g: g.delete_records("5"), "before is '5'"),
    "an end as a text": (lambda g: g.truncate_to("3"), "offset is '3'"),
    "a producer as a text": (lambda g: g.transaction("a"), "producer_id is 'a'"),
    "an epoch as a text": (lambda g: g.transaction(9, "0"), "producer_epoch is '0'"),
    "no time": (lambda g: g.offset_for_timestamp(None), "timestamp_ms is None"),
    "no number of bytes": (lambda g: g.read(0, None), "max_bytes is None"),
    "no number of bytes of batches": (lambda g: g.read_batches(0, None), "max_bytes is None"),
    "no columns": (lambda g: g.to_arrow(3), "the columns are 3"),
    "a start in the middle": (lambda g: g.truncate_fully_and_start_at(3.5), "offset is 3.5"),
    "no producer": (lambda g: g.append_end_marker(None, 0, commit=True), "producer_id is None"),
    "a place that is no path": (
        lambda g: logdex.open_partition(g.path).query("k", key_index_dir=3),  # type: ignore[arg-type]
        "the path is 3",
    ),
    "a time of a query as a text": (
        lambda g: list(logdex.open_partition(g.path).iter_query("k", "1")),  # type: ignore[arg-type]
        "begin_ms is '1'",
    ),
    "an offset from the end": (lambda g: g.scan(offset=-3), "offset is -3"),
    "an end from the end": (lambda g: g.scan(end_offset=-3), "end_offset is -3"),
    "a key that is no text": (lambda g: g.scan(key=3), "3 is neither text nor bytes"),
    "a topic before the key": (lambda g: g.query("orders", "k"), r"one partition is asked by the key alone: query"),
    "a datetime as a timestamp": (
        lambda g: g.append(Record(value=b"", timestamp_ms=datetime.now(UTC))),  # type: ignore[arg-type]
        r"give milliseconds: int\(when.timestamp",
    ),
    "a datetime as now": (lambda g: g.apply_retention(datetime.now(UTC)), "now_ms is datetime"),
    "a text as now": (lambda g: g.compact("now"), "now_ms is 'now'"),
    "an aborted offset as a text": (lambda g: g.aborted_transactions("a", 3), "offset is 'a'"),
    "a negative place of a reader": (lambda g: g.reader("billing").seek(-1), "offset is -1"),
    "an end that is no bool": (lambda g: g.append_end_marker(7, 0, commit="no"), "commit is 'no'.*give True to commit"),
    "no end": (lambda g: g.append_end_marker(7, 0, commit=None), "commit is None"),
    "an end of True": (lambda g: g.append_end_marker(True, 0, commit=True), "producer_id is True"),
    "a large epoch of a coordinator": (
        lambda g: g.append_end_marker(7, 0, commit=True, coordinator_epoch=1 << 31),
        "coordinator_epoch is 2147483648",
    ),
    "a creation that is no bool": (lambda g: Log.open(g.path, create="no"), "create is 'no'"),  # type: ignore[arg-type]
    "a large epoch of an end": (lambda g: g.append_end_marker(7, 1 << 15, commit=True), "producer_epoch is 32768"),
    "a transaction that is no bool": (
        lambda g: g.append(RECORD, transactional="no", **PRODUCER),
        "transactional is 'no'",
    ),
    "a transaction that is none": (lambda g: g.append(RECORD, transactional=None), "transactional is None"),
    "columns in a transaction that is no bool": (
        lambda g: g.append_columns(pa.table({"value": [b""]}), is_transactional="no", **PRODUCER),
        "is_transactional is 'no'",
    ),
    "offsets of batches that are no bool": (
        lambda g: g.append_batches(b"", assign_offsets="no"),
        "assign_offsets is 'no'",
    ),
    "control records that are no bool": (lambda g: g.read(0, control="no"), "control is 'no'"),
    "all control records that are no bool": (lambda g: list(g.records(control="no")), "control is 'no'"),
    "a scan of control records that is no bool": (lambda g: g.scan(control="no"), "control is 'no'"),
    "no batches": (lambda g: g.append_batches(None), "append_batches takes bytes, not NoneType"),
    "an epoch of batches as a text": (lambda g: g.append_batches(b"", leader_epoch="1"), "leader_epoch is '1'"),
    "an epoch of a leader as a text": (lambda g: g.append(RECORD, leader_epoch="1"), "leader_epoch is '1'"),
    "a sequence as a text": (lambda g: g.append(RECORD, **PRODUCER, sequence="0"), "sequence is '0'"),
    "a negative sequence": (lambda g: g.append(RECORD, **PRODUCER, sequence=-5), "^sequence is -5.*leave it out"),
    "an epoch of a producer as a text": (lambda g: g.append(RECORD, producer_id=5, producer_epoch="0"), "epoch is '0'"),
    "a large epoch of a producer": (
        lambda g: g.append(RECORD, producer_id=5, producer_epoch=1 << 15),
        "epoch is 32768",
    ),
    "a text that appends": (lambda g: g.append(RECORD, producer_id="5"), "producer_id is '5'"),
    "a fraction that appends": (lambda g: g.append(RECORD, producer_id=1.5, producer_epoch=0), "producer_id is 1.5"),
    "a bool that appends": (lambda g: g.append(RECORD, producer_id=True, producer_epoch=0), "producer_id is True"),
    "a negative producer": (lambda g: g.append(RECORD, producer_id=-2, producer_epoch=0), "producer_id is -2"),
    "a bool that appends columns": (
        lambda g: g.append_columns(pa.table({"value": [b""]}), producer_id=True, producer_epoch=0),
        "producer_id is True",
    ),
    "a bool in a transaction": (lambda g: g.transaction(True), "producer_id is True"),
    "a producer that is asked for as a text": (lambda g: g.producer("x"), "producer_id is 'x'"),
    "a follower of a text": (lambda g: LogFollower(g.path, offset="5"), "offset is '5'"),  # type: ignore[arg-type]
    "a follower of a negative offset": (lambda g: LogFollower(g.path, offset=-1), "offset is -1"),
    "a follower that waits a text": (
        lambda g: LogFollower(g.path, poll_interval_s="1"),  # type: ignore[arg-type]
        "poll_interval_s is '1'",
    ),
    "fewer than no records of a follower": (lambda g: LogFollower(g.path).poll(-1), "max_records is -1"),
    "a reader from the end": (lambda g: LogReader(g.path, "billing", start=-1), "start is -1"),
}


@pytest.mark.parametrize("what", ON_A_LOG)
def test_a_log_refuses(what: str, log: Any) -> None:
    call, told = ON_A_LOG[what]
    with pytest.raises(UsageError, match=told):
        call(log)
    assert [record.offset for record in log.read(0)] == [0, 1, 2, 3, 4]
    assert log.append([Record(value=b"")]).first_offset == 5


def test_what_a_directory_and_its_readers_refuse(store: Any, log: Any) -> None:
    cases: list[tuple[Callable[[], object], str]] = [
        (lambda: logdex.open_log_dir(Path(log.path).parent).query(3, "k"), "the topic is 3"),  # type: ignore[arg-type]
        (lambda: LogFollower(log.path).poll(None), "max_records is None"),  # type: ignore[arg-type]
        (lambda: ConsumerOffsetManager(store.path).commit_offset("g", "t", 0, None), "offset is None"),  # type: ignore[arg-type]
        (lambda: logdex.open_store(store.path).query_offset("orders", "k", None), "max_num is None"),  # type: ignore[arg-type]
    ]
    for call, told in cases:
        with pytest.raises(UsageError, match=told):
            call()


def test_a_scan_takes_a_key_as_text_or_bytes(log: Any) -> None:
    with logdex.open_partition(log.path) as snapshot:
        for source in (log, snapshot):
            assert [len(list(source.scan(key=key))) for key in ("k", b"k", "other", None)] == [5, 5, 0, 5]


def test_what_was_closed_answers_nothing(store: Any, log: Any, tmp_path: Path) -> None:
    for path, ways in {"orders-0": ("topics", "scan", "read", "query"), ".": ("topics", "scan")}.items():
        arguments = {"read": (0,), "query": (b"k",)}
        snapshot: Any = logdex.open_log_dir(tmp_path) if path == "." else logdex.open(tmp_path / path)
        scan = snapshot.scan()
        assert list(scan)
        snapshot.close()
        for way in ways:
            with pytest.raises(LogClosedError, match="the snapshot was closed"):
                list(getattr(snapshot, way)(*arguments.get(way, ())))
        with pytest.raises(LogClosedError):
            list(scan)
    store.close()
    log.close()
    for call in (store.topics, store.wait_dispatched, log.topics):
        with pytest.raises(LogClosedError):
            call()


def test_what_was_closed_is_not_entered_again(log: Any) -> None:
    follower, reader = LogFollower(log.path), log.reader("billing")
    for each in (follower, reader, log):
        each.close()
        with pytest.raises(LogClosedError, match="was closed"), each:
            pytest.fail("it was entered")
    for call in (follower.poll, follower.look_for_cut, lambda: follower.remember(None)):
        with pytest.raises(LogClosedError, match="the follower was closed"):
            call()
    assert list(follower) == []


def test_a_closed_session_of_sql(store: Any, tmp_path: Path) -> None:
    pytest.importorskip("duckdb")
    from logdex.sql import connect

    assert store.topics()
    with connect(tmp_path / "store") as session, pytest.raises(UsageError, match="the query is None"):
        list(session.batches(None))  # type: ignore[arg-type]
    with pytest.raises(LogClosedError):
        list(session.batches("SELECT 1"))


def test_a_message_has_the_id_that_finds_it(store: Any) -> None:
    [message] = store.query("orders", "k")
    assert store.look_message(message.msg_id) == message
