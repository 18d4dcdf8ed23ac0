"""Streams of `rocketmq_store` without Spark: offsets, limits, a store that grows, files that go,
damage."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from logdex.errors import CorruptError, MissingFileError, UsageError
from logdex.rocketmq.message.stored_message import StoredMessage
from logdex.rocketmq.message_store.message_store import MessageStore
from logdex.rocketmq.message_store.put.message import Message
from logdex.spark.sources.rocketmq.stream import StoreStream
from logdex.spark.sources.rocketmq.table import StoreTable
from logdex.spark.sources.stream_table import Limits, StreamProgress, marks_in, nested
from logdex.testing.store_builder import write_commit_log
from tests.unit.rocketmq.small_stores import CUT, FILE_SIZE, MESSAGES, REGROWN, build, message
from tests.unit.spark.sources.rocketmq.settings import GEOMETRY, offsets
from tests.unit.spark.sources.tables import batches_of, require_refused, rows_between, rows_of, unmarked


def stream(path: Path | str, **options: str) -> StoreStream:
    return StoreStream({"path": str(path), **GEOMETRY, "startingOffsets": "earliest", **options})


def test_offsets(store: Path) -> None:
    begins, ends = stream(store).latest()
    assert stream(store).initial() == begins == {"broker-a": {"commitlog": 0}}
    assert ends["broker-a"]["commitlog"] > 2 * FILE_SIZE
    for given in ({"startingOffsets": "latest"}, {}):
        assert StoreStream({"path": str(store), **GEOMETRY, **given}).initial() == ends
    for given in ({"startingTimestamp": "5"}, {"startingOffsetsByTimestamp": '{"TopicA": {"0": 5}}'}):
        assert StoreStream({"path": str(store), **GEOMETRY, **given}).initial() == begins
    assert stream(store, startingOffsets='{"TopicA": {"0": 30}}').initial() == begins


@pytest.mark.parametrize(
    ("options", "most"),
    [
        ({}, 40),
        ({"maxOffsetsPerTrigger": "7"}, 7),
        ({"maxOffsetsPerTrigger": "1"}, 1),
        ({"maxBytesPerTrigger": "600"}, 4),
        ({"maxBytesPerTrigger": "1"}, 1),
        ({"maxBytesPerTrigger": "1m"}, 40),
        ({"maxOffsetsPerTrigger": "30", "maxBytesPerTrigger": "600"}, 4),
    ],
)
def test_limits(store: Path, options: dict[str, str], most: int) -> None:
    """Every batch is as large as its limits allow, and the batches together are the log."""
    source = stream(store, columns="queueOffset", **options)
    batches = batches_of(source, source.initial())
    assert offsets([row for batch in batches for row in batch]) == list(range(40))
    assert [len(batch) for batch in batches[:-1]] == [most] * (len(batches) - 1)
    assert len(batches[-1]) <= most


def test_a_batch_waits_for_its_minimum(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Messages count, of all stores together. What was counted is not read again."""
    now_s = 1000.0
    monkeypatch.setattr("time.monotonic", lambda: now_s)
    roots = [build(tmp_path / name, MESSAGES[:10]) for name in "ab"]
    source = stream(f"{tmp_path}/*", minOffsetsPerTrigger="7", maxTriggerDelay="30s", columns="queueOffset")
    progress = StreamProgress(source)
    start = progress.advance(source.initial(), source.limits)
    assert unmarked(start) == source.latest()[1], "the first batch never waits"
    for count, other in ((14, 10), (16, 10), (16, 10)):
        write_commit_log(str(roots[0]), MESSAGES[:count], FILE_SIZE)
        write_commit_log(str(roots[1]), MESSAGES[:other], FILE_SIZE)
        assert progress.advance(start, source.limits) == start
    write_commit_log(str(roots[1]), MESSAGES[:11], FILE_SIZE)
    end = progress.advance(start, source.limits)
    assert len(rows_between(source, start, end)) == 7
    write_commit_log(str(roots[1]), MESSAGES[:12], FILE_SIZE)
    now_s += 29
    assert progress.advance(end, source.limits) == end
    now_s += 2
    last = progress.advance(end, source.limits)
    assert len(rows_between(source, end, last)) == 1, "the delay has passed"
    write_commit_log(str(roots[1]), MESSAGES[:13], FILE_SIZE)
    assert progress.advance(last, source.limits) == last
    progress.set_target()
    assert progress.advance(last, source.limits) != last, "Trigger.AvailableNow takes what there is"


def test_options_of_the_batch_source(store: Path) -> None:
    source = stream(store, startingOffsets='{"TopicA": {"0": 30}}', tag="A", columns="queueOffset")
    assert [offsets(batch) for batch in batches_of(source, source.initial())] == [[30, 32, 34, 36, 38]]


def test_a_physical_offset_to_begin_at(store: Path) -> None:
    """A stream begins at the first message from there on, and reads nothing before it."""
    places = [row["physicalOffset"] for row in rows_of(StoreTable({"path": str(store), **GEOMETRY}))]
    end = stream(store).latest()[1]["broker-a"]["commitlog"]
    for given, first in ((0, 0), (places[8], 8), (places[8] + 1, 9), (end, 40), (end + 10_000, 40)):
        options = {"startingPhysicalOffset": str(given), "queueId": "0,1", "columns": "queueOffset"}
        source = StoreStream({"path": str(store), **GEOMETRY, **options, "maxOffsetsPerTrigger": "10"})
        assert source.initial() == {"broker-a": {"commitlog": (*places, end)[first]}}
        batches = [offsets(batch) for batch in batches_of(source, source.initial())]
        assert [offset for batch in batches for offset in batch] == [*range(first, 40)]
        assert len(batches) == -(-(40 - first) // 10)
    nothing = stream(store, queueId="7")
    assert batches_of(nothing, nothing.initial()) == [[]]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"endingOffsets": "latest"}, "endingOffsets is for batch reads"),
        ({"endingOffsetsByTimestamp": "{}"}, "endingOffsetsByTimestamp is for batch reads"),
        ({"endingPhysicalOffset": "1"}, "endingPhysicalOffset is for batch reads"),
        ({"startingPhysicalOffset": "latest"}, "whole number of 0 or more"),
        ({"endingTimestamp": "1"}, "endingTimestamp is for batch reads"),
        ({"maxOffsetsPerTrigger": "0"}, "whole number of 1 or more"),
        ({"minOffsetsPerTrigger": "8", "maxOffsetsPerTrigger": "7"}, "maxOffsetsPerTrigger is 7, which is less"),
        ({"maxTriggerDelay": "15 years"}, "say a time such as"),
        ({"maxBytesPerTrigger": "much"}, "a number of bytes"),
    ],
)
def test_wrong_options(store: Path, options: dict[str, str], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        stream(store, **options)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"subscribe": "TopicA"}, "the topic is named by topic"),
        ({"topic": "TopicB"}, r"no topic 'TopicB' .did you mean 'TopicA'\?"),
        ({"startingOffsets": '{"TopicB": {"0": 30}}'}, "no topic 'TopicB'"),
        ({"startingOffsets": '{"TopicA": {"0": 50}}'}, "ends before offset 40, and offset 50 is wanted first"),
    ],
)
def test_names_that_the_store_has_not(store: Path, options: dict[str, str], said: str) -> None:
    with pytest.raises((UsageError, MissingFileError), match=said):
        stream(store, **options).initial()


def test_a_growing_store(tmp_path: Path) -> None:
    """A store that is written to meanwhile, with a target as for Trigger.AvailableNow."""
    path = str(tmp_path / "s")
    with MessageStore.open(path, mapped_file_size_commit_log=4096) as growing:
        growing.put_message(Message(topic="t", body=b"0"))
        source = StoreStream({"path": path, "columns": "body", "startingOffsets": "earliest"})
        start, bodies = source.initial(), []
        for number in range(1, 40):
            end = StreamProgress(source).advance(start, Limits())
            bodies += [row["body"] for row in rows_between(source, start, end)]
            again = [row["body"] for row in rows_between(source, start, end)]
            assert again == bodies[-1:], "a batch that is run again has the same rows"
            start = end
            growing.put_message(Message(topic="t", body=b"%d" % number))
        assert bodies == [b"%d" % number for number in range(39)]
        progress = StreamProgress(source)
        progress.set_target()
        growing.put_message(Message(topic="t", body=b"behind the target"))
        end = progress.advance(start, Limits())
        assert [row["body"] for row in rows_between(source, start, end)] == [b"39"]
        assert progress.advance(end, Limits()) == end


def test_files_that_are_removed(tmp_path: Path) -> None:
    root = build(tmp_path / "s", MESSAGES)
    (root / "commitlog" / f"{0:020d}").unlink()
    start = {"s": {"commitlog": 100}}
    with pytest.raises(UsageError, match=r"s commitlog begins at offset 2048 now, .*failOnDataLoss=false"):
        batches_of(stream(root), start)
    lenient = stream(root, failOnDataLoss="false", columns="queueOffset")
    (rows,) = batches_of(lenient, start)
    assert offsets(rows) == list(range(offsets(rows)[0], 40))
    planned = {"s": {"commitlog": 3000}}
    with pytest.raises(UsageError, match="messages before 2048 were removed meanwhile"):
        rows_between(stream(root), start, planned)
    progress = StreamProgress(lenient)
    progress.advance(start, Limits())
    assert len(progress.notes) == 1
    progress.advance(start, Limits())
    assert len(progress.notes) == 1, "each loss is told once"


def test_a_log_that_was_cut(tmp_path: Path) -> None:
    """A broker that starts after a crash may cut messages off that the stream has read."""
    root = build(tmp_path / "s", MESSAGES)
    start = stream(root).latest()[1]
    for path in sorted((root / "commitlog").iterdir())[2:]:
        path.unlink()
    for path in sorted((root / "index").iterdir()):
        path.unlink()
    with pytest.raises(UsageError, match=r"s commitlog ends at offset \d+ now, the stream was at \d+"):
        batches_of(stream(root), start)
    lenient = stream(root, failOnDataLoss="false")
    assert unmarked(StreamProgress(lenient).advance(start, Limits())) == lenient.latest()[1]
    with pytest.raises(UsageError, match="the log ends at"):
        rows_between(stream(root), {"s": {"commitlog": 0}}, start)


def test_two_stores(tmp_path: Path) -> None:
    for name, count in (("a", 30), ("b", 10)):
        build(tmp_path / name, MESSAGES[:count])
    source = stream(f"{tmp_path}/*", maxOffsetsPerTrigger="8", columns="brokerName,queueOffset")
    first = batches_of(source, source.initial())[0]
    assert {name: len([row for row in first if row["brokerName"] == name]) for name in "ab"} == {"a": 6, "b": 1}
    build(tmp_path / "c", MESSAGES[:3])
    end = {name: {"commitlog": number} for name, number in (("a", 0), ("b", 0))}
    rows = [row for batch in batches_of(source, end) for row in batch]
    assert sorted(row["queueOffset"] for row in rows if row["brokerName"] == "c") == [0, 1, 2]
    with pytest.raises(UsageError, match="d commitlog was deleted meanwhile"):
        batches_of(source, {"d": {"commitlog": 5}})
    with pytest.raises(UsageError, match="two stores have one name"):
        stream(f"{tmp_path}/*", brokerName="x,y,x").latest()


def harmed(tmp_path: Path) -> Path:
    """A store without derived files whose messages 13 and 27 have a wrong CRC."""
    root = build(tmp_path / "s", MESSAGES)
    for file in sorted((root / "commitlog").iterdir()):
        data = file.read_bytes()
        for body in (b"body 13", b"body 27"):
            data = data.replace(body, body.replace(b"body", b"harm"))
        file.write_bytes(data)
    return root


def test_damage_fails_when_it_is_reached(tmp_path: Path) -> None:
    source = stream(harmed(tmp_path), maxOffsetsPerTrigger="13")
    start = source.initial()
    end = StreamProgress(source).advance(start, source.limits)
    assert offsets(rows_between(source, start, end)) == list(range(13))
    later = StreamProgress(source).advance(end, source.limits)
    with pytest.raises(CorruptError, match="PERMISSIVE"):
        rows_between(source, end, later)


@pytest.mark.parametrize("limit", ["5", "100"])
def test_damage_as_rows(tmp_path: Path, limit: str) -> None:
    source = stream(harmed(tmp_path), mode="PERMISSIVE", maxOffsetsPerTrigger=limit)
    rows = [row for batch in batches_of(source, source.initial()) for row in batch]
    assert sorted(offsets([row for row in rows if row["_corrupt"] is None])) == [
        number for number in range(40) if number not in (13, 27)
    ]
    assert len([row for row in rows if row["_corrupt"] is not None]) == 2


def test_damage_at_the_end(tmp_path: Path) -> None:
    """The last message is damaged, and nothing derived leads behind it: the stream ends before it,
    then fails."""
    root = build(tmp_path / "s", MESSAGES[:5])
    for part in ("index", "consumequeue"):
        for path in sorted((root / part).rglob("*"), reverse=True):
            path.rmdir() if path.is_dir() else path.unlink()
    (file,) = (root / "commitlog").iterdir()
    file.write_bytes(file.read_bytes().replace(b"body 3", b"harm 3"))
    source = stream(root)
    end = StreamProgress(source).advance(source.initial(), Limits())
    assert offsets(rows_between(source, source.initial(), end)) == [0, 1, 2]
    with pytest.raises(CorruptError, match="PERMISSIVE"):
        StreamProgress(source).advance(end, Limits())
    dropped = stream(root, mode="DROPMALFORMED")
    assert [offsets(batch) for batch in batches_of(dropped, dropped.initial())] == [[0, 1, 2, 4]]


def test_another_store(tmp_path: Path) -> None:
    """Where the stream was no message begins: it is no damage, and reading on would lose rows."""
    end = StreamProgress(stream(build(tmp_path / "one", MESSAGES[:10]))).advance({}, Limits())
    other = build(tmp_path / "other", [message(number, body=b"a longer body") for number in range(40)])
    with pytest.raises(UsageError, match=r"no message begins at physical offset .*may be another one") as raised:
        batches_of(stream(other, brokerName="one"), end)
    assert "failOnDataLoss" in str(raised.value.hint)
    lenient = stream(other, brokerName="one", failOnDataLoss="false")
    (rows,) = batches_of(lenient, end)
    assert offsets(rows) == list(range(offsets(rows)[0], 40)), "what follows, up to the end"


@pytest.mark.parametrize("count", [10, 25])
@pytest.mark.parametrize("limit", ["4", "100"])
def test_another_store_whose_messages_begin_at_the_same_places(tmp_path: Path, count: int, limit: str) -> None:
    """It is known by a message that was read, also if it has as many messages."""

    def of_one_size(first: int, count: int) -> list[StoredMessage]:
        return [message(first + number, body=b"body") for number in range(100, 100 + count)]

    root = build(tmp_path / "s", of_one_size(0, 10))
    source = stream(root, maxOffsetsPerTrigger=limit)
    start = source.initial()
    end = json.loads(json.dumps(StreamProgress(source).advance(start, source.limits)))
    last = rows_between(source, start, end)[-1]["queueOffset"]
    assert [offsets(rows) for rows in batches_of(stream(root), end)] == (
        [[*range(last + 1, 110)]] if last < 109 else []
    )
    shutil.rmtree(root)
    build(root, of_one_size(200, count))
    told = r"at physical offset \d+ is a message of \d+ bytes, .*: the store is another one than the stream has read"
    require_refused(source, start, end, told)
    lenient = stream(root, failOnDataLoss="false")
    assert rows_between(lenient, start, end) == [], "what was planned is gone"
    (rows,) = batches_of(lenient, end)
    assert offsets(rows) == [*range(300, 300 + count)], "it is read from its beginning"
    unknown = unmarked(end)
    found = [row for rows in batches_of(stream(root), unknown) for row in rows]
    assert offsets(found) == [*range(300 + last - 99, 300 + count)], "a checkpoint without marks goes on"


def test_a_log_that_was_cut_and_has_grown_again(tmp_path: Path) -> None:
    """What was read before the cut is still there, and is not read again."""
    root = build(tmp_path / "s", MESSAGES)
    source = stream(root)
    end = StreamProgress(source).advance(source.initial(), Limits())
    shutil.rmtree(root)
    build(root, REGROWN)
    with pytest.raises(UsageError, match="may be another one, or was cut and has grown again"):
        StreamProgress(source).advance(end, Limits())
    (rows,) = batches_of(stream(root, failOnDataLoss="false"), end)
    assert offsets(rows) == [*range(offsets(rows)[0], 50)]
    assert offsets(rows)[0] > len(CUT)


def test_a_marked_message_that_a_broker_removed(tmp_path: Path) -> None:
    root = build(tmp_path / "s", MESSAGES)
    ends = [row["physicalOffset"] for row in rows_of(StoreTable({"path": str(root), **GEOMETRY}))]
    begin = next(offset for offset in ends if offset >= FILE_SIZE)
    source = stream(root)
    marks = source.marks({("s", "commitlog"): 0}, {("s", "commitlog"): begin})
    end = nested({("s", "commitlog"): FILE_SIZE}, marks=marks)
    assert marks_in(end)
    (root / "commitlog" / f"{0:020d}").unlink()
    (rows,) = batches_of(source, end)
    assert offsets(rows) == [*range(ends.index(begin), 40)]
