from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from logdex.errors import LogFailedError
from logdex.rocketmq.message_store.message_store import MessageStore
from logdex.rocketmq.message_store.put.message import Message
from tests.unit.rocketmq.consuming.stores import consumer, numbers, store_with
from tests.unit.rocketmq.message_store.open_stores import NOW_MS, require_sound


def scheduled(store: MessageStore, level: int) -> list[dict[bytes, bytes]]:
    """The properties of the messages of a delay level."""
    store.dispatch()
    return [message.properties for message in store.get_message("SCHEDULE_TOPIC_XXXX", level - 1, 0).messages]


def test_a_message_is_sent_back_as_by_the_broker(tmp_path: Path) -> None:
    with store_with(tmp_path, 1) as store, consumer(store) as member:
        [message] = member.poll()
        put = member.reconsume_later(message)
        assert put.is_stored
        [pairs] = scheduled(store, 3)
        assert pairs == {
            **message.properties,
            b"RETRY_TOPIC": b"orders",
            b"ORIGIN_MESSAGE_ID": b"7F00000100002A9F0000000000000000",
            b"WAIT": b"false",
            b"DELAY": b"3",
            b"REAL_TOPIC": b"%RETRY%G",
            b"REAL_QID": b"0",
        }
        [stored] = store.get_message("SCHEDULE_TOPIC_XXXX", 2, 0).messages
        assert (stored.reconsume_times, stored.body, stored.born_timestamp_ms) == (1, b"0", message.born_timestamp_ms)
        assert member.reconsume_later(message, delay_level=7).is_stored
        assert len(scheduled(store, 7)) == 1
    require_sound(tmp_path)


def test_a_message_comes_again_with_its_topic_and_is_given_up_in_the_end(tmp_path: Path) -> None:
    with store_with(tmp_path, 1) as store, consumer(store, tags="even", max_reconsume_times=2) as member:
        [message] = member.poll()
        for times in (1, 2):
            member.reconsume_later(message)
            member.commit()
            deliver(store, 2 + times)
            [message] = member.poll()
            assert (message.topic, message.reconsume_times, numbers([message])) == (b"orders", times, [0])
        member.reconsume_later(message)
        member.commit()
        assert member.poll() == []
        [dead] = store.get_message("%DLQ%G", 0, 0).messages
        assert dead.reconsume_times == 3
        assert dead.properties[b"RETRY_TOPIC"] == b"orders"
        assert dead.properties[b"ORIGIN_MESSAGE_ID"] == b"7F00000100002A9F0000000000000000"
        assert dead.properties[b"DELAY"] == b"0"


@pytest.mark.parametrize("delivers", ["deliver_due", "the store's thread"])
def test_a_message_is_given_up_after_the_brokers_delays(delivers: str, tmp_path: Path) -> None:
    """The store delivers it each time: by default 16 times, at delay levels 3 to 18."""
    now_ms, has_thread = [NOW_MS], delivers != "deliver_due"
    most = 2 if has_thread else 16
    options: dict[str, Any] = {"background": has_thread, "schedule_interval_ms": 1, "clock_ms": lambda: now_ms[-1]}
    with (
        store_with(tmp_path, 1, **options) as store,
        consumer(store, max_reconsume_times=most if has_thread else None) as member,
    ):
        [message] = member.poll(timeout=60)
        for times in range(most):
            assert member.reconsume_later(message).is_stored
            member.commit()
            store.dispatch()
            now_ms.append(now_ms[-1] + store.core.config.delay_levels_ms[times + 2] - 1)
            assert store.delay_progress()[times + 3] == (0, 1)
            assert has_thread or store.deliver_due() == 0
            assert member.poll() == []
            now_ms.append(now_ms[-1] + 1)
            assert has_thread or store.deliver_due() == 1
            [message] = member.poll(timeout=60)
            assert (message.topic, message.body, message.reconsume_times) == (b"orders", b"0", times + 1)
            assert has_thread or store.delay_progress()[times + 3] == (1, 1)
        member.reconsume_later(message)
        member.commit()
        store.dispatch()
        assert [dead.reconsume_times for dead in store.get_message("%DLQ%G", 0, 0).messages] == [most + 1]
        now_ms.append(now_ms[-1] << 1)
        assert store.deliver_due() == 0
        assert member.poll() == []
    require_sound(tmp_path)


def deliver(store: MessageStore, level: int) -> None:
    """Puts the messages of a delay level to their topic, as the delivery service does when they are
    due."""
    store.dispatch()
    message = store.get_message("SCHEDULE_TOPIC_XXXX", level - 1, 0).messages[-1]
    pairs = dict(message.properties)
    topic, queue_id = pairs.pop(b"REAL_TOPIC"), int(pairs.pop(b"REAL_QID"))
    del pairs[b"DELAY"]
    times = message.reconsume_times
    store.put_message(Message(topic, message.body, properties=pairs, queue_id=queue_id, reconsume_times=times))


def test_a_message_may_be_given_up_at_once(tmp_path: Path) -> None:
    with store_with(tmp_path, 1) as store, consumer(store) as member:
        [message] = member.poll()
        member.reconsume_later(message, delay_level=-1)
        store.dispatch()
        assert len(store.get_message("%DLQ%G", 0, 0).messages) == 1


def test_the_settings_of_the_group_count(tmp_path: Path) -> None:
    with store_with(tmp_path, 1) as store, consumer(store) as member:
        (tmp_path / "config" / "subscriptionGroup.json").write_text(
            '{"subscriptionGroupTable":{"G":{"retryMaxTimes":0,"retryQueueNums":"?"}}}'
        )
        [message] = member.poll()
        member.reconsume_later(message)
        store.dispatch()
        assert len(store.get_message("%DLQ%G", 0, 0).messages) == 1


def test_a_store_that_takes_nothing_is_told(tmp_path: Path) -> None:
    with store_with(tmp_path, 1) as store, consumer(store) as member:
        [message] = member.poll()
        store._core.closing = True
        with pytest.raises(LogFailedError, match="SERVICE_NOT_AVAILABLE"):
            member.reconsume_later(message)
        store._core.closing = False
