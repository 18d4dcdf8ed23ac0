"""`MessageStore` and the real engine take turns on one directory: each opens what the other left,
reads all of it, and goes on."""

from __future__ import annotations

import base64
import json
import zlib
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from logdex.layout.rocketmq import SYS_FLAG_COMPRESSED
from logdex.rocketmq.message_store.message_store import MessageStore
from logdex.rocketmq.message_store.put.message import Message
from logdex.rocketmq.settings.dialect import Dialect
from logdex.rocketmq.settings.store_config import StoreConfig
from logdex.rocketmq.verify import verify
from tests.interop.rocketmq.engines import VERSIONS
from tests.interop.rocketmq.scenarios import run_peer

pytestmark = [pytest.mark.needs_java, pytest.mark.slow, pytest.mark.timeout(1200)]

SIZES: dict[str, Any] = {
    "mapped_file_size_commit_log": 16384,
    "mapped_file_size_consume_queue": 400,
    "max_hash_slot_num": 100,
    "max_index_num": 1000,
}
FEATURES = "tags,keys,uniq,userprops,empty,compressed,reconsume,trans,batch,ipv6,seconds"
ROUNDS = 3


def put_all_kinds(store: MessageStore, turn: int) -> list[tuple[str, str]]:
    """Puts messages of every kind; returns (topic, key) of those that have keys."""
    found = []
    for number in range(40):
        topic, key = ("TopicA", "ours")[number % 2], f"{turn}-{number}"
        message = Message(topic, b"x" * (number * 20), tags="paid", keys=(key, "all"), properties={"color": "red"})
        if number % 8 == 5:
            message.sys_flag = 8
        if number % 8 == 3:
            message.delay_level, key = 2, ""
        if number % 8 == 6:
            message.born_host = "[2001:db8::1]:4000"
            message.reconsume_times = number
        if number % 8 == 4:
            message.body, message.sys_flag = zlib.compress(message.body), SYS_FLAG_COMPRESSED
        if number % 8 in (2, 3):  # the second is for later delivery
            names = "%LMQ%a" if number % 16 < 8 else "%LMQ%a,%LMQ%b"
            message.properties = {"color": "red", "INNER_MULTI_DISPATCH": names}
        assert store.put_message(message).is_stored
        if key:
            found.append((topic, key))
    assert store.put_message(Message("TopicA", b"half", sys_flag=4)).is_stored
    assert store.put_message(Message("TopicA", b"", sys_flag=12)).is_stored
    long = f"long{turn}"
    if store.put_message(Message("L" * 200, b"v2", keys=long)).is_stored:  # refused before 5.0
        found.append(("L" * 200, long))
    light = {"INNER_MULTI_DISPATCH": "%LMQ%b", "INNER_MULTI_QUEUE_OFFSET": "3"}  # the store decides
    assert store.end_transaction(store.put_half(Message("ours", b"light", properties=light)), commit=True).is_stored
    halves = [store.put_half(Message("ours", b"half", keys=f"h{turn}-{place}"), "G") for place in range(3)]
    for half, commit in zip(halves[:2], (True, False), strict=True):
        assert store.end_transaction(half, commit=commit).is_stored
    found.append(("ours", f"h{turn}-0"))
    assert store.deliver_due(1 << 60) > 0
    batch = [Message("ours", b"batch", keys=f"b{turn}-{place}") for place in range(5)]
    assert store.put_messages(batch).is_stored
    keys = [f"c{turn}-{place}" for place in range(30)]
    assert store.put_columns(pa.table({"topic": ["ours"] * 30, "body": ["text"] * 30, "keys": keys})).is_stored
    return found + [("ours", key) for key in keys] + [("ours", f"b{turn}-{place}") for place in range(5)]


def require_sound(store: Path, version: str) -> None:
    report = verify(str(store), StoreConfig(**SIZES, dialect=Dialect.of(version)))
    assert [str(finding) for finding in report.findings] == []


@pytest.mark.parametrize("version", VERSIONS)
def test_ping_pong(version: str, peers_dir: Path, tmp_path: Path) -> None:
    root, asked = tmp_path / "store", list[tuple[str, str]]()
    for turn in range(ROUNDS):
        with MessageStore.open(root, rocketmq_version=version, **SIZES) as store:
            assert store.load_report.was_clean
            assert store.load_report.queues_from == store.max_phy_offset
            asked += put_all_kinds(store, turn)
            ours = store.max_phy_offset
        require_sound(root, version)
        arguments = ("WriteStore", "--dir", root, "--seed", str(turn), "--messages", "60", "--features", FEATURES)
        [summary] = run_peer(peers_dir, version, *arguments, "--topics", "TopicA,TopicB").splitlines()
        assert json.loads(summary)["maxPhyOffset"] > ours
        require_sound(root, version)
        queries = tmp_path / "queries"
        lines_asked = [f"{topic}\t{key}\t64\t0\t{1 << 62}\n" for topic, key in asked]
        if Dialect.of(version).tags_in_index:
            lines_asked.append(f"ours\tpaid\t64\t0\t{1 << 62}\tT\n")
        queries.write_text("".join(lines_asked), "utf-8")
        text = run_peer(peers_dir, version, "DumpStore", "--dir", root, "--queries", queries)
        lines = [json.loads(line) for line in text.splitlines()]
        with MessageStore.open(root, rocketmq_version=version, **SIZES) as store:
            assert store.load_report.was_clean
            check_dump(store, lines, asked)


def test_light_queues_go_on(peers_dir: Path, tmp_path: Path) -> None:
    """The engine with enableLmq and enableMultiDispatch goes on with our places in light queues,
    and we with its."""
    root, version, counts = tmp_path / "store", "5.5.0", list[int]()
    for _ in range(2):
        with MessageStore.open(root, rocketmq_version=version, **SIZES) as store:
            for number in range(15):
                names = "%LMQ%a" if number % 2 else "%LMQ%b,%LMQ%a"
                light = {"INNER_MULTI_DISPATCH": names, "INNER_MULTI_QUEUE_OFFSET": "0,0"}
                assert store.put_message(Message("T", b"ours", properties=light)).is_stored
        require_sound(root, version)
        run_peer(peers_dir, version, "WriteScenario", "--what", "lmq", "--dir", root, "--messages", "40")
        require_sound(root, version)
        with MessageStore.open(root, rocketmq_version=version, **SIZES) as store:
            found = store.get_message("%LMQ%a", 0, 0, 1000).messages
            counts.append(len(found))
            places = []
            for message in found:
                queues = message.properties[b"INNER_MULTI_DISPATCH"].split(b",")
                offsets = message.properties[b"INNER_MULTI_QUEUE_OFFSET"].split(b",")
                places.append(int(offsets[queues.index(b"%LMQ%a")]))
            assert places == list(range(len(found)))
    assert counts == [15 + 20, 2 * (15 + 20)]


def check_dump(store: MessageStore, lines: list[dict[str, Any]], asked: list[tuple[str, str]]) -> None:
    """The engine and the store say the same of all messages, entries and keys."""
    messages = [line for line in lines if line["type"] == "message"]
    assert messages[-1]["physicalOffset"] + messages[-1]["size"] == store.max_phy_offset
    for line in messages:
        message = store.look_message_by_offset(line["physicalOffset"])
        assert (message.size_bytes, message.queue_offset) == (line["size"], line["queueOffset"])
        assert (message.topic.decode(), message.queue_id) == (line["topic"], line["queueId"])
        assert (message.sys_flag, message.reconsume_times) == (line["sysFlag"], line["reconsumeTimes"])
        assert base64.b64encode(message.body).decode() == line["body"]
        assert message.properties_raw.decode().rstrip("\x02") == line["properties"].rstrip("\x02")
    ours = [store.look_message_by_offset(line["physicalOffset"]) for line in messages]
    assert {message.reconsume_times for message in ours} > {0, 6}
    assert any(message.sys_flag & SYS_FLAG_COMPRESSED for message in ours)
    entries = [line for line in lines if line["type"] == "entry"]
    assert {line["topic"] for line in entries} > {"%LMQ%a", "%LMQ%b", "ours"}
    # DumpStore looks for what it has read under a message's own offset, also for a light queue.
    assert all(line["read"] for line in entries if not line["topic"].startswith("%LMQ%"))
    for queue in store.queues():
        name = (queue.topic.decode(), queue.queue_id)
        offsets = [line["physicalOffset"] for line in entries if (line["topic"], line["queueId"]) == name]
        assert list(store.get_message(queue.topic, queue.queue_id, 0, 10_000).phy_offsets) == offsets
    answers = [line for line in lines if line["type"] == "query"]
    by_tag = [line for line in answers if line.get("indexType")]
    assert len(by_tag) == store.core.config.dialect.tags_in_index
    assert len(answers) == len(asked) + len(by_tag)
    for line in answers:
        topic, key, index_type = line["topic"], line["key"], line.get("indexType")
        same = store.query_message(topic, key, 0, 1 << 62, 64, broker_semantics=True, index_type=index_type)
        assert list(same.phy_offsets) == line["physicalOffsets"]
        exact = store.query_message(topic, key, index_type=index_type).phy_offsets
        assert exact
        if index_type is None:
            assert len(exact) == 1
            assert set(exact) <= set(same.phy_offsets)
