"""What is no message, or has values that no message can have, is refused with what to write
instead, before anything is written."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from logdex.errors import UsageError
from logdex.rocketmq.message_store.put.message import Message, PutMessageStatus
from tests.unit.rocketmq.message_store.open_stores import open_store, require_sound

ANY_MESSAGE: Any = Message
"""`Message`, which a type checker takes with any values."""
WRONG: dict[str, tuple[Callable[[], Any], str]] = {
    "bytes": (lambda: b"x", "only messages can be put, not bytes .put_message"),
    "a dict": (lambda: {"topic": "orders"}, "not dict"),
    "nothing": (lambda: None, "not NoneType"),
    "a topic that is a number": (lambda: ANY_MESSAGE(7, b"x"), "topic is text, not int"),
    "a topic that is a list": (lambda: ANY_MESSAGE(["orders"], b"x"), "topic is text, not list"),
    "no topic": (lambda: ANY_MESSAGE(None, b"x"), "topic is text, not NoneType"),
    "a text body": (lambda: ANY_MESSAGE("orders", "paid"), "body must be bytes, not str .encode text"),
    "a number as body": (lambda: ANY_MESSAGE("orders", 7), "body must be bytes, not int"),
    "several tags": (lambda: ANY_MESSAGE("orders", b"x", tags=["a"]), "tag is text, not list"),
    "keys in a dict": (lambda: ANY_MESSAGE("orders", b"x", keys={"a": "b"}), "keys are texts, not dict"),
    "a number as key": (lambda: ANY_MESSAGE("orders", b"x", keys=7), "keys are texts, not int"),
    "numbers as keys": (lambda: ANY_MESSAGE("orders", b"x", keys=[7]), "keys are texts"),
    "properties as pairs": (
        lambda: ANY_MESSAGE("orders", b"x", properties=[("a", "b")]),
        "properties are a dict, not list",
    ),
    "a number as property": (
        lambda: ANY_MESSAGE("orders", b"x", properties={"a": 1}),
        "property is 'a': 1, and both must be text",
    ),
    "another tag as property": (
        lambda: Message("orders", b"x", tags="A", properties={"TAGS": "B"}),
        "tags are 'A', and its property TAGS is 'B' .give tags, and leave TAGS out",
    ),
    "other keys as property": (
        lambda: Message("orders", b"x", keys=("a", "b"), properties={b"KEYS": b"a c"}),
        r"keys are \('a', 'b'\), and its property KEYS is b'a c' .give keys",
    ),
    "a text as queue": (lambda: ANY_MESSAGE("orders", b"x", queue_id="0"), "queue_id is '0'"),
    "a truth value as queue": (lambda: ANY_MESSAGE("orders", b"x", queue_id=True), "queue_id is True"),
    "a number as born host": (
        lambda: ANY_MESSAGE("orders", b"x", born_host=5),
        "5 is not a host .write 127.0.0.1:10911",
    ),
    "a number as store host": (lambda: ANY_MESSAGE("orders", b"x", store_host=5), "5 is not a host"),
    "a text as time": (lambda: ANY_MESSAGE("orders", b"x", born_timestamp_ms="now"), "born_timestamp_ms is 'now'"),
}


@pytest.mark.parametrize("case", WRONG)
def test_it_is_refused_with_what_to_write(case: str, tmp_path: Path) -> None:
    make, told = WRONG[case]
    with open_store(tmp_path / "store") as store:
        for is_known in (False, True):  # the first message of a topic takes another way than those after it
            for put in (store.put_message, store.put_half, lambda each: store.put_messages([each])):
                with pytest.raises(UsageError, match=told):
                    put(make())
            assert len(store.queues()) == is_known
            if not is_known:
                store.put_message(Message("orders", b"x", queue_id=0))
                store.dispatch()


def test_the_same_keys_and_tags_may_be_given_twice(tmp_path: Path) -> None:
    with open_store(tmp_path / "store", unique_keys=False) as store:
        put = store.put_message(Message("t", tags="A", keys=("a", "b"), properties={"TAGS": "A", "KEYS": "a b"}))
        assert store.look_message_by_offset(put.physical_offset).properties == {b"TAGS": b"A", b"KEYS": b"a b"}


@pytest.mark.parametrize("name", ["delay_level", "flag", "sys_flag", "reconsume_times", "prepared_transaction_offset"])
@pytest.mark.parametrize("properties", [None, {"trace": "1"}])
def test_a_number_that_is_none_is_zero(name: str, properties: dict[str, str] | None, tmp_path: Path) -> None:
    with open_store(tmp_path / "store") as store:
        for _ in range(2):  # the first message of a topic takes another way than those after it
            for put in (store.put_message, store.put_half, lambda each: store.put_messages([each])):
                message = ANY_MESSAGE("orders", b"x", queue_id=0, properties=properties, **{name: None})
                result = put(message)
                assert result.status is PutMessageStatus.PUT_OK
                assert getattr(message, name) is None
                stored = store.look_message_by_offset(result.physical_offset)
                assert (stored.flag, stored.sys_flag, stored.reconsume_times) == (0, 0, 0)
                assert stored.prepared_transaction_offset == 0
    require_sound(tmp_path / "store")


def test_put_messages_takes_several(tmp_path: Path) -> None:
    with open_store(tmp_path / "store") as store:
        for one in (Message("orders", b"x"), b"x", None):
            several: Any = one
            with pytest.raises(UsageError, match=f"put_messages takes several messages, not {type(one).__name__}"):
                store.put_messages(several)
        table: Any = {"topic": ["orders"]}
        with pytest.raises(UsageError, match="put_columns takes an Arrow table, not dict"):
            store.put_columns(table)


def test_frames_are_told_how_to_become_tables(tmp_path: Path) -> None:
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    rows: dict[str, Any] = {"topic": ["orders", "orders"], "body": [b"1", b"2"]}
    frame, other = pandas.DataFrame(rows), polars.DataFrame(rows)
    with open_store(tmp_path / "store") as store:
        with pytest.raises(UsageError, match=r"not DataFrame .pyarrow.Table.from_pandas.frame, preserve_index=False"):
            store.put_columns(frame[1:])
        with pytest.raises(UsageError, match=r"not DataFrame .frame.to_arrow"):
            store.put_columns(other)
        assert store.put_columns(pa.Table.from_pandas(frame[1:], preserve_index=False)).msg_num == 1
        assert store.put_columns(other.to_arrow()).msg_num == 2
