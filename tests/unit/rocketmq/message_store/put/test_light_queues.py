"""The store itself gives a message its places in light queues, as the engine does, whatever a
caller says: with places of callers, two messages could have one place in a queue."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from logdex.convert.filter.store import filter_store
from logdex.errors import UsageError
from logdex.rocketmq import Message, MessageStore, PutMessageStatus
from logdex.rocketmq.snapshot.store_snapshot import StoreSnapshot
from tests.cli.helpers import run
from tests.unit.rocketmq.message_store.open_stores import SIZES, crash, open_store, require_sound

BOTH = {"INNER_MULTI_DISPATCH": "%LMQ%a,%LMQ%b", "INNER_MULTI_QUEUE_OFFSET": "7,7"}
ONE = {"INNER_MULTI_DISPATCH": "%LMQ%a", "INNER_MULTI_QUEUE_OFFSET": "0"}
PLACES = b"INNER_MULTI_QUEUE_OFFSET"


def light(body: bytes = b"x", properties: dict[str, str] = ONE, **more: Any) -> Message:
    return Message("T", body, queue_id=0, properties=properties, **more)


def put_all_ways(store: MessageStore) -> None:
    """Puts a message for light queues in each way there is: 11 for one of them, 5 for the other."""
    for _ in range(3):
        assert store.put_message(light()).is_stored
    assert store.put_messages([light(), light(properties=BOTH)]).is_stored
    pairs = [list(ONE.items()), list(BOTH.items()), None, list(BOTH.items())]
    maps = pa.array(pairs, pa.map_(pa.string(), pa.string()))
    table = pa.table({"topic": ["T"] * 4, "queue_id": [0] * 4, "body": ["1", "2", "3", "4"], "properties": maps})
    put = store.put_columns(table)
    assert (put.status, put.msg_num) == (PutMessageStatus.PUT_OK, 4)
    assert store.put_message(light(properties=BOTH, delay_level=1)).is_stored
    half = store.put_half(light(b"half", BOTH))
    assert store.deliver_due(1 << 60) > 0
    assert store.end_transaction(half, commit=True).is_stored
    assert store.put_message(light(properties={**ONE, "WAIT": "true"})).is_stored


def entries(store: MessageStore, name: str) -> list[int]:
    store.dispatch()
    return list(store.get_message(name, 0, 0, 100).phy_offsets)


@pytest.mark.parametrize("version", ["4.9.7", "5.1.4", "5.5.0"])
def test_each_message_has_a_place_of_its_own(version: str, tmp_path: Path) -> None:
    with open_store(tmp_path / "store", rocketmq_version=version) as store:
        put_all_ways(store)
        a, b = entries(store, "%LMQ%a"), entries(store, "%LMQ%b")
        assert (len(a), len(b)) == (11, 5)
        assert a == sorted(set(a))
        assert set(b) <= set(a)
        last = store.look_message_by_offset(a[-1])
        assert (last.properties[PLACES], last.properties.get(b"WAIT")) == (b"10", None)
        assert store.look_message_by_offset(b[-1]).properties[PLACES] == b"9,4"
    require_sound(tmp_path / "store")


def test_places_go_on_after_a_close_and_a_kill(tmp_path: Path) -> None:
    for turn in range(3):
        with open_store(tmp_path / "store") as store:
            put_all_ways(store)
            assert len(entries(store, "%LMQ%a")) == 11 * (turn + 1)
            if turn == 1:
                store.flush()
                crash(store)
    require_sound(tmp_path / "store")


def test_a_half_message_is_in_no_light_queue(tmp_path: Path) -> None:
    with open_store(tmp_path / "store") as store:
        half = store.put_half(light(b"half"))
        assert store.get_message("%LMQ%a", 0, 0).phy_offsets == ()
        assert PLACES not in store.look_message_by_offset(half.physical_offset).properties
        committed = store.end_transaction(half, commit=True)
        assert entries(store, "%LMQ%a") == [committed.physical_offset]


def test_other_messages_keep_their_properties(tmp_path: Path) -> None:
    """Those of topics that the engine does not dispatch to light queues, and those that name
    none."""
    blank = {**ONE, "INNER_MULTI_DISPATCH": " "}
    no_names = {"INNER_MULTI_QUEUE_OFFSET": "3"}
    with open_store(tmp_path / "store") as store:
        for topic, properties in (("%RETRY%G", ONE), ("rmq_sys_x", ONE), ("T", blank), ("T", no_names)):
            put = store.put_message(Message(topic, b"x", queue_id=0, properties=properties))
            kept = store.look_message_by_offset(put.physical_offset).properties
            assert {name.encode(): value.encode() for name, value in properties.items()}.items() <= kept.items()
        store.dispatch()
        assert all(not queue.topic.startswith(b"%LMQ%") for queue in store.queues())
    require_sound(tmp_path / "store")


@pytest.mark.parametrize("name", ["%LMQ%a\0", "..", ",%LMQ%a", "x" * 300])
def test_a_name_without_a_folder_is_refused(name: str, tmp_path: Path) -> None:
    with open_store(tmp_path / "store") as store:
        with pytest.raises(UsageError, match=r"light queue|zero byte"):
            store.put_message(light(properties={"INNER_MULTI_DISPATCH": name}))
        assert store.max_phy_offset == 0
        store.put_message(light(properties={"INNER_MULTI_DISPATCH": name.replace("\0", "")}, delay_level=1))
        assert store.deliver_due(1 << 60) == 1  # what is stored already is delivered, without the light queue
        assert store.put_message(light(properties={"INNER_MULTI_DISPATCH": "%LMQ%a/b,%LMQ%c"})).is_stored
        assert len(entries(store, "%LMQ%c")) == 1
    require_sound(tmp_path / "store")


def test_properties_that_grow_too_long_are_refused(tmp_path: Path) -> None:
    """The digits of the places decide."""
    with open_store(tmp_path / "store", mapped_file_size_commit_log=1 << 17, unique_keys=False) as store:
        for _ in range(10):
            store.put_message(light())
        stored = [("INNER_MULTI_DISPATCH", "%LMQ%a"), ("INNER_MULTI_QUEUE_OFFSET", "10"), ("p", "")]
        room = 32767 - sum(len(name) + len(value) + 2 for name, value in stored)
        for more, status in ((1, PutMessageStatus.PROPERTIES_SIZE_EXCEEDED), (0, PutMessageStatus.PUT_OK)):
            assert store.put_message(light(properties={**ONE, "p": "x" * (room + more)})).status is status
            assert len(entries(store, "%LMQ%a")) == (10 if more else 11)


def test_a_filtered_store_numbers_them_anew(tmp_path: Path) -> None:
    with open_store(tmp_path / "store") as store:
        put_all_ways(store)
    new = tmp_path / "new"
    with StoreSnapshot(tmp_path / "store", **SIZES) as snapshot:
        scan = snapshot.scan()
        report = filter_store(snapshot, scan, new, lambda message, _: message.body in (b"2", b"4", b"half"), source="s")
        assert report.losses == []
    require_sound(new)
    with open_store(new) as store:
        assert [store.look_message_by_offset(at).properties[PLACES] for at in entries(store, "%LMQ%a")] == [
            *(b"0,0", b"1,1", b"2,2")
        ]


def test_the_lines_of_cat_are_put_again(tmp_path: Path) -> None:
    flags = ("--mapped-file-size-consume-queue", 200)
    with open_store(tmp_path / "store") as store:
        put_all_ways(store)
    lines = tmp_path / "lines"
    lines.write_text(run("cat", tmp_path / "store", "--topic", "T", "--json", *flags).stdout, encoding="utf-8")
    for turn in range(2):
        put = run("put", tmp_path / "store", "--topic", "T", "--file", lines, *flags)
        assert put.exit_code == 0, (turn, put)
    require_sound(tmp_path / "store")
