"""What the engine refuses, and with which status; what no store can hold."""

from __future__ import annotations

from itertools import combinations_with_replacement
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from logdex.errors import UsageError
from logdex.layout.rocketmq import MESSAGE_MAGIC_V1, MESSAGE_MAGIC_V2
from logdex.rocketmq.message_store.message_store import MessageStore
from logdex.rocketmq.message_store.put.message import Message, PutMessageResult, PutMessageStatus
from tests.unit.rocketmq.message_store.open_stores import open_store

LARGE: dict[str, Any] = {"mapped_file_size_commit_log": 1 << 20, "unique_keys": False}


def put_as_row(store: MessageStore, message: Message) -> PutMessageResult:
    row = {"topic": [message.topic], "body": [message.body]}
    if message.properties:
        row["properties"] = pa.array([[*message.properties.items()]], pa.map_(pa.string(), pa.string()))
    return store.put_columns(pa.table(row))


def is_row(message: Message) -> bool:
    """Whether a table can have this message."""
    return message.body is not None and not message.sys_flag and not message.delay_level


@pytest.mark.parametrize(
    ("message", "status"),
    [
        (Message("t" * 255, b"x"), PutMessageStatus.PUT_OK),
        (Message("t" * 256, b"x"), PutMessageStatus.MESSAGE_ILLEGAL),
        (Message("題" * 60, b"x"), PutMessageStatus.MESSAGE_ILLEGAL),
        (Message("orders", None), PutMessageStatus.MESSAGE_ILLEGAL),  # type: ignore[arg-type]
        (Message("orders", bytes(1000)), PutMessageStatus.PUT_OK),
        (Message("orders", bytes(1001)), PutMessageStatus.MESSAGE_ILLEGAL),
        (Message("orders", properties={"a": "x" * (32767 - 3)}), PutMessageStatus.PUT_OK),
        (Message("orders", properties={"a": "x" * (32768 - 3)}), PutMessageStatus.PROPERTIES_SIZE_EXCEEDED),
        (Message("orders", properties={"INNER_NUM": "3"}), PutMessageStatus.MESSAGE_ILLEGAL),
        (Message("orders", sys_flag=0x80), PutMessageStatus.MESSAGE_ILLEGAL),
        (Message("orders", properties={"TIMER_DELAY_SEC": "3"}), PutMessageStatus.WHEEL_TIMER_NOT_ENABLE),
        (Message("orders", properties={"TIMER_DELAY_SEC": "3"}, delay_level=1), PutMessageStatus.PUT_OK),
        (Message("orders", properties={"TIMER_DELIVER_MS": "3", "a": "b"}), PutMessageStatus.WHEEL_TIMER_NOT_ENABLE),
        (Message("orders", properties={"TIMER_DELAY_MS": "3", "TIMER_OUT_MS": "4"}), PutMessageStatus.PUT_OK),
    ],
)
def test_the_engines_checks(message: Message, status: PutMessageStatus, tmp_path: Path) -> None:
    with open_store(tmp_path / "store", max_message_size=1000, **LARGE) as store:
        put = store.put_message(message)
        assert put.status is status
        assert put.is_stored == (status is PutMessageStatus.PUT_OK)
        assert bool(put.remark) == (not put.is_stored)
        assert repr(put).endswith(f", remark={put.remark!r})")
        assert store.max_phy_offset == put.size_bytes
        if is_row(message):
            row = put_as_row(store, message)
            assert (row.status, row.remark, row.size_bytes) == (put.status, put.remark, put.size_bytes)
            assert store.max_phy_offset == 2 * put.size_bytes


@pytest.mark.parametrize(
    ("name", "status"),
    [("INNER_NUM", PutMessageStatus.MESSAGE_ILLEGAL), ("TIMER_DELAY_SEC", PutMessageStatus.WHEEL_TIMER_NOT_ENABLE)],
)
def test_one_row_with_such_a_property_refuses_the_table(name: str, status: PutMessageStatus, tmp_path: Path) -> None:
    """Also beside a row with properties that are too large, and one with a body that is: the engine
    looks at those later."""
    own = [[("a", "b")], [("a", "x" * 40_000)], [(name, "3")], None]
    maps, bodies = pa.array(own, pa.map_(pa.string(), pa.string())), [b"", b"", b"", bytes(2000)]
    with open_store(tmp_path / "store", max_message_size=1000, **LARGE) as store:
        put = store.put_columns(pa.table({"topic": ["orders"] * 4, "body": bodies, "properties": maps}))
        assert (put.status, store.max_phy_offset) == (status, 0)
    message = Message("orders", properties={name: "3"})
    with open_store(tmp_path / "older", rocketmq_version="4.9.7", **LARGE) as store:
        for put in (store.put_message(message), put_as_row(store, message)):
            assert put.is_stored == (status is PutMessageStatus.WHEEL_TIMER_NOT_ENABLE)


REASONS: list[tuple[Message, str]] = [
    (Message("t" * 300), "the topic has 300 bytes, and 255 are stored at most"),
    (Message("orders", None), "the body is None: give b'' for none"),  # type: ignore[arg-type]
    (Message("orders", bytes(1001)), "the body has 1,001 bytes, and max_message_size is 1,000"),
    (
        Message("orders", properties={"a": "x" * 40_000}),
        "the properties, with keys and tags, have 40,003 bytes, and 32,767 at most are stored",
    ),
    (Message("orders", properties={"INNER_NUM": "3"}), "the message has the property of an inner batch, INNER_NUM"),
    (
        Message("orders", properties={"TIMER_DELAY_SEC": "3"}),
        "the message is for a time, and this store has no timer wheel",
    ),
    (Message("orders", sys_flag=0x80), "sys_flag 128 has the bit of an inner batch, 128"),
]


@pytest.mark.parametrize(("message", "reason"), REASONS)
def test_the_one_reason_is_told(message: Message, reason: str, tmp_path: Path) -> None:
    with open_store(tmp_path / "store", max_message_size=1000, **LARGE) as store:
        for put in (store.put_message, lambda each: store.put_messages([each])):
            assert put(message).remark == reason
        if is_row(message):
            assert put_as_row(store, message).remark == reason
        assert store.put_columns(pa.table({"topic": ["a", None]})).remark == "a row has no topic"
        batch = [Message("orders", bytes(400), queue_id=0)] * 3
        assert store.put_messages(batch).remark == "the batch has 1,266 bytes, and max_message_size is 1,000"
        batch[1] = Message("orders", queue_id=0, delay_level=1)
        assert store.put_messages(batch).remark == "a batch has no transactional and no delayed messages"
    small: dict[str, Any] = {**LARGE, "mapped_file_size_commit_log": 4096}
    with open_store(tmp_path / "small", **small) as store:
        told = "the message has 4,101 bytes, and a file of the CommitLog has room for 4,088"
        assert store.put_message(Message("orders", bytes(4004))).remark == told


@pytest.mark.parametrize(
    "message",
    [
        Message("a/b"),
        Message(""),
        Message(".."),
        Message("a\0b"),
        Message("orders", properties={"": "x"}),
        Message("orders", properties={"a\x01": "x"}),
        Message("orders", properties={"a": "x\x02"}),
        Message("orders", properties={"a": "x\0"}),
        Message("orders", tags="a\x02b"),
        Message("orders", born_host="nowhere"),
        Message("orders", flag=1 << 31),
        Message("orders", queue_id=0, born_timestamp_ms=1 << 63),
    ],
)
def test_what_no_store_can_hold(message: Message, tmp_path: Path) -> None:
    with open_store(tmp_path / "store") as store:
        with pytest.raises(UsageError):
            store.put_message(message)
        assert store.max_phy_offset == 0


def test_a_slave_and_a_busy_page_cache_refuse(tmp_path: Path) -> None:
    busy = [True]
    with open_store(tmp_path / "store", page_cache_busy=lambda: busy[0]) as store:
        assert store.put_message(Message("orders")).status is PutMessageStatus.OS_PAGE_CACHE_BUSY
        assert store.put_message(Message("t" * 256)).status is PutMessageStatus.MESSAGE_ILLEGAL
        busy[0] = False
        assert store.put_message(Message("orders")).is_stored
    with open_store(tmp_path / "store", is_slave=True) as store:
        assert store.put_message(Message("orders")).status is PutMessageStatus.SERVICE_NOT_AVAILABLE


ORDER = [
    ("closed", PutMessageStatus.SERVICE_NOT_AVAILABLE),
    ("failed", PutMessageStatus.SERVICE_NOT_AVAILABLE),
    ("slave", PutMessageStatus.SERVICE_NOT_AVAILABLE),
    ("disk", PutMessageStatus.SERVICE_NOT_AVAILABLE),
    ("topic", PutMessageStatus.MESSAGE_ILLEGAL),
    ("busy", PutMessageStatus.OS_PAGE_CACHE_BUSY),
    ("inner batch", PutMessageStatus.MESSAGE_ILLEGAL),
    ("timer", PutMessageStatus.WHEEL_TIMER_NOT_ENABLE),
    ("properties", PutMessageStatus.PROPERTIES_SIZE_EXCEEDED),
    ("body", PutMessageStatus.MESSAGE_ILLEGAL),
]
"""What is wrong, in the order of the engine's checks."""
OWN = {"inner batch": ("INNER_NUM", "3"), "timer": ("TIMER_DELAY_SEC", "3"), "properties": ("a", "x" * 32768)}
REMARKS = {
    "closed": "it is closed",
    "failed": "a write has failed (no space is left); close it and open it again",
    "slave": "it is a slave (is_slave)",
    "disk": "0 % of the disk is used, over the limit of 90 % (disk_space_warning_level_ratio)",
}


@pytest.mark.parametrize("way", ["one", "batch", "half", "columns"])
def test_the_first_of_the_engines_checks_decides(way: str, tmp_path: Path) -> None:
    faults: set[str] = set()
    options = {"page_cache_busy": lambda: "busy" in faults, "max_message_size": 1000, **LARGE}
    with open_store(tmp_path / "store", **options) as store:
        core = store.core
        put = {
            "one": store.put_message,
            "half": store.put_half,
            "batch": lambda each: store.put_messages([each]),
            "columns": lambda each: put_as_row(store, each),
        }[way]
        for (wrong, status), (also, _) in combinations_with_replacement(ORDER, 2):
            faults.clear()
            faults.update((wrong, also))
            core.closing, core._is_slave, core.disk_full = (name in faults for name in ("closed", "slave", "disk"))
            core.group_commit.failed = OSError("no space is left") if "failed" in faults else None
            told = next((REMARKS[name] for name in REMARKS if name in faults), "")
            message = Message("t" * 256 if "topic" in faults else "t", bytes(1001 if "body" in faults else 0))
            message.properties = dict(OWN[name] for name in OWN if name in faults)
            refused = put(message)
            assert refused.status is status, (wrong, also)
            assert not told or refused.remark == f"the store takes no messages: {told}"
            assert store.max_phy_offset == 0
            if "busy" in faults:
                assert not core.topics.queue_nums(b"t")
        core.closing, core._is_slave, core.disk_full, core.group_commit.failed = False, False, False, None
        faults.clear()
        assert put(Message("t")).is_stored


def test_a_message_must_fit_a_file(tmp_path: Path) -> None:
    with open_store(tmp_path / "store", unique_keys=False) as store:
        assert store.put_message(Message("t", bytes(4096 - 92 - 8))).is_stored
        assert store.put_message(Message("t", bytes(4096 - 92 - 7))).status is PutMessageStatus.MESSAGE_ILLEGAL


def test_the_form_of_a_message(tmp_path: Path) -> None:
    with open_store(tmp_path / "store", born_host="[2001:db8::1]:40000", **LARGE) as store:
        store.put_message(
            Message("orders", b"x", tags="T", keys=("a", "b"), properties={"color": "red"}, flag=-7, reconsume_times=3)
        )
        store.put_message(Message("t" * 200))
        first = store.look_message_by_offset(0)
        assert first.properties == {b"KEYS": b"a b", b"TAGS": b"T", b"color": b"red"}
        assert (first.flag, first.reconsume_times, str(first.born_host)) == (-7, 3, "[2001:db8::1]:40000")
        assert (first.magic, first.sys_flag) == (MESSAGE_MAGIC_V1, 0x10)
        assert store.look_message_by_offset(first.size_bytes).magic == MESSAGE_MAGIC_V2


def test_usual_properties_are_stored_in_the_order_of_the_brokers_map(tmp_path: Path) -> None:
    """A message with properties of its own goes another way through the encoder."""
    with open_store(tmp_path / "store", **LARGE) as store:
        for tags, keys in ((None, "k"), ("t", ()), ("t", ("k", "l"))):
            plain = store.put_message(Message("orders", tags=tags, keys=keys))
            own = {name: value for name, value in (("TAGS", tags), ("KEYS", " ".join(keys))) if value}
            other = store.put_message(Message("orders", properties=own))
            raw, same = (store.look_message_by_offset(put.physical_offset).properties_raw for put in (plain, other))
            assert raw == same
