"""`put_columns`: queues, properties, unique keys, and what is refused as a whole."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from logdex.errors import UsageError
from logdex.rocketmq.message_store.put.message import Message, PutMessageStatus
from logdex.rocketmq.snapshot.store_snapshot import StoreSnapshot
from tests.unit.rocketmq.message_store.open_stores import open_store, require_sound


def test_queues_are_chosen_in_turn_or_by_hash(tmp_path: Path) -> None:
    with open_store(tmp_path / "store") as store:
        put = store.put_columns(pa.table({"topic": ["a", "b", "a", "a", "a", "a"], "body": [b"x"] * 6}))
        assert (put.physical_offset, put.queue_offset, put.topic, put.queue_id, put.msg_num) == (0, 0, b"a", 0, 6)
        store.dispatch()
        assert [(queue.topic, queue.queue_id, queue.max_offset) for queue in store.queues()] == [
            (b"a", 0, 2),
            (b"a", 1, 1),
            (b"a", 2, 1),
            (b"a", 3, 1),
            (b"b", 0, 1),
        ]
        keys = ["one", "two", "one", "three"] * 3
        store.put_columns(pa.table({"topic": ["c"] * 12, "sharding_key": keys, "keys": keys}))
        for key in set(keys):
            assert len({message.queue_id for message in store.query_message("c", key).messages}) == 1
    require_sound(tmp_path / "store")


def test_every_row_has_a_unique_key_and_its_properties(tmp_path: Path) -> None:
    with open_store(tmp_path / "store", mapped_file_size_commit_log=1 << 16) as store:
        maps = pa.array([[("color", "red")], [], None], pa.map_(pa.string(), pa.string()))
        store.put_columns(pa.table({"topic": ["a"] * 3, "tags": ["t", None, "t"], "properties": maps}))
        store.put_columns(pa.table({"topic": pa.array(["a"] * 50).dictionary_encode(), "body": ["text"] * 50}))
        store.dispatch()
        rows = [store.get_message("a", queue, 0, 99).messages for queue in range(4)]
        messages = [message for queue in rows for message in queue]
        assert len({message.unique_key for message in messages}) == 53
        assert sorted(message.properties.get(b"color", b"") for message in messages)[-1] == b"red"
        one = messages[0].unique_key
        assert one is not None
        assert [message.unique_key for message in store.query_message("a", one).messages] == [one]


@pytest.mark.parametrize(
    ("table", "status"),
    [
        ({"topic": ["a", None]}, PutMessageStatus.MESSAGE_ILLEGAL),
        ({"topic": ["a", "t" * 300]}, PutMessageStatus.MESSAGE_ILLEGAL),
        ({"topic": ["a", "a"], "body": [b"", bytes(5000)]}, PutMessageStatus.MESSAGE_ILLEGAL),
        ({"topic": ["a", "a"], "tags": ["", "x" * 40_000]}, PutMessageStatus.PROPERTIES_SIZE_EXCEEDED),
    ],
)
def test_all_rows_or_none(table: dict[str, Any], status: PutMessageStatus, tmp_path: Path) -> None:
    with open_store(tmp_path / "store") as store:
        assert store.put_columns(pa.table(table)).status is status
        assert store.max_phy_offset == 0


@pytest.mark.parametrize(
    ("column", "told"),
    [
        ({"topic": [5]}, "topic is int64, and must have texts or bytes"),
        ({"topic": [["a"]]}, "topic is list<item: string>, and must have texts or bytes"),
        ({"body": [5]}, "body is int64, and must have texts or bytes"),
        ({"tags": [5]}, "tags is int64, and must have texts or bytes"),
        ({"tags": [["x"]]}, "tags is list<item: string>, and must have texts or bytes"),
        ({"keys": [1.5]}, "keys is double, and must have texts or bytes"),
        ({"keys": [[1]]}, "keys is list<item: int64>, and must have texts"),
        ({"keys": [["a", None]]}, "keys has a null among the keys of a row .leave the nulls out"),
        ({"keys": [["b", "c d"]]}, "keys has a key with a space in it, 'c d', and spaces separate keys"),
        ({"unique_key": [1]}, "unique_key is int64, and must have texts or bytes"),
        ({"sharding_key": [1]}, "sharding_key is int64, and must have texts or bytes"),
        ({"queue_id": ["x"]}, "queue_id is string, and must have whole numbers"),
        ({"queue_id": [1.5]}, "queue_id is double, and must have whole numbers"),
        ({"born_timestamp_ms": ["now"]}, "born_timestamp_ms is string, and must have whole numbers"),
        ({"properties": ["x"]}, "properties is string .make it a map"),
        ({"properties": [{"a": "b"}]}, "properties is struct<a: string> .make it a map"),
        ({"properties": pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int64()))}, "1 is neither text nor bytes"),
    ],
)
def test_a_column_of_another_type_is_named(column: dict[str, Any], told: str, tmp_path: Path) -> None:
    with open_store(tmp_path / "store") as store:
        with pytest.raises(UsageError, match=told):
            store.put_columns(pa.table({"topic": ["a"], **column}))
        assert store.max_phy_offset == 0


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "UTC"])
@pytest.mark.parametrize("light", [False, True])
def test_a_timestamp_is_no_number_of_milliseconds(unit: str, zone: str | None, light: bool, tmp_path: Path) -> None:
    times = pa.array([datetime(2024, 1, 1)]).cast(pa.timestamp(unit, tz=zone))
    table = pa.table({"topic": ["a"], "born_timestamp_ms": times})
    if light:
        maps = pa.array([[("INNER_MULTI_DISPATCH", "%LMQ%one")]], pa.map_(pa.string(), pa.string()))
        table = table.append_column("properties", maps)
    with open_store(tmp_path / "store") as store:
        with pytest.raises(UsageError, match=r"born_timestamp_ms is timestamp.*cast it before: to timestamp"):
            store.put_columns(table)
        with pytest.raises(UsageError, match="queue_id is bool"):
            store.put_columns(pa.table({"topic": ["a"], "queue_id": [True]}))
        assert store.max_phy_offset == 0


@pytest.mark.parametrize(
    "table",
    [
        {"body": [b"x"]},
        {"topic": ["a"], "speed": [1]},
        {"topic": ["a/b"]},
        {"topic": ["a"], "queue_id": [4]},
        {"topic": ["a"], "queue_id": pa.array([None], pa.int32())},
        {"topic": ["a"], "tags": ["x\x02"]},
        {"topic": ["a"], "keys": ["x\0"]},
    ],
)
def test_what_no_store_can_hold(table: dict[str, Any], tmp_path: Path) -> None:
    with open_store(tmp_path / "store") as store:
        with pytest.raises(UsageError):
            store.put_columns(pa.table(table))
        assert store.max_phy_offset == 0


def test_a_misspelt_column_is_named(tmp_path: Path) -> None:
    told = r"unknown column: key .did you mean keys"
    with open_store(tmp_path / "store") as store, pytest.raises(UsageError, match=told):
        store.put_columns(pa.table({"topic": ["a"], "key": ["k"]}))


def test_the_columns_of_a_scan(tmp_path: Path) -> None:
    """The hint is what puts the messages of a scan into another store."""
    with open_store(tmp_path / "store") as store:
        store.put_message(Message(topic="a", body=b"1", tags="x", keys="k l"))
        store.put_message(Message(topic="a", body=b"2"))
    with StoreSnapshot(tmp_path / "store") as snapshot:
        table = snapshot.scan().to_arrow().read_all()
    with open_store(tmp_path / "other") as store:
        with pytest.raises(UsageError, match="has no place for queue_offset, physical_offset,") as caught:
            store.put_columns(table)
        assert caught.value.hint is not None
        kept = eval(caught.value.hint.partition(" has")[0], {"table": table})
        store.put_columns(kept)
    with StoreSnapshot(tmp_path / "other") as snapshot:
        again = snapshot.scan().to_arrow().read_all()
    assert again.select(kept.schema.names) == kept


def test_a_column_that_is_there_twice(tmp_path: Path) -> None:
    table = pa.Table.from_arrays([pa.array(["a"]), pa.array(["a"])], names=["topic", "topic"])
    with open_store(tmp_path / "store") as store, pytest.raises(UsageError, match="name each once"):
        store.put_columns(table)


def test_no_rows(tmp_path: Path) -> None:
    with open_store(tmp_path / "store") as store:
        assert store.put_columns(pa.table({"topic": pa.array([], pa.string())})).msg_num == 0
        store.close()
        put = store.put_columns(pa.table({"topic": ["a"]}))
        assert put.status is PutMessageStatus.SERVICE_NOT_AVAILABLE


_TEXT = pa.field("element", pa.string(), nullable=False)


@pytest.mark.parametrize(
    "kind",
    [
        pa.list_(pa.string()),
        pa.list_(_TEXT),
        pa.large_list(_TEXT),
        pa.list_(_TEXT, 2),
        pa.list_(pa.large_string()),
        pa.list_(pa.field("element", pa.binary(), nullable=False)),
        pa.list_(pa.dictionary(pa.int32(), pa.string())),
    ],
    ids=str,
)
def test_keys_in_lists_of_any_kind(tmp_path: Path, kind: pa.DataType) -> None:
    keys = pa.array([["x", "y"], ["a", "b"], None, ["c", "d"]], kind)[1:]
    with open_store(tmp_path / "store") as store:
        assert store.put_columns(pa.table({"topic": ["t"] * 3, "keys": keys})).status is PutMessageStatus.PUT_OK
    with StoreSnapshot(tmp_path / "store") as snapshot:
        assert [message.keys for message in snapshot.scan()] == [[b"a", b"b"], [], [b"c", b"d"]]


def test_unique_keys_are_new_or_given(tmp_path: Path) -> None:
    with open_store(tmp_path / "store", clock_ms=lambda: 1_700_000_000_000) as store:
        table = pa.table({"topic": ["t"] * 300, "body": [b"x"] * 300})
        for _ in range(3):
            store.put_columns(table)
        given = pa.table({"topic": ["t", "t"], "unique_key": ["U1", "U2"]})
        store.put_columns(given)
        store.put_columns(
            given.append_column("properties", pa.array([[("a", "b")], None], pa.map_(pa.string(), pa.string())))
        )
        with StoreSnapshot(store.path) as snapshot:
            keys = [message.unique_key for message in snapshot.scan()]
    assert len(set(keys[:900])) == 900
    assert keys[900:] == [b"U1", b"U2", b"U1", b"U2"]


@pytest.mark.parametrize("with_properties", [False, True])
def test_a_row_without_a_unique_key_gets_a_new_one(with_properties: bool, tmp_path: Path) -> None:
    table = pa.table({"topic": ["t"] * 3, "unique_key": ["U1", None, None]})
    if with_properties:
        maps = pa.array([[("a", "b")], None, [("a", "b")]], pa.map_(pa.string(), pa.string()))
        table = table.append_column("properties", maps)
    with open_store(tmp_path / "store") as store:
        store.put_columns(table)
        with StoreSnapshot(store.path) as snapshot:
            keys = [message.unique_key for message in snapshot.scan()]
    assert keys[0] == b"U1"
    assert len({key for key in keys if key}) == 3


@pytest.mark.parametrize("with_properties", [False, True])
def test_a_record_batch_is_written_as_its_table_is(with_properties: bool, tmp_path: Path) -> None:
    count = 60
    columns: dict[str, Any] = {
        "topic": pa.array([("orders", "payments")[row % 3 // 2] for row in range(count)]).dictionary_encode(),
        "body": [b"body %d" % row for row in range(count)],
        "queue_id": [row % 4 for row in range(count)],
        "tags": [None if row % 7 == 0 else f"t{row % 2}" for row in range(count)],
        "keys": pa.array([None if row % 5 == 0 else [f"k{row}", "every"][: row % 3] for row in range(count)]),
    }
    if with_properties:
        maps = [None if row % 4 == 0 else [("color", f"c{row}"), ("size", "s")][: row % 3] for row in range(count)]
        columns["properties"] = pa.array(maps, pa.map_(pa.string(), pa.string()))
    batch, written = pa.record_batch(columns).slice(7, 41), []
    plain = pa.Table.from_pylist(batch.to_pylist(), pa.schema([*_with_plain_topics(batch.schema)]))
    fixed: dict[str, Any] = {"unique_keys": False, "clock_ms": lambda: 1_700_000_000_000}
    for name, rows in (("batch", batch), ("table", plain)):
        with open_store(tmp_path / name, **fixed) as store:
            put = store.put_columns(rows)
            assert (put.status, put.msg_num) == (PutMessageStatus.PUT_OK, 41)
        written.append([path.read_bytes() for path in sorted((tmp_path / name / "commitlog").iterdir())])
        require_sound(tmp_path / name)
        with StoreSnapshot(tmp_path / name) as snapshot:
            messages = [*snapshot.scan()]
        assert [message.body for message in messages] == [b"body %d" % row for row in range(7, 48)]
        assert [len(message.keys) for message in messages] == [0 if r % 5 == 0 else r % 3 for r in range(7, 48)]
    assert written[0] == written[1]


def _with_plain_topics(schema: pa.Schema) -> list[pa.Field]:
    return [pa.field("topic", pa.string()) if field.name == "topic" else field for field in schema]
