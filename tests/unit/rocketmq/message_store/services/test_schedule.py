"""Delayed messages are delivered when they are due: after a clean close once, after a crash at
least once."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from logdex.errors import CorruptError, LogClosedError, UsageError
from logdex.io.env import Env
from logdex.rocketmq import Message, MessageStore, PutMessageStatus
from logdex.rocketmq.files.config_files import DelayOffsets
from logdex.rocketmq.message.stored_message import StoredMessage
from logdex.testing import FaultEnv
from tests.unit.rocketmq.message_store.open_stores import NOW_MS, Clock, crash, open_store, require_sound

LATER_MS = 1 << 50
"""A time at which everything is due."""
LARGE = {"mapped_file_size_commit_log": 1 << 20, "mapped_file_size_consume_queue": 40_000}


def delayed(store: MessageStore, level: int, body: bytes, **fields: Any) -> None:
    message = Message("orders", body, tags="paid", keys=b"k" + body, queue_id=1, delay_level=level, **fields)
    assert store.put_message(message).is_stored


def delivered(store: MessageStore) -> list[bytes]:
    store.dispatch()
    return [message.body for message in store.get_message("orders", 1, 0, 100).messages]


def test_a_message_is_delivered_when_it_is_due(tmp_path: Path) -> None:
    clock = Clock()
    with open_store(tmp_path / "store", clock_ms=clock) as store:
        delayed(store, 1, b"a", reconsume_times=2, flag=7)
        delayed(store, 2, b"b")
        assert store.deliver_due() == 0
        assert delivered(store) == []
        assert store.delay_progress() == {1: (0, 1), 2: (0, 1)}
        clock.now_ms += 1000
        assert store.deliver_due() == 1
        clock.now_ms += 5000
        assert [store.deliver_due(), store.deliver_due()] == [1, 0]
        assert delivered(store) == [b"a", b"b"]
        assert store.delay_progress() == {1: (1, 1), 2: (1, 1)}
        [first] = store.query_message("orders", "ka").messages
        assert (first.reconsume_times, first.flag, first.prepared_transaction_offset) == (2, 7, 0)
        assert first.properties[b"REAL_TOPIC"] == b"orders"
        assert first.store_timestamp_ms > first.born_timestamp_ms + 1000
        assert store.get_message("orders", 1, 0, tags="paid").messages[0] == first
    require_sound(tmp_path / "store")


def test_progress_is_kept(tmp_path: Path) -> None:
    with open_store(tmp_path / "store") as store:
        for body in (b"a", b"b", b"c"):
            delayed(store, 3, body)
        assert store.deliver_due(LATER_MS) == 3
    text = (tmp_path / "store" / "config" / "delayOffset.json").read_text()
    assert text.startswith('{\n\t"dataVersion":{\n\t\t"counter":1,\n\t\t"stateVersion":0,\n\t\t"timestamp":17')
    assert text.endswith('},\n\t"offsetTable":{\n\t\t3:3\n\t}\n}')
    with open_store(tmp_path / "store") as store:
        delayed(store, 3, b"d")
        assert store.deliver_due(LATER_MS) == 1
        assert delivered(store) == [b"a", b"b", b"c", b"d"]
    assert (tmp_path / "store" / "config" / "delayOffset.json.bak").read_text() == text
    require_sound(tmp_path / "store")


def test_after_a_crash_nothing_is_lost_or_delivered_again(tmp_path: Path) -> None:
    for body in (b"a", b"b"):
        store = open_store(tmp_path / "store")
        assert store.deliver_due(LATER_MS) == 0
        delayed(store, 1, body)
        assert store.deliver_due(LATER_MS) == 1
        crash(store)
    with open_store(tmp_path / "store") as store:
        assert delivered(store) == [b"a", b"b"]


def test_what_was_delivered_and_not_counted_comes_again(tmp_path: Path) -> None:
    store = open_store(tmp_path / "store")
    store._schedule._clock_s = lambda: 0.0
    delayed(store, 1, b"a")
    store.dispatch()
    assert store._schedule.deliver_due(LATER_MS) == 1
    delayed(store, 1, b"b")
    store.dispatch()
    assert store._schedule.deliver_due(LATER_MS) == 1  # within the pause after the first one was counted
    crash(store)
    with open_store(tmp_path / "store") as store:
        assert store.deliver_due(LATER_MS) == 1
        assert delivered(store) == [b"a", b"b", b"b"]


def test_a_long_delivery_counts_as_it_goes(tmp_path: Path) -> None:
    """Few messages come again after a kill in the midst of many that are due."""
    now_s = [0.0]
    store = open_store(tmp_path / "store", **LARGE)
    schedule, seen = store._schedule, list[int]()
    for number in range(1000):
        delayed(store, 2, b"%d" % number)
    store.dispatch()
    deliver, schedule._clock_s = schedule._deliver, lambda: now_s[-1]

    def counting(message: StoredMessage) -> PutMessageStatus | None:
        now_s.append(now_s[-1] + 0.001)
        known = DelayOffsets.read(str(tmp_path / "store" / "config")).offsets.get(2, 0)
        seen.append(schedule._offsets[2] - known)
        return deliver(message)

    schedule._deliver = counting  # type: ignore[method-assign]
    assert schedule.deliver_due(LATER_MS) == 1000
    assert max(seen) < 100 + 2 * 32
    now_s.append(now_s[-1] + 0.2)
    assert schedule.deliver_due(LATER_MS) == 0
    assert DelayOffsets.read(str(tmp_path / "store" / "config")).offsets == {2: 1000}
    crash(store)


def test_counting_takes_a_small_part_of_the_time(tmp_path: Path) -> None:
    """On a slow disk, many messages are delivered until they are counted again."""
    now_s = [0.0]

    class Slow(Env):
        @contextmanager
        def operation(self, kind: str, path: str) -> Iterator[None]:
            now_s.append(now_s[-1] + 0.05 * (kind == "sync" and path.endswith("delayOffset.json.tmp")))
            with super().operation(kind, path):
                yield

    with open_store(tmp_path / "store", env=Slow(), **LARGE) as store:
        schedule, counted = store._schedule, list[int]()
        for number in range(1500):
            delayed(store, 1, b"%d" % number)
        store.dispatch()
        deliver, schedule._clock_s = schedule._deliver, lambda: now_s[-1]

        def counting(message: StoredMessage) -> PutMessageStatus | None:
            now_s.append(now_s[-1] + 0.002)
            counted.append(DelayOffsets.read(str(tmp_path / "store" / "config")).offsets.get(1, 0))
            return deliver(message)

        schedule._deliver = counting  # type: ignore[method-assign]
        assert schedule.deliver_due(LATER_MS) == 1500
        assert len(set(counted)) == 4  # 0, 32, then what is delivered in each second more
        assert counted.count(32) >= 500


def test_deliveries_are_on_disk_before_the_file_counts_them(tmp_path: Path) -> None:
    env = FaultEnv(str(tmp_path))
    with open_store(tmp_path / "store", env=env) as store:
        delayed(store, 1, b"a")
        store.flush()
        begin = len(env.log)
        store.deliver_due(LATER_MS)
        calls = [(kind, Path(path).name) for kind, path in env.log[begin:]]
        assert calls.index(("sync", "00000000000000000000")) < calls.index(("sync", "delayOffset.json.tmp"))
        begin = len(env.log)
        store._schedule.save()
        assert env.log[begin:] == []


def test_offsets_of_the_file_are_moved_into_their_queues(tmp_path: Path) -> None:
    with open_store(tmp_path / "store") as store:
        delayed(store, 1, b"a")
    (tmp_path / "store" / "config" / "delayOffset.json").write_text('{"offsetTable":{1:9,2:4,30:7}}')
    with open_store(tmp_path / "store") as store:
        delayed(store, 1, b"b")
        delayed(store, 2, b"c")
        assert store.deliver_due(LATER_MS) == 2
        assert delivered(store) == [b"b", b"c"]
    assert DelayOffsets.read(str(tmp_path / "store" / "config")).offsets == {1: 2, 2: 1, 30: 7}


def test_a_damaged_file_is_said(tmp_path: Path) -> None:
    open_store(tmp_path / "store").close()
    (tmp_path / "store" / "config" / "delayOffset.json").write_text("{")
    (tmp_path / "store" / "config" / "delayOffset.json.bak").unlink(missing_ok=True)
    for _ in range(2):
        with pytest.raises(CorruptError, match=r"delayOffset\.json"):
            open_store(tmp_path / "store")


def test_a_time_of_delivery_that_is_too_far_away_is_not_believed(tmp_path: Path) -> None:
    clock = Clock()
    with open_store(tmp_path / "store", clock_ms=clock) as store:
        clock.now_ms += 10_000_000
        delayed(store, 1, b"a")
        clock.now_ms = NOW_MS
        assert store.deliver_due() == 1


def test_nothing_is_due_at_a_time_in_the_past(tmp_path: Path) -> None:
    """Such a time is no clock that went back."""
    with open_store(tmp_path / "store") as store:
        delayed(store, 1, b"a")
        for past_ms in (946_684_800_000, NOW_MS - 5000, NOW_MS - 2, NOW_MS + 900):
            assert store.deliver_due(past_ms) == 0
        for wrong in (NOW_MS // 1000, 0, -1):
            with pytest.raises(UsageError, match=f"now_ms is {wrong} .*give milliseconds"):
                store.deliver_due(wrong)
        assert delivered(store) == []
        assert store.deliver_due(NOW_MS + 1100) == 1


def test_what_has_no_place_is_passed_over(tmp_path: Path) -> None:
    with open_store(tmp_path / "store") as store:
        store.create_topic("SCHEDULE_TOPIC_XXXX", 18)
        for pairs in (
            {"DELAY": "1"},
            {"DELAY": "1", "REAL_TOPIC": "orders", "REAL_QID": "-1"},
            {"DELAY": "1", "REAL_TOPIC": "RMQ_SYS_TRANS_HALF_TOPIC", "REAL_QID": "0"},
            {"DELAY": "1", "REAL_TOPIC": "orders", "REAL_QID": "1"},
        ):
            assert store.put_message(Message("SCHEDULE_TOPIC_XXXX", b"x", properties=pairs, queue_id=0)).is_stored
        assert store.deliver_due(LATER_MS) == 1
        assert store.delay_progress() == {1: (4, 4)}
    require_sound(tmp_path / "store")


def test_a_refused_message_waits(tmp_path: Path) -> None:
    busy = [False]
    with open_store(tmp_path / "store", page_cache_busy=lambda: busy[0]) as store:
        delayed(store, 1, b"a")
        busy[0] = True
        assert store.deliver_due(LATER_MS) == 0
        busy[0] = False
        assert store.deliver_due(LATER_MS) == 1
    with open_store(tmp_path / "store", is_slave=True) as store:
        assert store.deliver_due(LATER_MS) == 0
    with pytest.raises(LogClosedError):
        store.deliver_due()


def test_own_delay_levels_and_4_9(tmp_path: Path) -> None:
    settings = {"rocketmq_version": "4.9.7", "message_delay_level": "2s 7s"}
    with open_store(tmp_path / "store", **settings) as store:
        for level in (1, 2, 9):
            delayed(store, level, b"%d" % level)
        assert store.deliver_due(NOW_MS + 3000) == 1
        assert store.deliver_due(NOW_MS + 8000) == 2
        assert delivered(store) == [b"1", b"2", b"9"]
    text = (tmp_path / "store" / "config" / "delayOffset.json").read_text()
    assert text == '{\n\t"offsetTable":{1:1,2:2\n\t}\n}'


def test_a_thread_delivers(tmp_path: Path) -> None:
    clock = Clock()
    fast = {"background": True, "schedule_interval_ms": 1, "flush_delay_offset_interval_ms": 1}
    with open_store(tmp_path / "store", clock_ms=clock, **fast) as store:
        delayed(store, 1, b"a")
        clock.now_ms += 2000
        until = time.monotonic() + 60
        config = tmp_path / "store" / "config"
        while time.monotonic() < until:
            saved = DelayOffsets.read(str(config)).offsets  # for a moment, only the .bak is there
            if saved == {1: 1} and delivered(store) == [b"a"]:
                break
            time.sleep(0.002)
        assert saved == {1: 1}
        assert delivered(store) == [b"a"]
