"""The sink into stores without Spark: columns, what is refused, unique keys, two sinks at once."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest

from logdex.errors import CorruptError, LogInUseError, UsageError
from logdex.io.env import DEFAULT_ENV
from logdex.rocketmq.message_store.message_store import MessageStore
from logdex.rocketmq.snapshot.store_snapshot import StoreSnapshot
from logdex.spark.sinks.journal import SinkJournal
from logdex.spark.sinks.rocketmq.sink import StoreSink
from tests.crash.sinks import NOW_MS, commit


def sink(path: Path, batch: pa.RecordBatch, **options: str) -> StoreSink:
    return StoreSink({"path": str(path), **options}, tuple(batch.schema.names))


def test_all_columns(tmp_path: Path) -> None:
    born = datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)
    batch = pa.record_batch(
        {
            "topic": ["a", "b"],
            "body": [b"one", b"two"],
            "queueId": pa.array([1, 2], pa.int32()),
            "tags": ["x", None],
            "keys": [["k1", "k2"], []],
            "properties": ['{"color": "red", "TAGS": "other"}', None],
            "bornTimestamp": pa.array([born, None], pa.timestamp("us", "UTC")),
            "uniqueKey": ["U1", None],
            "physicalOffset": pa.array([7, 8], pa.int64()),
        }
    )
    path = tmp_path / "store"
    assert commit(sink(path, batch), 0, [batch], DEFAULT_ENV)
    with StoreSnapshot(path) as snapshot:
        first, second = snapshot.scan()
        assert snapshot.valid_end.is_clean
        assert len(snapshot.query_message("a", "k2").messages) == 1
    assert (first.topic, first.body, first.queue_id, first.tags, first.keys) == (b"a", b"one", 1, b"x", [b"k1", b"k2"])
    assert (first.unique_key, first.born_timestamp_ms, first.properties[b"color"]) == (b"U1", 1_700_000_000_000, b"red")
    assert (second.topic, second.queue_id, second.tags, second.born_timestamp_ms) == (b"b", 2, None, NOW_MS)
    assert len(second.unique_key or b"") == 32
    assert SinkJournal.read(str(path), DEFAULT_ENV).pending is None


def test_batches_are_counted_per_query(tmp_path: Path) -> None:
    batch = pa.record_batch({"body": ["text", "text"]})
    to = sink(tmp_path / "s", batch, topic="t")
    assert commit(to, 0, [batch], DEFAULT_ENV)
    assert not commit(to, 0, [batch], DEFAULT_ENV)
    assert commit(to, 0, [batch], DEFAULT_ENV, query="another"), "batch 0 of another query"
    assert commit(to, 4, [batch], DEFAULT_ENV)
    assert commit(to, 0, [batch], DEFAULT_ENV, query=""), "a batch write has no number"
    assert commit(to, 0, [batch], DEFAULT_ENV, query="")
    with StoreSnapshot(tmp_path / "s") as snapshot:
        assert len([*snapshot.scan()]) == 10
    assert commit(to, 5, [], DEFAULT_ENV)


@pytest.mark.parametrize(
    ("columns", "options", "said"),
    [
        ({"body": [b"x"]}, {}, "a column topic is missing .add a column topic without nulls, or the option topic"),
        ({"body": [b"x"], "topic": pa.array([None], pa.string())}, {}, "a row has no topic"),
        ({"topic": ["t"]}, {}, "a column body is missing"),
        ({"body": [b"x"], "bodi": [b"x"]}, {"topic": "t"}, "no column 'bodi' .*did you mean body"),
        ({"body": [b"x"], "topic": ["a b"]}, {}, "'a b' cannot be the name of a topic .RocketMQ's brokers take"),
        ({"body": [b"x"]}, {"topic": "t" * 128}, "cannot be the name of a topic"),
        ({"body": [datetime.now(UTC)]}, {"topic": "t"}, "the column body is timestamp: .*cast it to string"),
        ({"body": [b"x"], "queueId": ["q"]}, {"topic": "t"}, "the column queueId is string: .*cast it to int"),
        ({"body": [b"x"], "bornTimestamp": ["q"]}, {"topic": "t"}, "the column bornTimestamp is string"),
        ({"body": [b"x"], "keys": [["a", "b c"]]}, {"topic": "t"}, "with a space in it, 'b c', .* .make several"),
        ({"body": [b"x"], "properties": ["[1]"]}, {"topic": "t"}, "say a JSON object"),
        ({"body": [b"x"]}, {"topic": "t", "tag": "x"}, "rocketmq_store has no option 'tag'"),
        ({"body": [b"x" * (5 << 20)]}, {"topic": "t"}, "no message that the store takes"),
        ({"body": [b"x"], "properties": ['{"INNER_NUM": "2"}']}, {"topic": "t"}, "takes .MESSAGE_ILLEGAL"),
        ({"body": [b"x"], "properties": ['{"TIMER_DELAY_MS": "2"}']}, {"topic": "t"}, "takes .WHEEL_TIMER_NOT_ENABLE"),
    ],
)
def test_what_is_refused(tmp_path: Path, columns: dict[str, list[object]], options: dict[str, str], said: str) -> None:
    batch = pa.record_batch(columns)
    with pytest.raises(UsageError, match=said):
        commit(sink(tmp_path / "s", batch, **options), 0, [batch], DEFAULT_ENV)
    good = pa.record_batch({"body": [b"x"]})
    assert commit(sink(tmp_path / "s", good, topic="t"), 0, [good], DEFAULT_ENV), "nothing is left to be finished"


def test_a_missing_topic_is_found_before_any_row(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="a column topic is missing"):
        sink(tmp_path / "s", pa.record_batch({"body": [b"x"]}))


def test_a_store_that_is_in_use(tmp_path: Path) -> None:
    batch = pa.record_batch({"body": [b"x"]})
    with MessageStore.open(tmp_path / "s"), pytest.raises(LogInUseError, match="open in this process"):
        commit(sink(tmp_path / "s", batch, topic="t"), 0, [batch], DEFAULT_ENV)
    assert commit(sink(tmp_path / "s", batch, topic="t"), 0, [batch], DEFAULT_ENV)
    assert not [path for path in (tmp_path / "s").iterdir() if path.suffix == ".arrow"], "the first attempt's are swept"


@pytest.mark.parametrize("text", ["", "{", "[]", '{"version": 2}', '{"version": 1, "committed": {}, "pending": 3}'])
def test_a_journal_that_is_none(tmp_path: Path, text: str) -> None:
    (tmp_path / ".logdex-sink").write_text(text)
    with pytest.raises(CorruptError, match="no journal of a sink"):
        SinkJournal.read(str(tmp_path), DEFAULT_ENV)
