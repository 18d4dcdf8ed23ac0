"""What the services of a `MessageStore` put is what a broker's put: delayed messages, delivered
from a store that ends where the broker had delivered none; half messages, commits, op messages."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from logdex.rocketmq.message.stored_message import StoredMessage
from logdex.rocketmq.message_store.message_store import MessageStore
from logdex.rocketmq.message_store.put.message import Message
from logdex.rocketmq.snapshot.store_snapshot import StoreSnapshot
from tests.conformance.rocketmq.test_message_store import settings_of
from tests.conformance.rocketmq.test_rebuild import config_of
from tests.golden import rocketmq as golden

BROKERS = ["tiny-broker", "tiny-broker-4.9.7"]
SCHEDULE = b"SCHEDULE_TOPIC_XXXX"
LATER_MS = 1 << 50
ADDED = {b"TRAN_MSG", b"PGROUP", b"__transactionId__", b"REAL_TOPIC", b"REAL_QID"}
"""Properties that only half messages have."""


def form(message: StoredMessage) -> tuple[Any, ...]:
    """All of a message but where and when it was stored."""
    return (
        *(
            message.topic,
            message.queue_id,
            message.magic,
            message.sys_flag,
            message.flag,
            message.body_crc,
            message.body,
        ),
        *(message.born_timestamp_ms, message.born_host, message.store_host, message.reconsume_times),
        *(message.prepared_transaction_offset, message.properties_raw),
    )


def scan(store: Path, name: str) -> list[StoredMessage]:
    with StoreSnapshot(str(store), config=config_of(name)) as snapshot:
        return list(snapshot.scan())


def end_at(store: Path, offset: int, name: str) -> None:
    """Makes the store one of a broker that was killed when its log ended at `offset`."""
    size = settings_of(name)["mapped_file_size_commit_log"]
    for path in sorted((store / "commitlog").iterdir()):
        keep = min(max(offset - int(path.name), 0), size)
        if not keep:
            path.unlink()
            continue
        with path.open("r+b") as file:
            file.truncate(keep)
            file.truncate(size)
    (store / "config" / "delayOffset.json").unlink()
    (store / "config" / "delayOffset.json.bak").unlink(missing_ok=True)
    (store / "abort").touch()


@pytest.mark.parametrize("name", BROKERS)
def test_delayed_messages_are_delivered_as_the_broker_does(name: str, tmp_path: Path) -> None:
    store = golden.unpack(name, tmp_path)
    messages = scan(store, name)
    theirs = [each for each in messages if b"DELAY" in each.properties and each.topic != SCHEDULE]
    end = theirs[0].physical_offset
    pending = [each.unique_key for each in messages if each.topic == SCHEDULE and each.physical_offset < end]
    end_at(store, end, name)
    with MessageStore.open(store, background=False, **settings_of(name)) as ours:
        assert ours.max_phy_offset == end
        assert ours.deliver_due(LATER_MS) == len(pending) > 2
        assert ours.deliver_due(LATER_MS) == 0
    delivered = [each for each in scan(store, name) if each.physical_offset >= end]
    assert sorted(each.unique_key or b"" for each in delivered) == sorted(key or b"" for key in pending)
    forms = {form(each) for each in theirs}
    assert [each for each in delivered if form(each) not in forms] == []


@pytest.mark.parametrize("name", BROKERS)
def test_transactions_are_those_of_the_broker(name: str, tmp_path: Path) -> None:
    messages = scan(golden.unpack(name, tmp_path), name)
    halves = [each for each in messages if each.topic == b"RMQ_SYS_TRANS_HALF_TOPIC"]
    theirs = {each.prepared_transaction_offset: each for each in messages if each.prepared_transaction_offset}
    [op, *_] = [each for each in messages if each.topic == b"RMQ_SYS_TRANS_OP_HALF_TOPIC"]
    with MessageStore.open(tmp_path / "ours", background=False, **settings_of(name)) as ours:
        for half in halves:
            pairs = {name: half.properties[name] for name in half.properties if name not in ADDED}
            again = Message(
                half.properties[b"REAL_TOPIC"],
                half.body,
                properties=pairs,
                queue_id=int(half.properties[b"REAL_QID"]),
                flag=half.flag,
                sys_flag=half.sys_flag,
                born_timestamp_ms=half.born_timestamp_ms,
                born_host=half.born_host,
                store_host=half.store_host,
            )
            put = ours.put_half(again, half.properties[b"PGROUP"])
            mine = ours.look_message_by_offset(put.physical_offset)
            assert mine.properties == half.properties
            assert form(mine)[:-1] == form(half)[:-1]
            committed = ours.look_message_by_offset(ours.end_transaction(put, commit=True).physical_offset)
            assert committed.prepared_transaction_offset == put.physical_offset
            assert form(committed)[:-2] == form(theirs[half.physical_offset])[:-2]
            assert committed.properties == theirs[half.physical_offset].properties
        assert ours.pending_transactions() == []
        [first, *_] = ours.get_message(op.topic, 0, 0, 100).messages
        assert (first.queue_id, first.sys_flag, first.flag) == (op.queue_id, op.sys_flag, op.flag)
        assert (first.properties_raw, first.body) == (op.properties_raw, op.body[: len(first.body)])
