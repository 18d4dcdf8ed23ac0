"""The sink into log directories without Spark: columns, which partition, what is refused,
codecs."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest

from logdex.errors import LogInUseError, MissingFileError, UsageError
from logdex.io.env import DEFAULT_ENV
from logdex.kafka.files.checkpoints import TopicPartition, read_offset_checkpoint
from logdex.kafka.files.metadata_files import CleanShutdown
from logdex.kafka.log.log import Log
from logdex.kafka.snapshot.log_dir_snapshot import LogDirSnapshot
from logdex.kafka.snapshot.partition_snapshot import PartitionSnapshot
from logdex.primitives.murmur2 import murmur2
from logdex.spark.sinks.journal import Pending, SinkJournal
from logdex.spark.sinks.kafka.sink import LogDirSink
from logdex.spark.sinks.rocketmq.sink import StoreSink
from logdex.spark.sinks.writer import LogWriter
from tests.conftest import GoldenStore
from tests.crash.sinks import NOW_MS, commit

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


def sink(path: Path, batch: pa.RecordBatch, **options: str) -> LogDirSink:
    return LogDirSink({"path": str(path), **options}, tuple(batch.schema.names))


def test_all_columns(tmp_path: Path) -> None:
    at = datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)
    batch = pa.record_batch(
        {
            "key": [b"k", None, b"k"],
            "value": ["one", "two", None],
            "topic": ["a", "a", "b"],
            "partition": pa.array([1, None, 0], pa.int32()),
            "timestamp": pa.array([at, None, at], pa.timestamp("us", "UTC")),
            "headers": pa.array([[{"key": "h", "value": b"1"}], None, []], HEADERS),
            "offset": pa.array([5, 6, 7], pa.int64()),
        }
    )
    assert commit(sink(tmp_path / "logs", batch, compression="zstd", partitions="2"), 0, [batch], DEFAULT_ENV)
    with LogDirSnapshot(tmp_path / "logs") as snapshot:
        found = {
            (name, number): [*snapshot.partition(name, number).scan()]
            for name, number in (("a", 1), ("a", 0), ("b", 0))
        }
    (first,) = found["a", 1]
    assert (first.key, first.value, first.timestamp_ms, first.headers) == (
        b"k",
        b"one",
        1_700_000_000_000,
        (("h", b"1"),),
    )
    (second,) = found["a", 0]
    assert (second.key, second.value, second.timestamp_ms, second.headers) == (None, b"two", NOW_MS, ())
    assert [record.value for record in found["b", 0]] == [None]


def test_a_directory_of_the_other_format_is_refused(golden_store: GoldenStore, golden_log: GoldenStore) -> None:
    with pytest.raises(UsageError, match="path"):
        LogDirSink({"path": str(golden_store("tiny-5.5.0"))}, ("value", "topic"))
    with pytest.raises(UsageError, match="path"):
        StoreSink({"path": str(golden_log("tiny-broker"))}, ("body", "topic"))


def test_a_new_directory_is_one_that_a_broker_closed(tmp_path: Path) -> None:
    """As `convert` leaves one: a broker starts on it without a recovery."""
    root = tmp_path / "logs"
    for number in range(2):
        batch = pa.record_batch({"value": [b"1", b"2"], "partition": pa.array([0, 1], pa.int32())})
        assert commit(sink(root, batch, topic="t", partitions="2"), number, [batch], DEFAULT_ENV)
        assert (root / ".kafka_cleanshutdown").read_bytes() == CleanShutdown().to_bytes()
        points = read_offset_checkpoint(str(root / "recovery-point-offset-checkpoint"))
        assert points == {TopicPartition("t", 0): number + 1, TopicPartition("t", 1): number + 1}
    assert not [*root.glob("t-*/.l*")], "neither locks nor marks of lone partitions"
    with Log.open(root / "t-0") as log:
        assert log.load_report.was_clean


def test_the_clean_mark_of_a_broker_stays(tmp_path: Path) -> None:
    root, batch = tmp_path / "logs", pa.record_batch({"value": [b"1"]})
    root.mkdir()
    (root / "meta.properties").write_text("version=1\ncluster.id=c\nnode.id=1\n")
    assert commit(sink(root, batch, topic="t"), 0, [batch], DEFAULT_ENV)
    assert not (root / ".kafka_cleanshutdown").exists(), "its broker was killed"
    (root / ".kafka_cleanshutdown").write_bytes(b"of the broker")
    with sink(root, batch, topic="t").open() as logs:
        logs.append(pa.table({"log": ["t-0"], "key": pa.nulls(1, pa.binary()), "value": [b"2"], "timestamp_ms": [1]}))
        assert not (root / ".kafka_cleanshutdown").exists(), "a kill here is no clean shutdown"
    assert (root / ".kafka_cleanshutdown").read_bytes() == b"of the broker"


def test_partitions_without_a_log_directory_stay_so(tmp_path: Path) -> None:
    """Their checkpoints and marks are in their own directories."""
    Log.open(tmp_path / "logs" / "t-0").close()
    batch = pa.record_batch({"value": [b"1"]})
    assert commit(sink(tmp_path / "logs", batch, topic="t"), 0, [batch], DEFAULT_ENV)
    assert not (tmp_path / "logs" / ".kafka_cleanshutdown").exists()
    with Log.open(tmp_path / "logs" / "t-0") as log:
        assert log.load_report.was_clean


def test_keys_choose_partitions(tmp_path: Path) -> None:
    keys = [b"key-%d" % number for number in range(40)]
    batch = pa.record_batch({"key": keys, "value": keys})
    for number in range(3):
        Log.open(tmp_path / "logs" / f"t-{number}").close()
    assert commit(sink(tmp_path / "logs", batch, topic="t"), 0, [batch], DEFAULT_ENV)
    with LogDirSnapshot(tmp_path / "logs") as snapshot:
        for number in range(3):
            found = [record.key for record in snapshot.partition("t", number).scan()]
            assert found == [key for key in keys if (murmur2(key) & 0x7FFFFFFF) % 3 == number]


def test_one_partition(tmp_path: Path) -> None:
    batch = pa.record_batch({"value": [b"1", b"2"]})
    Log.open(tmp_path / "t-0").close()
    assert commit(sink(tmp_path / "t-0", batch), 0, [batch], DEFAULT_ENV)
    assert not commit(sink(tmp_path / "t-0", batch), 0, [batch], DEFAULT_ENV)
    with PartitionSnapshot(tmp_path / "t-0") as snapshot:
        assert [record.value for record in snapshot.scan()] == [b"1", b"2"]


@pytest.mark.parametrize(
    ("columns", "options", "said"),
    [
        ({"value": [b"x"]}, {}, "a column topic is missing .add a column topic without nulls, or the option topic"),
        ({"value": [b"x"], "topic": pa.array([None], pa.string())}, {}, "a row has no topic"),
        ({"value": [1.5]}, {"topic": "t"}, "the column value is double: .*cast it to string"),
        ({"key": [7], "value": [b"x"]}, {"topic": "t"}, "the column key is bigint: .*cast it to string"),
        ({"value": [b"x"], "headers": ["h"]}, {"topic": "t"}, "cast it to array<struct<key:binary,value:binary>>"),
        ({"key": [b"x"]}, {}, "a column value is missing"),
        ({"value": [b"x"], "topic": ["a/b"]}, {}, "'a/b' cannot be the name of a topic .Kafka takes letters"),
        ({"value": [b"x"]}, {"topic": "t" * 250}, "cannot be the name of a topic"),
        ({"value": [b"x"], "partition": [-1]}, {"topic": "t"}, "the column partition has -1"),
        ({"value": [b"x"], "partition": [2]}, {"topic": "t", "partitions": "2"}, "'t' has no partition 2 .there are 0"),
        ({"value": [b"x"], "partition": [2]}, {"topic": "t"}, "'t' is new, and its rows are of partition 2 but"),
        ({"value": [b"x"]}, {"topic": "t", "compression": "zip"}, "the option compression"),
        ({"value": [b"x"], "partition": ["p"]}, {"topic": "t"}, "the column partition is string"),
    ],
)
def test_what_is_refused(tmp_path: Path, columns: dict[str, list[object]], options: dict[str, str], said: str) -> None:
    batch = pa.record_batch(columns)
    with pytest.raises((UsageError, MissingFileError), match=said):
        commit(sink(tmp_path / "logs", batch, **options), 0, [batch], DEFAULT_ENV)


def test_a_missing_topic_is_found_before_any_row(tmp_path: Path) -> None:
    batch = pa.record_batch({"value": [b"x"]})
    with pytest.raises(UsageError, match="a column topic is missing"):
        sink(tmp_path / "logs", batch)
    assert sink(tmp_path / "t-0", batch), "the directory of one partition names its topic"


def test_a_partition_that_the_topic_has_not(tmp_path: Path) -> None:
    """As for Kafka's producer. Every partition of a topic is made with the topic."""
    root = tmp_path / "logs"
    first = pa.record_batch({"value": [b"x"], "partition": pa.array([1], pa.int32())})
    assert commit(sink(root, first, topic="t", partitions="3"), 0, [first], DEFAULT_ENV)
    assert sorted(path.name for path in root.glob("t-*")) == ["t-0", "t-1", "t-2"]
    other = pa.record_batch({"value": [b"x", b"y"], "partition": pa.array([0, 5], pa.int32())})
    with pytest.raises(MissingFileError, match=r"the topic 't' has no partition 5 .there are 0 to 2"):
        commit(sink(root, other, topic="t"), 1, [other], DEFAULT_ENV)
    assert not (root / "t-5").exists()
    assert commit(sink(root, first, topic="t"), 1, [first], DEFAULT_ENV), "nothing is left to be finished"
    with LogDirSnapshot(root) as snapshot:
        assert len([*snapshot.scan()]) == 2


def test_a_failed_write_leaves_no_directory_that_it_made(tmp_path: Path) -> None:
    batch = pa.record_batch({"value": [b"x"], "partition": pa.array([-1], pa.int32())})
    for root in (tmp_path / "new", tmp_path):
        writer = LogWriter(sink(root, batch, topic="t"))
        with pytest.raises(UsageError, match="partition has -1"):
            writer.write(iter([batch]))
        writer.abort([None])
        assert root.exists() == (root == tmp_path)


def test_a_failed_write_removes_what_a_killed_task_has_staged(tmp_path: Path) -> None:
    """Of such a task the driver has no message. What another write stages, and what the journal has
    as begun, stays."""
    batch, root = pa.record_batch({"value": [b"x"]}), tmp_path / "logs"
    writer, other, begun = (LogWriter(sink(root, batch, topic="t")) for _ in range(3))
    for each in (writer, writer, other):
        each.write(iter([batch]))
    kept = begun.write(iter([batch]))
    SinkJournal(pending=Pending("", 0, (kept.file,), {"t-0": 0})).write(str(root), DEFAULT_ENV)
    begun.write(iter([batch]))
    assert len([*root.glob("*.arrow")]) == 5
    begun.abort([None, kept])
    assert len([*root.glob("*.arrow")]) == 4
    writer.abort([None, None])
    assert len([*root.glob("*.arrow")]) == 2
    staged = other.write(iter([batch]))
    SinkJournal().write(str(root), DEFAULT_ENV)
    other.commit([staged])
    assert [path.name for path in root.glob("*.arrow")] == [kept.file]


def test_a_partition_that_is_in_use(tmp_path: Path) -> None:
    batch = pa.record_batch({"value": [b"x"]})
    with Log.open(tmp_path / "logs" / "t-0"), pytest.raises(LogInUseError):
        commit(sink(tmp_path / "logs", batch, topic="t"), 0, [batch], DEFAULT_ENV)
    assert commit(sink(tmp_path / "logs", batch, topic="t"), 0, [batch], DEFAULT_ENV)


def test_options_that_spark_gives(tmp_path: Path) -> None:
    """A stream's name and checkpoint are Spark's own: it passes them on to the sink."""
    given = {"path": str(tmp_path / "new"), "checkpointLocation": "/checkpoint", "queryName": "to_records"}
    assert LogDirSink(given, ("value", "topic")).directory == StoreSink(given, ("body", "topic")).directory
    with pytest.raises(UsageError, match="no option 'querynames'"):
        LogDirSink(given | {"queryNames": "x"}, ("value", "topic"))
