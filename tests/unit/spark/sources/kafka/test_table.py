"""`kafka_log` without Spark: the options of Spark's own source, a state that stays, replicas,
damage."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from logdex.convert.columns.kafka import COLUMNS, NAMES
from logdex.convert.columns.projection import Projection
from logdex.errors import CorruptError, MissingFileError, UsageError
from logdex.frames.conditions import EQUAL, GREATER, Condition
from logdex.kafka.batch.record import Record
from logdex.kafka.key_index.build import build_key_index
from logdex.kafka.log.log import Log
from logdex.spark.sources.kafka.part import LogPart
from logdex.spark.sources.kafka.replicas import Replica, choose
from logdex.spark.sources.kafka.table import LogDirTable
from logdex.spark.sources.table import TablePart
from tests.unit.spark.sources.kafka.small_logs import START_MS, places, write
from tests.unit.spark.sources.tables import plan_of, rows_of, rows_of_plan

PROJECTION = Projection(COLUMNS, ("topic", "offset"))


def table(path: Path | str, **options: str) -> LogDirTable:
    return LogDirTable({"path": str(path), **options})


def test_rows(logs: Path) -> None:
    rows = rows_of(table(logs, subscribe="orders", includeHeaders="true"))
    assert list(rows[0]) == list(NAMES)
    assert places(rows) == {"orders-0": [*range(20)], "orders-1": [*range(10)]}
    first, second = rows[:2]
    assert first["headers"] == [{"key": "trace", "value": b"1"}, {"key": "none", "value": None}]
    assert second["headers"] is None
    assert (second["key"], second["value"], second["timestamp"]) == (b"k1", b"v" * 50, (START_MS + 10) * 1000)
    assert (second["timestampType"], second["producerId"], second["isControl"]) == (0, -1, False)
    assert second["logDir"] == str(logs)
    assert "headers" not in rows_of(table(logs, subscribe="events"))[0]


def test_values_are_not_read_where_none_is_asked_for(logs: Path) -> None:
    read = {column for part in plan_of(table(logs, columns="topic,offset")).parts for column in columns_of(part)}
    assert read == {"topic", "offset"}
    assert rows_of(table(logs, columns="offset", subscribe="events"))[3] == {"offset": 3}


def columns_of(part: TablePart) -> tuple[str, ...]:
    assert isinstance(part, LogPart)
    assert part.split.columns is not None
    return part.split.columns


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, {"orders-0": 20, "orders-1": 10, "events-0": 5}),
        ({"subscribePattern": "o.*|e.*s"}, {"orders-0": 20, "orders-1": 10, "events-0": 5}),
        ({"subscribePattern": "order"}, {}),
        ({"assign": '{"orders": [1], "events": [0]}'}, {"orders-1": 10, "events-0": 5}),
        ({"subscribe": "events", "startingOffsets": '{"events": {"0": 3}}'}, {"events-0": 2}),
        ({"subscribe": "events", "endingOffsets": '{"events": {"0": 3}}'}, {"events-0": 3}),
        (
            {"subscribe": "events", "startingOffsets": '{"events": {"0": -2}}', "endingOffsets": "LATEST"},
            {"events-0": 5},
        ),
        ({"subscribe": "orders", "startingTimestamp": str(START_MS + 85)}, {"orders-0": 11, "orders-1": 1}),
        ({"subscribe": "orders", "endingTimestamp": str(START_MS + 150)}, {"orders-0": 15, "orders-1": 10}),
        (
            {"subscribe": "events", "startingOffsetsByTimestamp": f'{{"events": {{"0": {START_MS + 40}}}}}'},
            {"events-0": 1},
        ),
        (
            {
                "subscribe": "events",
                "startingTimestamp": str(START_MS + 40),
                "startingOffsetsByTimestamp": f'{{"events": {{"0": {START_MS + 20}}}}}',
                "startingOffsets": '{"events": {"0": 1}}',
            },
            {"events-0": 1},
        ),
        (
            {
                "subscribe": "events",
                "startingOffsetsByTimestamp": f'{{"events": {{"0": {START_MS + 20}}}}}',
                "startingOffsets": '{"events": {"0": 1}}',
                "endingOffsetsByTimestamp": f'{{"events": {{"0": {START_MS + 40}}}}}',
                "endingOffsets": '{"events": {"0": 5}}',
            },
            {"events-0": 2},
        ),
        (
            {
                "subscribe": "events",
                "endingTimestamp": str(START_MS + 10),
                "endingOffsetsByTimestamp": f'{{"events": {{"0": {START_MS + 40}}}}}',
                "endingOffsets": '{"events": {"0": 5}}',
            },
            {"events-0": 1},
        ),
        (
            {
                "subscribe": "orders",
                "startingTimestamp": str(START_MS + 150),
                "startingOffsetsByTimestampStrategy": "latest",
            },
            {"orders-0": 5},
        ),
    ],
)
def test_options(logs: Path, options: dict[str, str], expected: dict[str, int]) -> None:
    rows = rows_of(table(logs, columns="topic,partition,offset", **options))
    assert {name: len(offsets) for name, offsets in places(rows).items()} == expected


@pytest.mark.parametrize(("most", "parts"), [("1", 35), ("3", 7 + 4 + 2), ("100", 3)])
def test_records_of_a_partition(logs: Path, most: str, parts: int) -> None:
    """With any number the rows are the same. A part is of one segment."""
    limited = table(logs, maxRecordsPerPartition=most)
    assert rows_of(limited) == rows_of(table(logs))
    plan = plan_of(limited)
    assert len(plan.parts) >= parts
    each = [rows_of_plan(replace(plan, parts=[part]), PROJECTION, "FAILFAST") for part in plan.parts]
    assert max(map(len, each)) <= int(most)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"subscribe": "a", "assign": "{}"}, "subscribe and assign exclude each other"),
        ({"subscribe": "events,ordrs"}, r"no topic 'ordrs' .did you mean 'orders'\?"),
        ({"assign": '{"ordrs": [0]}'}, r"no topic 'ordrs' .did you mean 'orders'\?"),
        ({"assign": '{"orders": [7]}'}, "the topic 'orders' has no partition 7 .there are 0, 1"),
        ({"assign": "orders"}, "say JSON such as"),
        ({"subscribePattern": "("}, "no regular expression"),
        ({"startingOffsets": "latest"}, "say earliest, or JSON"),
        ({"endingOffsets": '{"events": {"0": -2}}'}, "-2 is the earliest offset"),
        ({"subscribe": "orders", "startingOffsets": '{"orders": {"0": 3}}'}, "none for orders-1"),
        (
            {"subscribe": "events", "startingOffsets": '{"events": {"0": 3, "1": 4}}'},
            "the topic 'events' has no partition 1",
        ),
        (
            {"subscribe": "orders", "startingOffsets": '{"orders": {"0": 3, "1": 3}, "events": {"0": 3}}'},
            "offsets are given for events-0, which is not read",
        ),
        ({"startingTimestamp": "2023-11-14T22:13:20Z"}, "say milliseconds since the epoch, such as 1700000000000"),
        ({"startingTimestamp": "6", "endingTimestamp": "5"}, "the starting timestamp 6 is later than the ending .* 5"),
        (
            {
                "subscribe": "events",
                "startingOffsetsByTimestamp": '{"events": {"0": 6}}',
                "endingOffsetsByTimestamp": '{"events": {"0": 5}}',
            },
            "the starting timestamp of events-0 6 is later than the ending timestamp 5",
        ),
        (
            {"subscribe": "events", "startingOffsets": '{"events": {"0": 4}}', "endingOffsets": '{"events": {"0": 3}}'},
            "the starting offset of events-0 4 is behind the ending offset 3",
        ),
        (
            {"subscribe": "events", "startingOffsets": '{"events": {"0": 99}}'},
            r"events-0 ends before offset 5, and offset 99 is wanted first .say 0 to 5; option failOnDataLoss=false",
        ),
        (
            {"subscribe": "events", "endingOffsets": '{"events": {"0": 99}}'},
            r"events-0 ends before offset 5, and offset 98 is wanted last .say 5 or -1 .latest. in endingOffsets;",
        ),
        ({"startingTimestamp": str(START_MS + 10_000)}, "has no record at or after the starting timestamp"),
        ({"maxRecordsPerPartition": "0"}, "whole number of 1 or more"),
        ({"isolation.level": "read_comitted"}, "did you mean read_committed"),
        (
            {"kafka.bootstrap.servers": "localhost:9092"},
            "kafka_log has no option 'kafka.bootstrap.servers' .kafka_log reads the files of its path",
        ),
        ({"Topic": "events"}, "no option 'topic' .the topics are named by subscribe"),
        ({"queueId": "0"}, "no option 'queueid' .say assign"),
    ],
)
def test_wrong_options(logs: Path, options: dict[str, str], said: str) -> None:
    with pytest.raises((UsageError, MissingFileError), match=said):
        table(logs, **options)


def test_what_is_left_out(logs: Path) -> None:
    whole = plan_of(table(logs, subscribe="orders"))
    assert whole.pruned_files == 0
    found = plan_of(table(logs, subscribe="orders"), Condition("offset", GREATER, 15))
    assert 0 < found.size_bytes < whole.size_bytes / 2
    assert found.pruned_files > 2
    one = plan_of(table(logs), Condition("topic", EQUAL, "events"))
    assert {part.split.topic for part in one.parts} == {"events"}  # type: ignore[attr-defined]
    assert len(plan_of(table(logs, maxPartitionBytes="100")).parts) > len(plan_of(table(logs)).parts)


def test_one_partition(logs: Path) -> None:
    assert places(rows_of(table(logs / "orders-1"))) == {"orders-1": [*range(10)]}


def test_a_rocketmq_store_is_refused(tmp_path: Path) -> None:
    (tmp_path / "commitlog").mkdir()
    (tmp_path / "commitlog" / f"{0:020d}").write_bytes(bytes(64))
    with pytest.raises(UsageError, match="kafka_log reads a Kafka log directory"):
        table(tmp_path)


# -- a state that stays
def test_a_growing_log(tmp_path: Path) -> None:
    root = write(tmp_path / "logs", "t-0", 3)
    frozen = table(root)
    with Log.open(str(root / "t-0")) as log:
        log.append([Record(b"new", b"v", START_MS)])
        assert len(rows_of(frozen)) == 3
        log.roll()
        assert len(rows_of(frozen)) == 3
        assert len(rows_of(table(root))) == 4


@pytest.mark.parametrize("offset", [0, 4, (1 << 64) - 1, (1 << 63) - 1])
def test_a_damaged_offset_of_the_last_batch_hides_no_row(tmp_path: Path, offset: int) -> None:
    """No checksum covers it. It was taken for the end of the log."""
    root = write(tmp_path / "logs", "t-0", 9)
    file = next((root / "t-0").glob("*.log"))
    data = bytearray(file.read_bytes())
    [row] = rows_of(LogDirTable({"path": str(root), "rawBatches": "true", "columns": "position,lastOffset"}))[-1:]
    data[row["position"] : row["position"] + 8] = offset.to_bytes(8, "big")
    file.write_bytes(data)
    assert places(rows_of(table(root)))["t-0"][:8] == [*range(8)]
    if offset != (1 << 63) - 1:  # an offset that is too high contradicts nothing
        assert [row["offset"] for row in rows_of(table(root, mode="PERMISSIVE"))] == [*range(8), None]


def test_deleted_records(tmp_path: Path) -> None:
    root = write(tmp_path / "logs", "t-0", 9, segment_bytes=200)
    strict, lenient = table(root), table(root, failOnDataLoss="false")
    first = sorted((root / "t-0").glob("*.log"))[1].stem
    for path in (root / "t-0").glob(f"{0:020d}.*"):
        path.unlink()
    with pytest.raises(
        UsageError, match=rf"t-0 begins at offset {int(first)}, and offset 0 is wanted first .*failOnDataLoss=false"
    ):
        rows_of(strict)
    assert places(rows_of(lenient)) == {"t-0": [*range(int(first), 9)]}
    shutil.rmtree(root / "t-0")
    with pytest.raises(UsageError, match="t-0 was deleted meanwhile"):
        rows_of(strict)
    assert rows_of(lenient) == []
    assert "t-0 was deleted meanwhile" in plan_of(lenient).notes[0]


# -- several directories
def test_replicas(tmp_path: Path) -> None:
    for name, count in (("a", 3), ("b", 5), ("c", 5)):
        write(tmp_path / name, "t-0", count)
    (tmp_path / "c" / "meta.properties").write_text("version=1\ncluster.id=other\nnode.id=1\n")
    write(tmp_path / "b", "u-0", 2)
    both = table(f"{tmp_path}/a,{tmp_path}/b")
    assert places(rows_of(both)) == {"t-0": [*range(5)], "u-0": [0, 1]}
    (note,) = plan_of(both).notes
    assert note.startswith(f"t-0: the replicas differ: reads {tmp_path}/b (epoch ")
    assert f"not {tmp_path}/a (epoch " in note
    rows = rows_of(table(f"{tmp_path}/*"))
    assert len([row for row in rows if row["topic"] == "t"]) == 10, "another cluster's topic is other data"
    of_c = Condition("logDir", EQUAL, f"{tmp_path}/c")
    assert {row["logDir"] for row in rows_of(table(f"{tmp_path}/*"), of_c)} == {f"{tmp_path}/c"}


def test_the_epoch_of_a_replica_counts_before_its_end() -> None:
    """A former leader may have records that no other replica has got."""
    former, leader, follower = (
        Replica(root, "t", 0, epoch, 0, end) for root, epoch, end in (("a", 3, 99), ("b", 5, 10), ("c", 5, 8))
    )
    for replicas in ([former, leader, follower], [follower, leader, former]):
        assert choose(replicas)[0] == [leader]


@pytest.mark.parametrize("mark", ["delete", "future", "stray"])
def test_a_marked_directory_is_read_only_if_none_is_in_use(tmp_path: Path, mark: str) -> None:
    """Such as one of a deleted topic, which had more records than the new topic of that name."""
    marked = tmp_path / "logs" / f"t-0.{7:032x}-{mark}"
    write(tmp_path / "logs", "t-0", 9)
    (tmp_path / "logs" / "t-0").rename(marked)
    assert places(rows_of(table(marked))) == {"t-0": [*range(9)]}
    write(tmp_path / "logs", "t-0", 4)
    both = table(f"{tmp_path}/logs/t-0*")
    assert places(rows_of(both)) == {"t-0": [*range(4)]}
    (note,) = plan_of(both).notes
    assert f"not {marked} (marked {mark}, epoch " in note


# -- damage
@pytest.fixture
def harmed(tmp_path: Path) -> Path:
    """A partition whose batch at offset 4 has a flipped bit in its value."""
    root = write(tmp_path / "logs", "t-0", 10)
    path = root / "t-0" / f"{0:020d}.log"
    data = bytearray(path.read_bytes())
    size = len(data) // 10
    data[4 * size + size // 2] ^= 1
    path.write_bytes(data)
    return root


def test_damage(harmed: Path) -> None:
    with pytest.raises(CorruptError, match=r"\.log: byte \d+: .*mode=PERMISSIVE"):
        rows_of(table(harmed))
    whole = [0, 1, 2, 3, 5, 6, 7, 8, 9]
    rows = rows_of(table(harmed, mode="permissive"))
    (told,) = (row["_corrupt"] for row in rows if row["_corrupt"] is not None)
    assert [row["offset"] for row in rows if row["_corrupt"] is None] == whole
    assert told["file"].endswith(".log")
    assert 0 < told["begin"] < told["end"]
    assert [row["offset"] for row in rows_of(table(harmed, mode="DROPMALFORMED"))] == whole


def test_a_torn_segment(tmp_path: Path) -> None:
    """The end of the last segment may be torn, as a broker's crash leaves it. In the middle that is
    damage."""
    root = write(tmp_path / "logs", "t-0", 9, segment_bytes=200)
    paths = sorted((root / "t-0").glob("*.log"))
    last = paths[-1].read_bytes()
    paths[-1].write_bytes(last[:-3])
    whole = rows_of(table(root))
    assert 0 < len(whole) < 9
    paths[1].write_bytes(paths[1].read_bytes()[:-3])
    with pytest.raises(CorruptError, match="mode=PERMISSIVE"):
        rows_of(table(root))
    rows = rows_of(table(root, mode="PERMISSIVE"))
    assert len([row for row in rows if row["_corrupt"] is None]) == len(whole) - 1
    assert [row["_corrupt"]["file"] for row in rows if row["_corrupt"] is not None] == [str(paths[1])]


def test_a_key_is_an_option_and_a_condition(logs: Path) -> None:
    assert places(rows_of(table(logs, key="k3"))) == {"events-0": [3], "orders-0": [3], "orders-1": [3]}
    assert places(rows_of(table(logs, subscribe="events", key="k3"), Condition("key", EQUAL, b"k3"))) == {
        "events-0": [3]
    }
    assert rows_of(table(logs, key="k3"), Condition("key", EQUAL, b"k4")) == []
    assert rows_of(table(logs, key="nothing")) == []
    whole = sum(part.size_bytes for part in plan_of(table(logs, key="k3")).parts)
    for log in logs.glob("*/*.log"):
        log.with_suffix(".keyindex").write_bytes(build_key_index(str(log)).tobytes())
    assert sum(part.size_bytes for part in plan_of(table(logs, key="k3")).parts) < whole / 2
    assert places(rows_of(table(logs, key="k3"))) == {"events-0": [3], "orders-0": [3], "orders-1": [3]}


def test_a_time_in_seconds_is_told(logs: Path) -> None:
    [note, *_] = plan_of(table(logs, startingTimestamp="1700000000")).notes
    assert "startingTimestamp is 1700000000 ms, which is early in 1970" in note
