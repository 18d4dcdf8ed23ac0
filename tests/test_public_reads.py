"""What is opened is read in the same ways, whatever the format, and whether it is a snapshot or
written by this process: `topics`, `scan`, iteration, `to_arrow`, `query`."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import logdex
from logdex.errors import LogClosedError, MissingFileError, UsageError
from logdex.frames.opened_log import OpenedLog
from logdex.kafka import Log, LogDirSnapshot, PartitionSnapshot, Record
from logdex.rocketmq import Message, MessageStore, StoreSnapshot
from tests.examples import cases

KINDS = [StoreSnapshot, MessageStore, LogDirSnapshot, PartitionSnapshot, Log]
SIZES: dict[str, Any] = {"mapped_file_size_commit_log": 4096, "max_hash_slot_num": 7, "max_index_num": 8}
BODIES = [b"%d" % number for number in range(30)]


def key_of(number: int) -> str:
    return "odd" if number % 2 else "even"


def put(store: MessageStore) -> None:
    for number, body in enumerate(BODIES):
        message = Message("orders", body, keys=key_of(number), queue_id=0, born_timestamp_ms=number)
        assert store.put_message(message).status.name == "PUT_OK"


def append(log: Log) -> None:
    for number, body in enumerate(BODIES):
        log.append(Record(key_of(number).encode(), body, number))


@pytest.fixture(params=KINDS, ids=lambda kind: kind.__name__)
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    """A store or a log with `BODIES`, opened as one of `KINDS`."""
    kind = request.param
    if kind in (StoreSnapshot, MessageStore):
        with MessageStore.open(tmp_path / "store", background=False, **SIZES) as store:
            put(store)
            store.dispatch()
            if kind is MessageStore:
                yield store
                return
        with logdex.open(tmp_path / "store") as snapshot:
            yield snapshot
        return
    with Log.open(tmp_path / "logs" / "orders-0", segment_bytes=500) as log:
        append(log)
        if kind is Log:
            yield log
            return
    with logdex.open(tmp_path / "logs" / ("orders-0" if kind is PartitionSnapshot else "")) as logs:
        assert isinstance(logs, kind)
        yield logs


def bodies_of(found: Any) -> list[Any]:
    """The contents of messages or records."""
    return [each.value if isinstance(each, Record) else each.body for each in found]


def query(opened: Any, key: str, *more: Any) -> list[bytes]:
    """`query`, with the topic where there may be several."""
    has_topic = "topic" in inspect.signature(opened.query).parameters
    return bodies_of(opened.query(*(("orders",) if has_topic else ()), key, *more))


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_all_have_the_same_names(kind: type) -> None:
    assert issubclass(kind, OpenedLog)
    for name in ("topics", "scan", "to_arrow", "query", "__iter__"):
        assert getattr(kind, name).__doc__ or name == "__iter__"


def test_topics(opened: Any) -> None:
    assert opened.topics() == {"orders": [0]}


def test_everything_in_log_order(opened: Any) -> None:
    assert bodies_of(opened) == bodies_of(opened.scan()) == BODIES
    column = "body" if "body" in opened.scan().schema.names else "value"
    assert opened.to_arrow([column]).read_all().column(column).to_pylist() == BODIES
    assert opened.to_arrow().schema.names == opened.scan().schema.names
    assert bodies_of(opened.scan(limit=3)) == BODIES[:3]
    with pytest.raises(UsageError):
        opened.scan(begin_ms=2, end_ms=1)


def test_by_key_newest_first(opened: Any) -> None:
    odd = BODIES[1::2][::-1]
    assert query(opened, "odd") == odd
    assert query(opened, "odd", None, None, 2) == odd[:2]
    assert query(opened, "neither") == []
    with pytest.raises(UsageError):
        query(opened, "odd", 2, 1)
    if "topic" in inspect.signature(opened.query).parameters:
        with pytest.raises(MissingFileError, match="did you mean"):
            opened.query("ordres", "odd")
        with pytest.raises(MissingFileError, match="did you mean"):
            opened.scan(topic="ordres")


def test_what_comes_while_it_is_open(tmp_path: Path) -> None:
    """A scan that was made before sees no more than a reader of that moment, or of its own."""
    with MessageStore.open(tmp_path / "store", background=False, **SIZES) as store:
        assert (store.topics(), list(store)) == ({}, [])
        put(store)
        assert store.topics() == {}  # as `queues`: nothing is dispatched yet
        assert bodies_of(store) == BODIES
        assert query(store, "odd", None, None, 1) == [b"29"]
        put(store)
        assert bodies_of(store.scan("orders", 0)) == BODIES * 2
    with Log.open(tmp_path / "orders-0") as log:
        assert (log.topics(), list(log)) == ({"orders": [0]}, [])
        append(log)
        scan = log.scan()
        append(log)
        assert bodies_of(scan) == BODIES
        assert bodies_of(log) == BODIES * 2
        log.high_watermark = 10
        assert bodies_of(log) == BODIES[:10] == [record.value for record in log.records()]
        assert bodies_of(log.scan(offset=5, end_offset=99)) == BODIES[5:10]
        assert query(log, "odd", None, None, 1) == [b"9"]
        log.high_watermark = None
        log.roll()
        log.delete_records(55)
        assert bodies_of(log) == BODIES[25:]
        assert query(log, "even") == [b"28", b"26"]


def test_questions_that_cannot_be_meant(opened: Any) -> None:
    if not isinstance(opened, StoreSnapshot):
        with pytest.raises(UsageError, match=r"unknown option of scan: limt .did you mean limit"):
            opened.scan(limt=5)
    if type(opened) in (LogDirSnapshot, MessageStore):
        with pytest.raises(UsageError, match=r"unknown option of scan: topik .did you mean topic"):
            opened.scan(topik="orders")
    for wrong in (0, -1, "3"):
        with pytest.raises(UsageError, match="max "):
            query(opened, "odd", None, None, wrong)
    if hasattr(opened, "get_offset_in_queue_by_time"):
        with pytest.raises(UsageError, match="boundary is 'uper'"):
            opened.get_offset_in_queue_by_time("orders", 0, 5, "uper")
        with pytest.raises(UsageError, match="timestamp_ms is '5'"):
            opened.get_offset_in_queue_by_time("orders", 0, "5")
    else:
        with pytest.raises(UsageError, match=r"offset 12 is behind end_offset 3 .exchange them"):
            opened.scan(offset=12, end_offset=3)


def test_nothing_stays_open_behind_the_scans_of_a_writer(tmp_path: Path) -> None:
    settings = {**SIZES, "background": False}  # a thread may just be making the next file of the log
    with MessageStore.open(tmp_path / "store", **settings) as store, Log.open(tmp_path / "orders-0") as log:
        put(store)
        append(log)
        assert store.wait_dispatched(10)

        def read() -> int:
            for _ in range(5):
                assert bodies_of(store.scan("orders", 0)) == bodies_of(store) == bodies_of(log) == BODIES
                assert query(log, "odd", None, None, 1) == query(store, "odd", None, None, 1) == [b"29"]
            return len(os.listdir("/proc/self/fd" if os.path.isdir("/proc/self/fd") else "/dev/fd"))

        read()
        assert read() == read()
    for closed in store, log:
        with pytest.raises(LogClosedError):
            list(closed)


def test_scans_beside_appends_and_retention(tmp_path: Path) -> None:
    """One thread writes and removes; whatever a scan returns is in order and was written."""
    store = MessageStore.open(tmp_path / "store", **SIZES)
    log = Log.open(tmp_path / "orders-0", segment_bytes=2000, retention_bytes=4000, retention_ms=-1)
    done = threading.Event()

    def write() -> None:
        try:
            for number in range(600):
                store.put_message(Message("orders", b"%d" % number, queue_id=0))
                log.append(Record(b"k", b"%d" % number))
                if number % 50 == 49:
                    log.apply_retention()
                    store.delete_expired(hours=0)
        finally:
            done.set()

    writer = threading.Thread(target=write)
    with store, log:
        writer.start()
        looks = 0
        while not done.is_set() or not looks:
            for found in bodies_of(store), bodies_of(log):
                numbers = [int(body) for body in found]
                assert numbers == sorted(set(numbers))
            looks += 1
        writer.join()
        assert bodies_of(log)[-1] == bodies_of(store)[-1] == b"599"


_LEFT_OPEN = """
import builtins, sys
import logdex
from logdex.kafka import Log, Record
from logdex.rocketmq import Message, MessageStore

if sys.argv[1] == "log":
    opened = Log.open(sys.argv[2])
    for number in range(50):
        opened.append(Record(b"key", b"value", number))
else:
    opened = MessageStore.open(sys.argv[2], mapped_file_size_commit_log=1 << 16)
    for _ in range(50):
        opened.put_message(Message("orders", b"value"))
    opened.dispatch()
begun = [iter(opened), opened.scan().items()]
begun += [opened.scan().to_arrow(), logdex.open(sys.argv[2]).scan().items()]
builtins.kept = [begun, [next(each) for each in begun]]  # until modules are gone
"""


@pytest.mark.parametrize("kind", cases(["store", "log"], 2))
def test_what_a_program_leaves_open_is_closed_quietly_when_it_ends(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "orders-0"
    code = [sys.executable, "-c", _LEFT_OPEN, kind, str(path)]
    done = subprocess.run(code, capture_output=True, text=True, timeout=120, check=True)
    assert (done.stdout, done.stderr) == ("", "")
