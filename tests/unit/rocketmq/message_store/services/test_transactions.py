"""Half messages are seen by no consumer before they are committed, and end once."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from logdex.errors import LogClosedError, UsageError
from logdex.rocketmq import Message, MessageStore, PutMessageResult, PutMessageStatus
from tests.unit.rocketmq.message_store.open_stores import crash, open_store, require_sound

HALF, OP = "RMQ_SYS_TRANS_HALF_TOPIC", "RMQ_SYS_TRANS_OP_HALF_TOPIC"


def put_half(store: MessageStore, body: bytes) -> PutMessageResult:
    put = store.put_half(Message("orders", body, tags="paid", keys=b"k" + body, queue_id=1, sys_flag=5), "buyers")
    assert put.status is PutMessageStatus.PUT_OK
    return put


def bodies(store: MessageStore, topic: str, queue_id: int) -> list[bytes]:
    store.dispatch()
    return [message.body for message in store.get_message(topic, queue_id, 0, 100).messages]


def pending(store: MessageStore) -> list[bytes]:
    return [message.body for message in store.pending_transactions()]


def test_a_half_message_is_committed_or_rolled_back(tmp_path: Path) -> None:
    with open_store(tmp_path / "store", store_host="10.0.0.7:10911") as store:
        first, second, third = (put_half(store, body) for body in (b"a", b"b", b"c"))
        assert (first.topic, first.queue_id, second.queue_offset) == (HALF.encode(), 0, 1)
        assert bodies(store, "orders", 1) == []
        assert pending(store) == [b"a", b"b", b"c"]
        committed = store.end_transaction(second, commit=True)
        assert (committed.topic, committed.queue_id, committed.queue_offset) == (b"orders", 1, 0)
        assert store.end_transaction(store.pending_transactions()[0], commit=False).topic == OP.encode()
        assert (bodies(store, "orders", 1), pending(store)) == ([b"b"], [b"c"])
        assert bodies(store, OP, 0) == [b"1,", b"0,"]
        for half in (first, second):
            for commit in (True, False):
                with pytest.raises(UsageError, match="has ended already"):
                    store.end_transaction(half, commit=commit)
        with pytest.raises(UsageError, match="no half message"):
            store.end_transaction(committed, commit=True)
        nothing: Any = None
        with pytest.raises(UsageError, match="no half message is NoneType"):
            store.end_transaction(nothing, commit=True)
        [message] = store.get_message("orders", 1, 0).messages
        stored = store.look_message_by_offset(second.physical_offset)
        assert (message.sys_flag, stored.sys_flag) == (9, 1)
        assert message.prepared_transaction_offset == second.physical_offset
        assert stored.properties[b"PGROUP"] == b"buyers"
        assert stored.properties[b"__transactionId__"] == stored.unique_key == message.unique_key
        gone = {b"REAL_TOPIC": b"orders", b"REAL_QID": b"1"}
        assert stored.properties == {**message.properties, **gone}
        assert store.query_message("orders", "kb").messages == (message,)
    with open_store(tmp_path / "store") as store:
        assert pending(store) == [b"c"]
        with pytest.raises(UsageError, match="has ended already"):
            store.end_transaction(first, commit=True)
        assert store.end_transaction(third, commit=True).is_stored
        assert pending(store) == []
    with pytest.raises(LogClosedError):
        store.end_transaction(third, commit=True)
    require_sound(tmp_path / "store")


def test_an_acknowledged_end_is_on_disk(tmp_path: Path) -> None:
    store = open_store(tmp_path / "store", flush="sync")
    half = put_half(store, b"a")
    store.end_transaction(half, commit=True)
    assert store._core.durable_offset == store.max_phy_offset
    crash(store)
    with open_store(tmp_path / "store") as store:
        assert (bodies(store, "orders", 1), pending(store)) == ([b"a"], [])


def test_a_commit_whose_op_message_is_refused_is_on_disk(tmp_path: Path) -> None:
    """The page cache is busy from the second put on. The half message stays pending, as in the
    broker."""
    looks = iter((False, False, True))
    store = open_store(tmp_path / "store", flush="sync", page_cache_busy=lambda: next(looks, False))
    half = put_half(store, b"a")
    assert store.end_transaction(half, commit=True).is_stored
    assert store._core.durable_offset == store.max_phy_offset
    assert (bodies(store, "orders", 1), bodies(store, OP, 0), pending(store)) == ([b"a"], [], [b"a"])
    store.close()


def test_the_end_of_a_transaction_waits_for_slaves(tmp_path: Path) -> None:
    with open_store(tmp_path / "store") as store:
        halves = [put_half(store, b"a"), put_half(store, b"b")]
        asked: list[int] = []

        def wait(offset: int) -> PutMessageStatus:
            asked.append(offset)
            return PutMessageStatus.FLUSH_SLAVE_TIMEOUT

        store.core.wait_slaves = wait
        for half, commit in zip(halves, (True, False), strict=True):
            assert store.end_transaction(half, commit=commit).status is PutMessageStatus.FLUSH_SLAVE_TIMEOUT
            assert asked[-1] == store.max_phy_offset
        assert pending(store) == []


def test_a_slave_ends_no_transaction(tmp_path: Path) -> None:
    with open_store(tmp_path / "store") as store:
        half = put_half(store, b"a")
    with open_store(tmp_path / "store", is_slave=True) as store:
        for commit in (True, False):
            assert store.end_transaction(half, commit=commit).status is PutMessageStatus.SERVICE_NOT_AVAILABLE
        assert OP.encode() not in store.core.topics
        assert pending(store) == [b"a"]


def test_an_op_message_ends_what_lies_before_it_alone(tmp_path: Path) -> None:
    """All half messages have expired and their queue is lost, but not the op messages: offsets
    begin at 0 again."""
    root = tmp_path / "store"
    with open_store(root, mapped_file_size_commit_log=1024) as store:
        first, second = put_half(store, b"a"), put_half(store, b"b")
        store.put_message(Message("orders", bytes(800)))
        for half in (first, second):
            store.end_transaction(half, commit=False)
        store.delete_expired(0, now_ms=1 << 50)
        assert bodies(store, OP, 0) == [b"0,", b"1,"]
    shutil.rmtree(root / "consumequeue" / HALF)
    with open_store(root, mapped_file_size_commit_log=1024) as store:
        half = put_half(store, b"c")
        assert (half.queue_offset, pending(store)) == (0, [b"c"])
        assert store.end_transaction(half, commit=True).is_stored
        assert pending(store) == []


def test_a_store_of_4_9(tmp_path: Path) -> None:
    with open_store(tmp_path / "store", rocketmq_version="4.9.7") as store:
        half = put_half(store, b"a")
        store.end_transaction(half, commit=True)
        [message] = store.query_message("orders", "ka").messages
        assert message.properties == store.look_message_by_offset(half.physical_offset).properties
        assert b"__transactionId__" not in message.properties
        assert bodies(store, OP, 0) == [b"0"]


def test_what_is_refused(tmp_path: Path) -> None:
    busy = [False]
    with open_store(tmp_path / "store", page_cache_busy=lambda: busy[0]) as store:
        with pytest.raises(UsageError, match="delay level"):
            store.put_half(Message("orders", delay_level=1))
        half = put_half(store, b"a")
        busy[0] = True
        assert store.put_half(Message("orders")).status is PutMessageStatus.OS_PAGE_CACHE_BUSY
        for commit in (True, False):
            assert store.end_transaction(half, commit=commit).status is PutMessageStatus.OS_PAGE_CACHE_BUSY
        busy[0] = False
        assert store.end_transaction(half, commit=True).is_stored
        assert store.put_half(Message("orders", bytes(5000))).status is PutMessageStatus.MESSAGE_ILLEGAL


def test_what_a_broker_has_checked_is_done(tmp_path: Path) -> None:
    with open_store(tmp_path / "store") as store:
        first, second = put_half(store, b"a"), put_half(store, b"b")
    offsets = f'{{"offsetTable":{{"{HALF}@CID_RMQ_SYS_TRANS":{{0:1}}}}}}'
    (tmp_path / "store" / "config" / "consumerOffset.json").write_text(offsets)
    with open_store(tmp_path / "store") as store:
        assert pending(store) == [b"b"]
        with pytest.raises(UsageError, match="has ended already"):
            store.end_transaction(first, commit=True)
        assert store.end_transaction(second, commit=False).is_stored


def test_what_is_no_half_message_is_not_pending(tmp_path: Path) -> None:
    """It could never be ended. `put_columns` does not look at it."""
    with open_store(tmp_path / "store") as store:
        for put in (store.put_message, lambda each: store.put_messages([each])):
            with pytest.raises(UsageError, match=f"{HALF} has half messages alone .put_half puts one"):
                put(Message(HALF, b"raw", queue_id=0))
        assert store.put_columns(pa.table({"topic": [HALF], "body": [b"raw"], "queue_id": [0]})).is_stored
        put_half(store, b"a")
        assert pending(store) == [b"a"]
        half = store.pending_transactions()[0]
        again = Message(half.topic, half.body, properties=half.properties, queue_id=0)
        assert store.put_message(again).is_stored  # as a copy of a store puts it
        assert pending(store) == [b"a", b"a"]
