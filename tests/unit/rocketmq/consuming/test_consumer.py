from __future__ import annotations

import json
import logging
import os
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from logdex.errors import CorruptError, LogClosedError, MissingFileError, OffsetOutOfRangeError, UsageError
from logdex.rocketmq.consuming.consumer import Consumer
from logdex.rocketmq.consuming.consumer_offsets import ConsumerOffsetManager
from logdex.rocketmq.consuming.local_offsets import LocalFileOffsetStore
from logdex.rocketmq.message.stored_message import StoredMessage
from logdex.rocketmq.message_store.message_store import MessageStore
from logdex.rocketmq.message_store.put.message import Message
from logdex.rocketmq.snapshot.store_snapshot import StoreSnapshot
from tests.unit.rocketmq.consuming.stores import consumer, numbers, put_numbers, read_all, store_with
from tests.unit.rocketmq.message_store.open_stores import NOW_MS, SIZES, open_store, require_sound


def test_every_message_comes_and_is_committed(tmp_path: Path) -> None:
    with store_with(tmp_path, 50) as store:
        with consumer(store) as member:
            messages = [message for _ in range(20) for message in member.poll(3)]
            assert sorted(numbers(messages)) == list(range(50))
            by_queue = defaultdict(list)
            for message in messages:
                by_queue[message.queue_id].append(message.queue_offset)
            assert all(offsets == sorted(offsets) for offsets in by_queue.values())
            member.commit()
        assert ConsumerOffsetManager(tmp_path).query_offsets("G", "orders") == {0: 13, 1: 13, 2: 12, 3: 12}
        put_numbers(store, range(50, 54))
        with consumer(store) as member:
            assert sorted(read_all(member)) == [50, 51, 52, 53]
    require_sound(tmp_path)


def test_what_was_not_committed_comes_again(tmp_path: Path) -> None:
    with store_with(tmp_path, 20) as store:
        with consumer(store) as member:
            first = numbers(member.poll(5))
            member.commit()
            second = numbers(member.poll(5))
        with consumer(store) as member:
            assert sorted(read_all(member)) == sorted(set(range(20)) - set(first))
        assert len(second) == 5


def test_a_message_comes_right_after_its_put(tmp_path: Path) -> None:
    with MessageStore.open(tmp_path, reput_interval_ms=60_000, **SIZES) as store, consumer(store) as member:
        assert member.poll() == []
        for number in range(3):
            store.put_message(Message("orders", b"%d" % number))
            assert numbers(member.poll()) == [number]


def test_groups_do_not_know_each_other(tmp_path: Path) -> None:
    with store_with(tmp_path, 8) as store, consumer(store, "G") as one, consumer(store, "H") as other:
        assert sorted(read_all(one)) == sorted(read_all(other)) == list(range(8))


def test_tags_and_the_tags_of_equal_hash(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        for number, tag in enumerate(("Aa", "BB", "x", "Aa")):
            store.put_message(Message("orders", str(number).encode(), tags=tag))
        with consumer(store, tags="Aa || y") as member:
            assert sorted(read_all(member)) == [0, 3]
            member.commit()
        assert sum(ConsumerOffsetManager(tmp_path).query_offsets("G", "orders").values()) == 4


def test_members_share_the_queues(tmp_path: Path) -> None:
    with store_with(tmp_path, 40) as store, consumer(store) as one:
        one.poll(1)
        assert [queue_id for _, queue_id in one.assignment] == [0, 1, 2, 3]
        with consumer(store) as two:
            assert two.poll() == []  # the first member has all until it polls
            one.poll(1)
            two.poll(1)
            assert [queue_id for _, queue_id in one.assignment] == [0, 1]
            assert [queue_id for _, queue_id in two.assignment] == [2, 3]
            assert set(read_all(one)) | set(read_all(two)) >= set(range(40)) - {0, 1, 2, 3}
            one.commit()
        again = numbers(one.poll(1))
        assert [queue_id for _, queue_id in one.assignment] == [0, 1, 2, 3]
        again += read_all(one)
        assert sorted(again) == [number for number in range(40) if number % 4 > 1]  # what left without a commit


@pytest.mark.parametrize("members", [1, 2])
def test_two_threads_consume_while_messages_are_put(members: int, tmp_path: Path) -> None:
    """As one member, or as one each: every message comes once, and to each thread those of a queue
    in their order."""
    count, until_s, interval_s = 80, time.monotonic() + 60, sys.getswitchinterval()
    with store_with(tmp_path, 0) as store, ExitStack() as opened:
        opened.callback(sys.setswitchinterval, interval_s)
        sys.setswitchinterval(1e-5)  # the threads get into each other's way
        store.create_topic("orders")
        asked = [opened.enter_context(consumer(store)) for _ in range(members)] * (2 // members)
        for member in asked * 2:
            assert member.poll() == []  # agrees on the queues
        found: list[list[StoredMessage]] = [[], []]

        def consume(turn: int) -> None:
            while sum(map(len, found)) < count and time.monotonic() < until_s:
                found[turn] += asked[turn].poll(8, timeout=0.01)
                asked[turn].commit()

        threads = [threading.Thread(target=consume, args=(turn,)) for turn in range(2)]
        for thread in threads:
            thread.start()
        for number in range(count):
            put_numbers(store, range(number, number + 1))
        for thread in threads:
            thread.join()
        assert sorted(numbers(found[0] + found[1])) == list(range(count))
        for messages in found:
            for queue_id in range(4):
                offsets = [message.queue_offset for message in messages if message.queue_id == queue_id]
                assert offsets == sorted(offsets)
        if members == 2:
            assert not {message.queue_id for message in found[0]} & {message.queue_id for message in found[1]}
        assert ConsumerOffsetManager(tmp_path).query_offsets("G", "orders") == dict.fromkeys(range(4), count // 4)


def test_a_member_commits_only_what_is_its_own(tmp_path: Path) -> None:
    offsets = ConsumerOffsetManager(tmp_path)
    with store_with(tmp_path, 40) as store, consumer(store) as one, consumer(store) as two:
        read_all(one)
        one.poll()  # gives up queues 2 and 3
        read_all(two)
        two.commit()
        before = offsets.query_offsets("G", "orders")
        one.commit()
        after = offsets.query_offsets("G", "orders")
        assert {queue_id: after[queue_id] for queue_id in before} == before


def test_more_members_than_queues(tmp_path: Path) -> None:
    with store_with(tmp_path, 8) as store:
        members = [consumer(store) for _ in range(6)]
        for _ in range(2):
            for member in members:
                member.poll(1)
        assert [len(member.assignment) for member in members] == [1, 1, 1, 1, 0, 0]
        for member in members:
            member.close()
        assert os.listdir(tmp_path / ".logdex-consumers" / "G") == []


def test_seek_and_reset_to_time(tmp_path: Path) -> None:
    with store_with(tmp_path, 20) as store, consumer(store) as member:
        everything = member.poll(20)
        member.seek(2, 1)
        assert member.position(2) == 1
        assert numbers(member.poll(20)) == [6, 10, 14, 18]
        wanted = everything[9].store_timestamp_ms
        member.reset_to_time(wanted)
        again = member.poll(20)
        assert sorted(numbers(again)) == sorted(int(m.body) for m in everything if m.store_timestamp_ms >= wanted)
        member.reset_to_time(NOW_MS + 10**9)
        assert member.poll() == []
        with pytest.raises(UsageError, match="not this member's"):
            member.seek(9, 0)
        with pytest.raises(UsageError, match="offset"):
            member.seek(0, -1)


@pytest.mark.parametrize("is_path", [False, True])
def test_no_seek_goes_behind_the_end_of_a_queue(tmp_path: Path, is_path: bool) -> None:
    """The messages that come before that offset would be passed over."""
    with store_with(tmp_path, 20) as store:
        store.dispatch()
        store.create_topic("orders", 5)
        with consumer(tmp_path if is_path else store) as member:
            assert len(member.poll(20)) == 20
            with pytest.raises(OffsetOutOfRangeError, match=r"offset 6 is not in 0 to 5") as told:
                member.seek(2, 6)
            assert (told.value.offset, told.value.log_start_offset, told.value.log_end_offset) == (6, 0, 5)
            with pytest.raises(OffsetOutOfRangeError, match=r"consumequeue/orders/4: offset 1 is not in 0 to 0"):
                member.seek(4, 1)
            assert (member.position(2), member.position(4)) == (5, 0)
            member.seek(2, 5)
            member.seek(4, 0)
            store.put_message(Message("orders", b"20", queue_id=2))
            if is_path:
                store.dispatch()
            member.seek(2, 6)  # what was put counts at once
            member.seek(2, 5)
            assert read_all(member) == [20]
            assert member.lost_messages == 0


def test_a_group_that_starts_behind_the_last_message(tmp_path: Path) -> None:
    with store_with(tmp_path, 8) as store:
        with consumer(store, start="last") as member:
            assert member.poll() == []
            put_numbers(store, range(8, 12))
            store.create_topic("orders", 5)
            store.put_message(Message("orders", b"12", queue_id=4))
            assert sorted(read_all(member)) == [8, 9, 10, 11, 12]
        with consumer(store, start="last") as member:
            assert sorted(read_all(member)) == [8, 9, 10, 11, 12]


def test_queues_that_a_topic_loses_are_read_on(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        store.create_topic("orders", 8)
        put_numbers(store, range(16))
        store.create_topic("orders", 2)
        put_numbers(store, range(16, 20))
        topic = json.loads((tmp_path / "config" / "topics.json").read_text())["topicConfigTable"]["orders"]
        assert (topic["readQueueNums"], topic["writeQueueNums"]) == (8, 2)
        with consumer(store) as member:
            messages = member.poll(100)
            assert sorted(numbers(messages)) == list(range(20))
            assert {message.queue_id for message in messages if int(message.body) >= 16} == {0, 1}
    with open_store(tmp_path) as store:  # what was put before counts too
        store.create_topic("orders", 1)
        with consumer(store, "H") as member:
            assert sorted(numbers(member.poll(100))) == list(range(20))
        store.create_topic("empty", 8)
        store.create_topic("empty", 2)
        topic = json.loads((tmp_path / "config" / "topics.json").read_text())["topicConfigTable"]["empty"]
        assert (topic["readQueueNums"], topic["writeQueueNums"]) == (2, 2)


def test_a_consumer_that_retention_overtakes_says_so(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with open_store(tmp_path) as store:
        store.create_topic("orders", 1)
        put_numbers(store, range(100))
        with consumer(store) as member, consumer(store, "new") as new:
            assert len(member.poll(20)) == 20
            store.delete_expired(hours=0, now_ms=1 << 50)
            low = store.queues()[0].first_available_offset
            assert low > 20
            with caplog.at_level(logging.WARNING):
                assert numbers(member.poll(1)) == [low]
                assert numbers(new.poll(1)) == [low]
            assert [record.getMessage() for record in caplog.records] == [
                f"group G lost {low - 20} messages of topic orders, queue 0: they were removed before it read them, "
                f"and it goes on at offset {low}"
            ]
            assert (member.lost_messages, new.lost_messages) == (low - 20, 0)


def test_offsets_beyond_the_queue_go_back_to_its_end(tmp_path: Path) -> None:
    with store_with(tmp_path, 4) as store:
        ConsumerOffsetManager(tmp_path).commit_offset("G", "orders", 0, 100)
        with consumer(store) as member:
            assert sorted(read_all(member)) == [1, 2, 3]
            put_numbers(store, range(4, 8))
            assert sorted(read_all(member)) == [4, 5, 6, 7]


def test_a_poll_waits_for_a_message(tmp_path: Path) -> None:
    with store_with(tmp_path, 0, background=True) as store, consumer(store) as member:
        assert member.poll(timeout=0.05) == []
        put_numbers(store, range(1))
        assert numbers(member.poll(timeout=30)) == [0]


@pytest.mark.parametrize("place", ["path", "snapshot"])
def test_a_reader_beside_the_writer(tmp_path: Path, place: str) -> None:
    with store_with(tmp_path, 20) as store:
        store.dispatch()
        snapshot = StoreSnapshot(tmp_path, **SIZES)
        with consumer(tmp_path if place == "path" else snapshot) as member:  # type: ignore[arg-type]
            assert sorted(read_all(member)) == list(range(20))
            put_numbers(store, range(20, 24))
            store.dispatch()
            [first, *_] = again = member.poll(20)
            assert sorted(numbers(again)) == [20, 21, 22, 23]
            with pytest.raises(UsageError, match="sent back"):
                member.reconsume_later(first)
            member.commit()
        snapshot.close()
        with consumer(store) as member:
            assert member.poll() == []


def test_all_messages_for_each(tmp_path: Path) -> None:
    with store_with(tmp_path / "store", 20) as store:
        kept = LocalFileOffsetStore(tmp_path / "a" / "offsets.json")
        with consumer(store, mode="broadcasting", offset_store=kept) as one:
            other = LocalFileOffsetStore(tmp_path / "b" / "offsets.json")
            with consumer(store, mode="broadcasting", offset_store=other, start="last") as two:
                assert sorted(read_all(one)) == list(range(20))
                assert two.poll() == []
            one.commit()
        with consumer(store, mode="broadcasting", offset_store=kept) as one:
            assert one.poll() == []
        assert ConsumerOffsetManager(store.path).read().offsets == {}


def test_damage_is_told_and_can_be_left_behind(tmp_path: Path) -> None:
    with store_with(tmp_path, 8) as store:
        store.dispatch()
        bad = store.get_message("orders", 1, 1).messages[0]
        with open(tmp_path / "commitlog" / f"{0:020}", "r+b") as file:
            file.seek(bad.physical_offset + bad.size_bytes - 1 - bad.size_bytes // 2)
            file.write(b"\xff" * 8)
        with consumer(store) as member:
            found = numbers(member.poll(100))
            with pytest.raises(CorruptError):
                found += read_all(member, 100)
            member.seek(1, 2)
            found += read_all(member)
            assert sorted(found) == [0, 1, 2, 3, 4, 6, 7]


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"group": "a b"}, "group"),
        ({"group": None}, "the group None has no valid name"),
        ({"mode": "all"}, "mode"),
        ({"start": "middle"}, "start"),
        ({"mode": "broadcasting"}, r"needs an offset_store, .*offset_store=LocalFileOffsetStore"),
        ({"offset_store": LocalFileOffsetStore("offsets.json")}, "give mode='broadcasting' too"),
        ({"tags": "||"}, "tag"),
    ],
)
def test_mistakes_are_named(tmp_path: Path, options: dict[str, Any], text: str) -> None:
    with store_with(tmp_path, 1) as store:
        with pytest.raises(UsageError, match=text):
            consumer(store, **{"group": "G", **options})
        wrong: list[tuple[Callable[[Any], Any], str]] = [
            (lambda member: member.poll(0), "max_messages must be 1 or more"),
            (lambda member: member.poll("3"), "max_messages is '3'"),
            (lambda member: member.poll(None), "max_messages is None"),
            (lambda member: member.poll(3, "1"), "timeout is '1'"),
            (lambda member: member.reset_to_time("2023-01-01"), "timestamp_ms is '2023-01-01'"),
            (lambda member: member.reset_to_time(None), "timestamp_ms is None"),
            (lambda member: member.seek(0, "5"), "offset is '5'"),
            (lambda member: member.reconsume_later(None), "only a message can be sent back, not NoneType"),
        ]
        with consumer(store) as member:
            for call, told in wrong:
                with pytest.raises(UsageError, match=told):
                    call(member)
        with pytest.raises(LogClosedError):
            member.poll()
        member.close()
    with pytest.raises(UsageError, match="one file"):
        Consumer(tmp_path / "commitlog" / f"{0:020}", "G", "orders")


def test_a_topic_must_be_there_unless_this_process_may_put_it(tmp_path: Path) -> None:
    with open_store(tmp_path) as store, consumer(store) as early:
        with pytest.raises(MissingFileError, match="no topic 'orders'"):
            consumer(tmp_path)
        store.create_topic("orders", 4)
        with consumer(tmp_path, "others") as elsewhere:  # before the first message
            assert elsewhere.poll() == early.poll() == []
            put_numbers(store, range(4))
            assert sorted(read_all(early)) == sorted(read_all(elsewhere)) == [0, 1, 2, 3]


def test_it_shows_itself(tmp_path: Path) -> None:
    with store_with(tmp_path, 1) as store, consumer(store) as member:
        member.poll()
        assert repr(member) == f"Consumer({str(tmp_path)!r}, 'G', b'orders', queues [0, 1, 2, 3], open)"
        member.seek(0, 0)
        [message] = member.poll()
        member.reconsume_later(message)
    with consumer(tmp_path) as member:
        member.poll()
        assert repr(member).endswith(" queues [0, 1, 2, 3], queues [0] of b'%RETRY%G', open)")
