"""`rocketmq_store` without Spark: options, a state that stays, several stores, damage."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import logdex
from logdex.convert.columns.rocketmq import NAMES
from logdex.errors import CorruptError, MissingFileError, UsageError, VanishedError
from logdex.frames.conditions import EQUAL, GREATER, Condition
from logdex.layout.rocketmq import SYS_FLAG_COMPRESSED
from logdex.rocketmq.message.stored_message import StoredMessage
from logdex.spark.sources.rocketmq.table import StoreTable
from logdex.testing.store_builder import make_message, write_commit_log
from tests.beside import become
from tests.unit.rocketmq.small_stores import CUT, FILE_SIZE, MESSAGES, REGROWN, START_MS, build
from tests.unit.spark.sources.rocketmq.local_rows import comparable, local_rows
from tests.unit.spark.sources.rocketmq.settings import GEOMETRY, offsets
from tests.unit.spark.sources.tables import fitting, plan_of, rows_of


def table(path: Path | str, **options: str) -> StoreTable:
    return StoreTable({"path": str(path), **GEOMETRY, **options})


def test_rows(store: Path) -> None:
    rows = rows_of(table(store))
    assert list(rows[0]) == list(NAMES)
    assert offsets(rows) == list(range(40))
    first = rows[0]
    assert (
        json.loads(first["properties"]) == dict(first["propertyMap"]) == {"UNIQ_KEY": "u-0", "KEYS": "k-0", "TAGS": "A"}
    )
    assert (first["topic"], first["body"], first["brokerName"], first["queueId"]) == (
        "TopicA",
        b"body 0",
        "broker-a",
        0,
    )
    assert first["storeTimestamp"] == START_MS * 1000
    assert (first["tags"], first["keys"], first["uniqueKey"], first["physicalOffset"]) == ("A", ["k-0"], "u-0", 0)


def test_columns_and_parts(store: Path) -> None:
    small = table(store, columns="queueOffset,brokerName", maxPartitionBytes="1k", brokerName="b")
    assert rows_of(small)[3] == {"queueOffset": 3, "brokerName": "b"}
    assert len(plan_of(small).parts) > len(plan_of(table(store)).parts)
    assert len(plan_of(table(store, minPartitions="6")).parts) >= 5
    assert all("body" not in part.split.columns for part in plan_of(small).parts)  # type: ignore[attr-defined]
    assert [set(row) for row in rows_of(table(store, columns="brokerName"))] == [{"brokerName"}] * 40


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"topic": "TopicA"}, range(40)),
        ({"topic": "TopicA", "key": "k-6"}, [6]),
        ({"topic": "TopicA", "key": "u-7"}, [7]),
        ({"topic": "TopicA", "queueId": "0"}, range(40)),
        ({"queueId": "1, 2"}, []),
        ({"queueId": "2,0", "startingPhysicalOffset": "1", "tag": "A"}, range(2, 40, 2)),
        ({"tag": "A || none"}, range(0, 40, 2)),
        ({"subExpression": "A || none"}, range(0, 40, 2)),
        ({"subExpression": "*"}, range(40)),
        ({"startingTimestamp": str(START_MS + 1500), "endingTimestamp": str(START_MS + 6000)}, [1, 2, 3]),
        ({"startingOffsets": '{"TopicA": {"0": 30}}', "endingOffsets": '{"TopicA": {"0": 33}}'}, [30, 31, 32]),
        ({"startingOffsets": "earliest", "endingOffsets": "latest", "timeSlackMs": "0"}, range(40)),
        (
            {
                "startingOffsetsByTimestamp": f'{{"TopicA": {{"0": {START_MS + 45_000}}}}}',
                "endingOffsetsByTimestamp": f'{{"TopicA": {{"0": {START_MS + 49_500}}}}}',
            },
            [30, 31, 32],
        ),
        ({"startingOffsetsByTimestamp": f'{{"TopicA": {{"0": {START_MS + 45_001}}}}}'}, range(31, 40)),
        ({"startingOffsets": '{"TopicA": {"0": 40}}', "endingOffsets": '{"TopicA": {"0": 40}}'}, []),
        ({"startingOffsets": '{"TopicA": {"0": 41}}', "failOnDataLoss": "false"}, []),
        (
            {
                "startingOffsetsByTimestamp": f'{{"TopicA": {{"0": {START_MS + 45_000}}}}}',
                "startingOffsets": '{"TopicA": {"0": 33}}',
                "endingTimestamp": f"{START_MS + 54_000}",
            },
            [33, 34, 35],
        ),
    ],
)
def test_options(store: Path, options: dict[str, str], expected: Any) -> None:
    assert offsets(rows_of(table(store, columns="queueOffset", **options))) == list(expected)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"queueId": "0,one"}, "queueId is '0,one' .say the number of a queue, or several"),
        ({"queueId": "-1"}, "say the number of a queue"),
        ({"queueId": "0,"}, "with commas between them"),
        ({"topic": "TopicA", "queueId": "0,9"}, "the topic 'TopicA' has no queue 9 .there is 0"),
        ({"queueId": "1", "startingOffsets": '{"TopicA": {"0": 3}}'}, "offsets are given for queue 0 of 'TopicA'"),
        ({"startingPhysicalOffset": "earliest"}, "startingPhysicalOffset is 'earliest' .say a whole number of 0"),
        ({"endingPhysicalOffset": "-1"}, "endingPhysicalOffset is '-1' .say a whole number of 0"),
        (
            {"startingPhysicalOffset": "6", "endingPhysicalOffset": "5"},
            "the starting physical offset 6 is behind the ending physical offset 5",
        ),
        ({"key": "k-6"}, "the option key needs the option topic"),
        ({"startingOffsets": "latest"}, "say earliest, or JSON"),
        ({"endingOffsets": "earliest"}, "say latest, or JSON"),
        ({"startingOffsets": '{"TopicA": 3}'}, "say earliest, or JSON"),
        ({"startingOffsets": '{"TopicA": {"0": -1}}'}, "-1 is the latest offset, where one queue cannot begin"),
        ({"startingOffsetsByTimestamp": "5"}, "say JSON such as"),
        ({"endingOffsetsByTimestamp": '{"TopicA": {"0": -1}}'}, "say JSON such as"),
        ({"startingOffsets": '{"TopicB": {"0": 10}}'}, r"no topic 'TopicB' .did you mean 'TopicA'\?"),
        ({"endingOffsets": '{"TopicB": {"0": -1}}'}, "no topic 'TopicB'"),
        ({"startingOffsets": '{"TopicA": {"9": 10}}'}, "the topic 'TopicA' has no queue 9 .there is 0"),
        ({"startingOffsetsByTimestamp": '{"TopicA": {"9": 10}}'}, "the topic 'TopicA' has no queue 9"),
        (
            {"topic": "TopicA", "startingOffsets": '{"Other": {"0": 10}}'},
            "offsets are given for the topic 'Other', which is not read",
        ),
        (
            {"startingOffsets": '{"TopicA": {"0": 41}}'},
            "TopicA 0 ends before offset 40, and offset 41 is wanted first .say 0 to 40; option failOnDataLoss=false",
        ),
        ({"endingOffsets": '{"TopicA": {"0": 41}}'}, "TopicA 0 ends before offset 40, and offset 40 is wanted last"),
        ({"endingTimestamp": "2023-11-14T22:13:20Z"}, "say milliseconds since the epoch, such as 1700000000000"),
        ({"startingTimestamp": "6", "endingTimestamp": "5"}, "the starting timestamp 6 is later than the ending .* 5"),
        (
            {"startingOffsetsByTimestamp": '{"TopicA": {"0": 6}}', "endingOffsetsByTimestamp": '{"TopicA": {"0": 5}}'},
            "the starting timestamp of TopicA 0 6 is later than the ending timestamp 5",
        ),
        (
            {"startingOffsets": '{"TopicA": {"0": 6}}', "endingOffsets": '{"TopicA": {"0": 5}}'},
            "the starting offset of TopicA 0 6 is behind the ending offset 5",
        ),
        ({"tag": "A", "subExpression": "A"}, "tag and subExpression exclude each other"),
        ({"maxRecordsPerPartition": "5"}, "split by bytes, because nothing on disk says .*use maxPartitionBytes"),
        ({"subscribe": "TopicA"}, "no option 'subscribe'"),
        ({"subscribe": "TopicA"}, "no option 'subscribe' .the topic is named by topic"),
        ({"assign": '{"TopicA": [0]}'}, "say topic, and queueId"),
        ({"nameServer": "localhost:9876"}, "asks no broker: leave it out"),
        ({"kafka.bootstrap.servers": "localhost:9092"}, "asks no broker: leave it out"),
        ({"startingOfset": "1"}, "did you mean startingOffsets"),
        ({"brokerName": "a,b"}, "give one name for each of the 1 stores"),
    ],
)
def test_wrong_options(store: Path, options: dict[str, str], said: str) -> None:
    with pytest.raises((UsageError, MissingFileError), match=said):
        table(store, **options)


def test_physical_offsets(store: Path) -> None:
    """The messages that begin from the first offset on and before the second, as for a filter."""
    rows = rows_of(table(store))
    places = [row["physicalOffset"] for row in rows]
    for first, end in ((0, places[3]), (places[3], places[30]), (places[3] + 1, places[30] + 1), (0, 1 << 40)):
        found = rows_of(table(store, startingPhysicalOffset=str(first), endingPhysicalOffset=str(end)))
        assert found == [row for row in rows if first <= row["physicalOffset"] < end] != []
    assert rows_of(table(store, startingPhysicalOffset=str(1 << 40))) == []
    both = table(store, startingPhysicalOffset=str(places[3]), endingPhysicalOffset=str(places[9]))
    assert offsets(rows_of(both, Condition("physicalOffset", GREATER, places[5]))) == [6, 7, 8]


def test_offsets_that_no_consume_queue_has_yet(tmp_path: Path) -> None:
    """A broker writes the log first, and the ConsumeQueue after it."""
    root = build(tmp_path / "store", MESSAGES[:5])
    write_commit_log(str(root), MESSAGES[:8], FILE_SIZE)
    found = table(root, columns="queueOffset", startingOffsets='{"TopicA": {"0": 7}}')
    assert offsets(rows_of(found)) == [7]
    with pytest.raises(UsageError, match="ends before offset 8, and offset 9 is wanted first"):
        table(root, startingOffsets='{"TopicA": {"0": 9}}')


def test_offsets_that_a_broker_has_removed(tmp_path: Path) -> None:
    root = build(tmp_path / "store", MESSAGES)
    (root / "commitlog" / f"{0:020d}").unlink()
    first = offsets(rows_of(table(root, columns="queueOffset")))[0]
    assert first > 0
    with pytest.raises(
        UsageError, match=f"begins at offset {first}, and offset {first - 1} is wanted first .say {first} or -2"
    ):
        table(root, startingOffsets=f'{{"TopicA": {{"0": {first - 1}}}}}')
    table(root, startingOffsets=f'{{"TopicA": {{"0": {first}}}}}')


def test_a_queue_that_one_of_two_stores_has(store: Path, tmp_path: Path) -> None:
    other = build(tmp_path / "broker-b", [make_message(topic=b"Other", body=b"b", queue_offset=0)])
    both = table(f"{store},{other}", columns="queueOffset", startingOffsets='{"TopicA": {"0": 38}}')
    assert sorted(offsets(rows_of(both))) == [0, 38, 39]
    with pytest.raises(MissingFileError, match="the topic 'Other' has no queue 1"):
        table(f"{store},{other}", startingOffsets='{"Other": {"1": 0}}')


def test_a_misspelt_topic(store: Path, tmp_path: Path) -> None:
    with pytest.raises(MissingFileError, match=r"no topic 'topica' .did you mean 'TopicA'"):
        table(store, topic="topica")
    other = build(tmp_path / "broker-b", [make_message(topic=b"Other", body=b"b", queue_offset=0)])
    both = table(f"{store},{other}", topic="Other")
    assert [row["brokerName"] for row in rows_of(both)] == ["broker-b"]


def test_a_kafka_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "meta.properties").write_text("version=1\n")
    with pytest.raises(UsageError, match="rocketmq_store reads a RocketMQ store"):
        table(tmp_path)


def test_several_stores(tmp_path: Path) -> None:
    for name in ("broker-a", "broker-b"):
        build(tmp_path / name, MESSAGES[:5])
    rows = rows_of(table(f"{tmp_path}/broker-*"))
    assert [row["brokerName"] for row in rows] == ["broker-a"] * 5 + ["broker-b"] * 5
    for name in ("a", "b"):
        build(tmp_path / "of" / name / "store", MESSAGES[:1])
    assert [row["brokerName"] for row in rows_of(table(f"{tmp_path}/of/*/store"))] == ["a/store", "b/store"]
    named = table(f"{tmp_path}/broker-a,{tmp_path}/broker-b", brokerName="x,y")
    of_y = Condition("brokerName", EQUAL, "y")
    assert {row["brokerName"] for row in rows_of(named, of_y)} == {"y"}
    assert plan_of(named, of_y).pruned_files == 1


def test_what_was_left_out_is_told(store: Path) -> None:
    condition = Condition("physicalOffset", GREATER, 3 * FILE_SIZE)
    plan = plan_of(table(store), condition)
    assert plan.pruned_files == 3
    line = plan.describe("rocketmq_store", type("C", (), {"__str__": lambda _: "x > 1"})())
    assert line.startswith(
        f"rocketmq_store: reads {plan.size_bytes} of {plan.total_bytes} bytes for x > 1; left out 3 of "
    )


# -- a state that stays
def test_a_growing_store(tmp_path: Path) -> None:
    with logdex.rocketmq.MessageStore.open(str(tmp_path / "s")) as growing:
        message = logdex.rocketmq.Message(topic="t", body=b"x")
        growing.put_message(message)
        frozen = StoreTable({"path": str(tmp_path / "s")})
        growing.put_message(message)
        assert len(rows_of(frozen)) == 1
        assert len(rows_of(StoreTable({"path": str(tmp_path / "s")}))) == 2


def test_files_that_are_removed(tmp_path: Path) -> None:
    root = build(tmp_path / "s", MESSAGES)
    strict, lenient = table(root), table(root, failOnDataLoss="false")
    planned = plan_of(strict).parts
    (root / "commitlog" / f"{0:020d}").unlink()
    with pytest.raises(UsageError, match=r"messages before 2048 were removed meanwhile .*failOnDataLoss=false"):
        plan_of(strict)
    with pytest.raises(VanishedError, match="a broker has removed the file meanwhile"):
        list(planned[0].batches(None))
    kept = offsets(rows_of(lenient))
    assert kept == list(range(kept[0], 40))
    assert kept[0] > 0


@pytest.mark.parametrize(
    ("messages", "told"), [(CUT, "was cut to physical offset 2989"), (REGROWN, "has grown again")], ids=["cut", "grown"]
)
def test_a_log_that_is_cut(tmp_path: Path, messages: list[StoredMessage], told: str) -> None:
    """Between the plan and the read, as by a broker that recovers. That is no damage. No part is
    read to its end as if nothing had happened."""
    root, after = build(tmp_path / "s", MESSAGES), build(tmp_path / "after", messages)
    more = {"maxPartitionBytes": "1k", "columns": "queueOffset"}
    strict, lenient = plan_of(table(root, **more)).parts, plan_of(table(root, failOnDataLoss="false", **more)).parts
    become(root, after)
    damage: list[CorruptError] = []
    for on_damage in (None, damage.append):
        errors = list[str]()
        for part in strict:
            with pytest.raises(VanishedError, match=r"cut.*failOnDataLoss=false") as raised:
                list(part.batches(on_damage))
            errors.append(raised.value.message)
        assert "cut while it was read" in errors[0]
        assert any(told in each for each in errors)
        batches = [batch for part in lenient for batch in part.batches(on_damage)]
        kept = [offset for batch in batches for offset in batch["queue_offset"].to_pylist()]
        assert kept[: len(CUT)] == list(range(len(CUT)))
    assert damage == []


# -- damage
def harmed(tmp_path: Path) -> Path:
    """A store whose messages 13 and 27 have a wrong CRC."""
    root = build(tmp_path / "s", MESSAGES)
    for file in sorted((root / "commitlog").iterdir()):
        data = file.read_bytes()
        for body in (b"body 13", b"body 27"):
            data = data.replace(body, body.replace(b"body", b"harm"))
        file.write_bytes(data)
    return root


def test_damage_fails(tmp_path: Path) -> None:
    with pytest.raises(CorruptError, match=r"commitlog/\d{20}: byte \d+: .*PERMISSIVE"):
        rows_of(table(harmed(tmp_path), maxPartitionBytes="1k"))


@pytest.mark.parametrize("size", ["1k", "1g"])
def test_damage_as_rows_or_dropped(tmp_path: Path, size: str) -> None:
    root = harmed(tmp_path)
    rows = rows_of(table(root, mode="PERMISSIVE", maxPartitionBytes=size))
    whole = [row for row in rows if row["_corrupt"] is None]
    harm = [row for row in rows if row["_corrupt"] is not None]
    assert offsets(whole) == [number for number in range(40) if number not in (13, 27)]
    assert [row["body"] for row in harm] == [None, None]
    assert all(row["_corrupt"]["begin"] < row["_corrupt"]["end"] for row in harm)
    assert all("commitlog" in row["_corrupt"]["file"] and "CRC" in row["_corrupt"]["reason"].upper() for row in harm)
    dropped = rows_of(table(root, mode="DROPMALFORMED", maxPartitionBytes=size))
    assert offsets(dropped) == offsets(whole)
    assert "_corrupt" not in dropped[0]


def test_a_missing_file(tmp_path: Path) -> None:
    root = build(tmp_path / "s", MESSAGES)
    (root / "commitlog" / f"{FILE_SIZE:020d}").unlink()
    with pytest.raises(CorruptError, match=f"{FILE_SIZE:020d}: byte 0: the file is missing"):
        rows_of(table(root))
    rows = rows_of(table(root, mode="PERMISSIVE"))
    told = [row["_corrupt"] for row in rows if row["_corrupt"] is not None]
    assert [(each["begin"], each["end"]) for each in told] == [(0, FILE_SIZE)]
    assert {row["physicalOffset"] // FILE_SIZE for row in rows if row["physicalOffset"] is not None} == {0, 2}


def test_compressed_bodies(tmp_path: Path) -> None:
    bodies = [zlib.compress(b"long " * 50), b"plain", b"no stream"]
    flags = [SYS_FLAG_COMPRESSED, 0, SYS_FLAG_COMPRESSED]
    messages = [
        make_message(queue_offset=n, body=body, sys_flag=flag)
        for n, (body, flag) in enumerate(zip(bodies, flags, strict=True))
    ]
    write_commit_log(str(tmp_path), messages, FILE_SIZE)
    assert [row["body"] for row in rows_of(StoreTable({"path": str(tmp_path), "rawBody": "true"}))] == bodies
    with pytest.raises(CorruptError, match="not a complete zlib stream"):
        rows_of(StoreTable({"path": str(tmp_path)}))
    rows = rows_of(StoreTable({"path": str(tmp_path), "mode": "PERMISSIVE"}))
    assert [row["body"] for row in rows] == [b"long " * 50, b"plain", None, None]
    assert rows[3]["_corrupt"]["reason"].startswith("the body is not")


@pytest.mark.parametrize("name", ["tiny-5.5.0", "tiny-broker", "tiny-4.7.0", "tiny-trimmed"])
def test_golden_stores(name: str, golden_store: Callable[..., Path]) -> None:
    """Row for row and column for column what the local reader gives. The messages of the first one
    have values of all fields that differ, and some have compressed bodies."""
    path = golden_store(name)
    plain = rows_of(StoreTable({"path": str(path)}))
    assert comparable(plain) == local_rows(path, raw_bodies=False)[0]
    rows = rows_of(StoreTable({"path": str(path), "rawBody": "true"}))
    assert comparable(rows) == local_rows(path)[0]
    assert (plain != rows) == any(row["sysFlag"] & SYS_FLAG_COMPRESSED for row in rows)
    assert fitting(rows, Condition("queueOffset", GREATER, -1)) == rows


def test_a_time_in_seconds_is_told(store: Path) -> None:
    [note, *_] = plan_of(table(store, startingTimestamp="1700000000")).notes
    assert "startingTimestamp is 1700000000 ms, which is early in 1970" in note
