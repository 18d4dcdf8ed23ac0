"""`MessageStore`: what is put can be read, found and looked up, now and after the store was opened
again."""

from __future__ import annotations

import errno
import json
import shutil
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import logdex
from logdex.errors import LogClosedError, LogInUseError, MissingFileError, StorageError, UsageError
from logdex.rocketmq import Message, MessageStore, PutMessageStatus
from logdex.rocketmq.message_store.put.log_files import LogFiles
from logdex.rocketmq.read.results import GetMessageStatus
from logdex.rocketmq.settings.store_config import StoreConfig
from logdex.rocketmq.verify import verify
from logdex.testing import Fault, FaultEnv
from tests.directories import contents
from tests.unit.rocketmq.message_store.open_stores import SIZES, open_store, require_sound
from tests.unit.rocketmq.small_stores import build, message

OK = PutMessageStatus.PUT_OK


def fill(store: MessageStore, count: int, first: int = 0) -> None:
    for turn in range(first, first + count):
        message = Message(
            "orders", b"body %d" % turn, tags="paid" if turn % 2 else "new", keys=f"k{turn}", queue_id=turn % 3
        )
        assert store.put_message(message).status is OK


def test_what_is_put_is_read_and_found(tmp_path: Path) -> None:
    with open_store(tmp_path / "store") as store:
        fill(store, 100)
        assert store.dispatch_behind_bytes == store.max_phy_offset
        assert store.get_message("orders", 0, 0).status is GetMessageStatus.NO_MATCHED_LOGIC_QUEUE
        [late] = store.query_message("orders", "k99").messages
        assert late.body == b"body 99"
        assert store.wait_dispatched()
        assert store.dispatch_behind_bytes == 0
        found = store.get_message("orders", 1, 5, max_count=3)
        assert [message.body for message in found.messages] == [b"body 16", b"body 19", b"body 22"]
        assert (found.min_offset, found.max_offset, found.next_begin_offset) == (0, 33, 8)
        assert {message.tags for message in store.get_message("orders", 1, 0, 99, tags="paid").messages} == {b"paid"}
        assert store.get_message("orders", 1, 33).status is GetMessageStatus.OFFSET_OVERFLOW_ONE
        [message] = store.query_message("orders", "k17").messages
        assert message.body == b"body 17"
        assert message.unique_key is not None
        assert len(store.query_message("orders", message.unique_key, broker_semantics=True).messages) == 1
        assert store.look_message_by_offset(0).body == b"body 0"
        assert [(queue.queue_id, queue.max_offset) for queue in store.queues()] == [(0, 34), (1, 33), (2, 33)]
        assert store.get_offset_in_queue_by_time("orders", 0, message.store_timestamp_ms) == 6
    require_sound(tmp_path / "store")
    with logdex.open(str(tmp_path / "store"), **SIZES) as snapshot:
        assert len(list(snapshot.scan())) == 100


def test_a_put_says_where_the_message_is(tmp_path: Path) -> None:
    with open_store(tmp_path / "store", store_host="10.0.0.7:10911") as store:
        first, second = (store.put_message(Message("orders", b"x", queue_id=2)) for _ in range(2))
        assert (first.physical_offset, first.queue_offset, first.queue_id, first.msg_num) == (0, 0, 2, 1)
        assert (second.physical_offset, second.queue_offset) == (first.size_bytes, 1)
        assert second.msg_id == f"0A00000700002A9F{second.physical_offset:016X}"
        assert store.look_message(second.msg_id).queue_offset == 1
        assert first.is_stored


def test_queues_are_chosen_in_turn(tmp_path: Path) -> None:
    with open_store(tmp_path / "store") as store:
        assert [store.put_message(Message("orders")).queue_id for _ in range(6)] == [0, 1, 2, 3, 0, 1]
        store.create_topic("wide", 6)
        assert [store.put_message(Message("wide")).queue_id for _ in range(6)] == [0, 1, 2, 3, 4, 5]
        with pytest.raises(UsageError, match="queues 0 to 3"):
            store.put_message(Message("orders", queue_id=4))


def test_a_topic_without_queues_takes_no_messages(tmp_path: Path) -> None:
    config = tmp_path / "store" / "config"
    config.mkdir(parents=True)
    (config / "topics.json").write_text('{"topicConfigTable":{"shut":{"writeQueueNums":0}}}')
    with open_store(tmp_path / "store") as store:
        for put in (
            lambda: store.put_message(Message("shut")),
            lambda: store.put_message(Message("shut", queue_id=0)),
            lambda: store.put_columns(pa.table({"topic": ["shut"]})),
        ):
            with pytest.raises(UsageError, match="shut takes no messages"):
                put()
        store.create_topic("shut", 1)
        assert store.put_message(Message("shut")).status is OK


def test_numbers_of_queues_are_those_that_java_holds(tmp_path: Path) -> None:
    root = build(tmp_path / "store", [message(0, queue_id=(1 << 31) - 1)])
    sizes = {"mapped_file_size_commit_log": 2048, "mapped_file_size_consume_queue": 320, "max_hash_slot_num": 7}
    for _ in range(2):
        with open_store(root, **sizes, max_index_num=12) as store, pytest.raises(UsageError, match="1 to 2147483647"):
            store.create_topic("U", 1 << 31)
    topic = json.loads((root / "config" / "topics.json").read_text())["topicConfigTable"]["TopicA"]
    assert (topic["readQueueNums"], topic["writeQueueNums"]) == ((1 << 31) - 1, (1 << 31) - 1)


def test_topics_are_kept_as_the_broker_keeps_them(tmp_path: Path) -> None:
    with open_store(tmp_path / "store") as store:
        store.put_message(Message("orders"))
        store.create_topic("заказы", 2)
    text = (tmp_path / "store" / "config" / "topics.json").read_text("utf-8")
    assert text.startswith('{\n\t"dataVersion":{\n\t\t"counter":2,\n\t\t"stateVersion":0,\n\t\t"timestamp":17')
    topics = json.loads(text)["topicConfigTable"]
    assert topics["orders"] == {
        "attributes": {},
        "order": False,
        "perm": 6,
        "readQueueNums": 4,
        "topicFilterType": "SINGLE_TAG",
        "topicName": "orders",
        "topicSysFlag": 0,
        "writeQueueNums": 4,
    }
    assert topics["заказы"]["writeQueueNums"] == 2
    backup = json.loads((tmp_path / "store" / "config" / "topics.json.bak").read_text("utf-8"))
    assert list(backup["topicConfigTable"]) == ["orders"]


def test_a_batch_is_one_unit(tmp_path: Path) -> None:
    with open_store(tmp_path / "store") as store:
        store.put_message(Message("orders", bytes(3000), queue_id=1))
        put = store.put_messages(Message("orders", bytes(200), keys=f"b{turn}", queue_id=1) for turn in range(5))
        assert (put.status, put.physical_offset, put.queue_offset, put.msg_num) == (OK, 4096, 1, 5)
        assert len((put.msg_id or "").split(",")) == 5
        assert store.put_message(Message("orders", queue_id=1)).queue_offset == 6
        too_large = [Message("orders", bytes(1000), queue_id=1)] * 5
        assert store.put_messages(too_large).status is PutMessageStatus.MESSAGE_ILLEGAL
        with pytest.raises(UsageError, match="one topic"):
            store.put_messages([Message("orders"), Message("others")])
        for illegal in (Message("orders", delay_level=1), Message("orders", sys_flag=4)):
            assert store.put_messages([illegal]).status is PutMessageStatus.MESSAGE_ILLEGAL
    require_sound(tmp_path / "store")


@pytest.mark.parametrize(
    ("bad", "status"),
    [
        ({"tags": "a\x02b"}, None),
        ({"flag": 1 << 31}, None),
        ({"body": bytes(1001)}, PutMessageStatus.MESSAGE_ILLEGAL),
        ({"properties": {"a": "x" * 40_000}}, PutMessageStatus.PROPERTIES_SIZE_EXCEEDED),
        ({"properties": {"INNER_NUM": "3"}}, PutMessageStatus.MESSAGE_ILLEGAL),
        ({"delay_level": 1}, PutMessageStatus.MESSAGE_ILLEGAL),
    ],
)
def test_a_batch_with_one_bad_message_leaves_nothing(
    bad: dict[str, Any], status: PutMessageStatus | None, tmp_path: Path
) -> None:
    """Whether the message is an error of the caller or is refused with a status."""
    with open_store(tmp_path / "store", max_message_size=1000) as store:
        good = Message("orders", b"good", keys="k", queue_id=0)
        batch = [good, replace(good, **bad)]
        if status is None:
            with pytest.raises(UsageError):
                store.put_messages(batch)
        else:
            assert store.put_messages(batch).status is status
        assert (store.max_phy_offset, store.stats.put_messages) == (0, 0)
        [first, _] = sorted((tmp_path / "store" / "commitlog").iterdir())
        assert not any(first.read_bytes())
        put = store.put_messages([good, good])
        assert (put.status, put.physical_offset, put.queue_offset, put.msg_num) == (OK, 0, 0, 2)
        store.dispatch()
        assert len(store.query_message("orders", "k").messages) == 2
    require_sound(tmp_path / "store")


def test_delayed_and_half_messages(tmp_path: Path) -> None:
    with open_store(tmp_path / "store") as store:
        delayed = store.put_message(Message("orders", b"later", delay_level=3, queue_id=2))
        assert (delayed.topic, delayed.queue_id) == (b"SCHEDULE_TOPIC_XXXX", 2)
        assert store.put_message(Message("orders", delay_level=99)).queue_id == 17
        prepared, rollback = (store.put_message(Message("orders", sys_flag=flag, queue_id=0)) for flag in (4, 12))
        assert (prepared.queue_offset, rollback.queue_offset) == (0, 0)
        assert store.put_message(Message("orders", sys_flag=8, queue_id=0)).queue_offset == 0
        store.dispatch()
        [message] = store.get_message("SCHEDULE_TOPIC_XXXX", 2, 0).messages
        assert (message.properties[b"REAL_TOPIC"], message.properties[b"REAL_QID"]) == (b"orders", b"2")
        assert len(store.get_message("orders", 0, 0).messages) == 1
    require_sound(tmp_path / "store")


def test_a_store_that_was_closed_goes_on(tmp_path: Path) -> None:
    for turn in range(4):
        with open_store(tmp_path / "store") as store:
            assert store.load_report.was_clean
            assert store.load_report.queues_from == store.load_report.index_from == store.max_phy_offset
            fill(store, 50, 50 * turn)
        assert not (tmp_path / "store" / "abort").exists()
        require_sound(tmp_path / "store")
    with open_store(tmp_path / "store") as store:
        assert [len(store.query_message("orders", f"k{turn}").messages) for turn in range(200)] == [1] * 200
        assert store.put_message(Message("orders", queue_id=1)).queue_offset == 67


def test_one_writer(tmp_path: Path) -> None:
    with open_store(tmp_path / "store") as store:
        assert (tmp_path / "store" / "lock").read_bytes() == b"lock"
        with pytest.raises(LogInUseError):
            open_store(tmp_path / "store")
        assert store.put_message(Message("orders")).status is OK
    open_store(tmp_path / "store").close()


def test_a_closed_store_takes_and_gives_nothing(tmp_path: Path) -> None:
    store = open_store(tmp_path / "store")
    store.close()
    store.close()
    assert store.put_message(Message("orders")).status is PutMessageStatus.SERVICE_NOT_AVAILABLE
    with pytest.raises(LogClosedError):
        store.get_message("orders", 0, 0)
    with pytest.raises(LogClosedError):
        store.flush()


def test_what_cannot_be_opened(tmp_path: Path) -> None:
    with pytest.raises(MissingFileError):
        open_store(tmp_path / "none", create=False)
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(UsageError, match="not a directory"):
        open_store(tmp_path / "file")
    with pytest.raises(UsageError, match="unknown setting: speed"):
        open_store(tmp_path / "store", speed=1)
    with pytest.raises(UsageError, match="flush"):
        open_store(tmp_path / "store", flush="never")
    open_store(tmp_path / "store").close()
    with pytest.raises(UsageError, match="mapped"):
        open_store(tmp_path / "store", mapped_file_size_commit_log=8192)
    open_store(tmp_path / "store").close()


def test_a_refused_index_file_is_no_damaged_one(tmp_path: Path) -> None:
    """An IndexFile that the system does not open now is neither removed nor derived again."""
    with open_store(tmp_path / "store") as store:
        fill(store, 100)
    before = contents(tmp_path / "store" / "index")
    assert len(before) > 2
    clean = FaultEnv(str(tmp_path / "store"))
    open_store(tmp_path / "store", env=clean).close()
    opened = [path for kind, path in clean.log if kind == "open_read"]
    refused = 0
    for at in (place for place, path in enumerate(opened, 1) if Path(path).parent.name == "index"):
        copy = shutil.copytree(tmp_path / "store", tmp_path / str(at))
        env = FaultEnv(str(copy), Fault(at, errno.EMFILE, frozenset({"open_read"})))
        try:
            with open_store(copy, env=env) as store:
                assert store.load_report.removed_index_files == []
        except StorageError:
            refused += 1
        assert contents(copy / "index") == before
    assert refused >= len(before)


def test_queries_between_puts_see_every_index_file(tmp_path: Path) -> None:
    with open_store(tmp_path / "store") as store:
        for number in range(150):
            store.put_message(Message("orders", keys=(f"a-{number}", f"b-{number // 40}"), queue_id=0))
            store.dispatch()
            for key, count in ((f"a-{number}", 1), (f"a-{number // 2}", 1), (f"b-{number // 40}", number % 40 + 1)):
                found = store.query_message("orders", key)
                assert (len(found.messages), found.complete) == (count, True)
        assert len(list((tmp_path / "store" / "index").iterdir())) > 5
        assert store.delete_expired(hours=0, now_ms=1 << 50).index_files
        assert not store.query_message("orders", "a-0").messages
        assert store.query_message("orders", "a-149").messages


def test_threads_flush_and_dispatch(tmp_path: Path) -> None:
    with open_store(tmp_path / "store", background=True, flush="sync") as store:

        def put(number: int) -> None:
            for turn in range(20):
                assert store.put_message(Message("orders", keys=f"{number}-{turn}", queue_id=number)).status is OK

        threads = [threading.Thread(target=put, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert store.wait_dispatched(60)
        for number in range(4):
            messages = store.get_message("orders", number, 0, 99).messages
            assert [message.keys for message in messages] == [[b"%d-%d" % (number, turn)] for turn in range(20)]
    require_sound(tmp_path / "store")


def test_who_waits_for_the_dispatch_wakes_it(tmp_path: Path) -> None:
    with open_store(tmp_path / "store", background=True, reput_interval_ms=3_600_000) as store:
        for turn in range(3):
            store.put_message(Message("orders", keys=f"{turn}", queue_id=0))
            assert store.wait_dispatched(60)
            assert store.query_message("orders", f"{turn}").messages


def test_4_9_stores_have_no_last_separator(tmp_path: Path) -> None:
    with open_store(tmp_path / "store", rocketmq_version="4.9.7") as store:
        store.put_message(Message("orders", keys="a"))
        assert not store.look_message_by_offset(0).properties_raw.endswith(b"\x02")
        assert store.put_message(Message("t" * 128)).status is PutMessageStatus.MESSAGE_ILLEGAL
    report = verify(str(tmp_path / "store"), StoreConfig(**SIZES))
    assert report.is_sound


def test_the_log_is_flushed_where_there_is_no_room_for_the_next_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(files: LogFiles) -> bool:
        raise StorageError("no space is left", path=files.directory, errno=errno.ENOSPC)

    fast = {"background": True, "flush_interval_commit_log_ms": 1, "flush_commit_log_thorough_interval_ms": 1}
    with open_store(tmp_path / "store", **fast) as store:
        monkeypatch.setattr(LogFiles, "prepare", refuse)
        for turn in range(3):
            fill(store, 1, first=turn)
            until = time.monotonic() + 5
            while store._core.durable_offset < store.max_phy_offset and time.monotonic() < until:
                time.sleep(0.002)
            assert store._core.durable_offset == store.max_phy_offset
        monkeypatch.undo()
