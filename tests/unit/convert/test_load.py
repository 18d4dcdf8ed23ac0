"""Parquet as a new store or log directory: what an export wrote, tables of one's own, and what is
refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from logdex.convert.export import export
from logdex.convert.load import load
from logdex.convert.sources.kafka import LogDirSource
from logdex.convert.sources.rocketmq import StoreSource
from logdex.convert.translate import convert
from logdex.errors import CorruptError, MissingFileError, UsageError
from logdex.kafka import Log, Record
from logdex.kafka.read.read_filter import ReadFilter
from logdex.kafka.snapshot.log_dir_snapshot import LogDirSnapshot
from logdex.rocketmq.message_store.message_store import MessageStore
from logdex.rocketmq.message_store.put.message import Message
from logdex.rocketmq.snapshot.store_snapshot import StoreSnapshot
from tests.unit.convert.export.test_job import store
from tests.unit.convert.test_translate import NEW


def table(folder: Path, columns: dict[str, Any], name: str = "t.parquet", row_group_size: int | None = None) -> str:
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), folder / name, row_group_size=row_group_size)
    return str(folder / name)


def test_an_export_of_logs_comes_back(tmp_path: Path) -> None:
    with Log.open(str(tmp_path / "logs" / "events-1")) as log:
        log.truncate_fully_and_start_at(5)
        for number in range(6):
            headers = (("trace", b"%d" % number), ("none", None)) if number % 2 else ()
            value = None if number == 3 else b"v%d" % number
            log.append([Record(key=b"k", value=value, timestamp_ms=number * 40_000_000, headers=headers)])
    source = LogDirSource(str(tmp_path / "logs"))
    export(source, str(tmp_path / "lake"), sync=False)
    report = load(str(tmp_path / "lake"), str(tmp_path / "back"), "kafka", sync=False)
    assert (report.messages, report.files, report.lossy) == (6, 1, False)
    with LogDirSnapshot(str(tmp_path / "back")) as back, LogDirSnapshot(str(tmp_path / "logs")) as logs:
        found, expected = list(back.scan()), list(logs.scan())
    assert [(r.offset, r.timestamp_ms, r.key, r.value, r.headers) for r in found] == [
        (r.offset, r.timestamp_ms, r.key, r.value, r.headers) for r in expected
    ]


def test_an_export_of_a_store_comes_back(tmp_path: Path) -> None:
    source = store(tmp_path / "store", 12)
    export(source, str(tmp_path / "lake"), sync=False)
    report = load(str(tmp_path / "lake"), str(tmp_path / "back"), "rocketmq", settings=NEW, sync=False)
    assert report.messages == 12
    assert "storeTimestamp" in report.notes[-1]

    def facts(path: str, **settings: Any) -> list[Any]:
        with StoreSnapshot(path, **settings) as snapshot:
            return sorted((m.topic, m.queue_id, m.body, m.properties, m.born_timestamp_ms) for m in snapshot.scan())

    assert facts(str(tmp_path / "back"), **NEW) == facts(str(tmp_path / "store"), **source.settings)


@pytest.mark.parametrize("offsets", [{"offset": [4, 5, 8, 9]}, {}], ids=["offsets", "none"])
def test_control_records_are_left_out(offsets: dict[str, list[int]], tmp_path: Path) -> None:
    """An export with ``--control`` has them; as records they would be markers that nobody wrote."""
    is_control = [False, True, None, True]
    path = table(
        tmp_path, {"topic": ["a", "a", "a", "b"], "value": ["x", "m", "y", "m"], "isControl": is_control} | offsets
    )
    report = load(path, str(tmp_path / "logs"), "kafka", sync=False)
    assert (report.messages, report.files, report.lossy) == (2, 1, False)
    assert "2 control records left out: they end transactions" in report.notes
    with LogDirSnapshot(str(tmp_path / "logs")) as logs:
        assert [(r.offset, r.value) for r in logs.scan()] == [(4 if offsets else 0, b"x"), (8 if offsets else 2, b"y")]


@pytest.mark.parametrize("isolation", [None, "read_uncommitted", "read_committed"])
def test_records_of_transactions_are_told(isolation: str | None, tmp_path: Path) -> None:
    """An export has those of aborted ones, which no column tells from others, unless it was made
    with ``--isolation-level read_committed``."""
    with Log.open(str(tmp_path / "logs" / "events-0")) as log:
        log.append([Record(value=b"plain")])
        with log.transaction(7) as committed:
            committed.append([Record(value=b"committed")])
        aborted = log.transaction(7)
        aborted.append([Record(value=b"aborted"), Record(value=b"aborted")])
        aborted.abort()
    wanted = ReadFilter(isolation=isolation)
    export(LogDirSource(str(tmp_path / "logs"), wanted=wanted), str(tmp_path / "lake"), sync=False)
    report = load(str(tmp_path / "lake"), str(tmp_path / "back"), "kafka", sync=False)
    told = [note for note in report.notes if "3 records of transactions, also of aborted ones, become ordinary" in note]
    assert len(told) == (isolation != "read_committed"), report.notes
    assert report.messages == (2 if isolation == "read_committed" else 4)
    assert not report.lossy


def test_a_table_of_ones_own(tmp_path: Path) -> None:
    path = table(
        tmp_path, {"topic": ["a", "b", "a"], "value": ["x", None, "z"], "key": ["1", "2", "3"], "more": [1, 2, 3]}
    )
    report = load(path, str(tmp_path / "logs"), "kafka", sync=False)
    assert report.notes == ["columns without a place in kafka: more"]
    with LogDirSnapshot(str(tmp_path / "logs")) as logs:
        assert [(r.offset, r.key, r.value) for r in logs.scan(topic="a")] == [(0, b"1", b"x"), (1, b"3", b"z")]
    path = table(tmp_path / "in" / "topic=%25x", {"body": [b"1", None], "tags": ["A", None], "keys": [["k", "l"], []]})
    load(str(tmp_path / "in"), str(tmp_path / "store"), "rocketmq", settings=NEW, sync=False)
    with StoreSnapshot(str(tmp_path / "store"), **NEW) as found:
        messages = list(found.scan(topic="%x"))
    assert (messages[0].body, messages[0].tags, messages[0].keys[:2]) == (b"1", b"A", [b"k", b"l"])
    assert (messages[1].body, messages[1].tags) == (b"", None)


@pytest.mark.parametrize(
    ("columns", "format_name", "said"),
    [
        ({"value": ["x"]}, "kafka", "nothing says the topic"),
        (
            {"value": ["x", "y"], "topic": ["t", None]},
            "kafka",
            "parquet: a row has no topic .fill the nulls of the column topic",
        ),
        ({"topic": [None]}, "kafka", "a row has no topic"),
        ({"topic": ["a"], "partition": ["x"]}, "kafka", "the column partition is string"),
        ({"topic": ["a"], "partition": [-1]}, "kafka", "the column partition has -1"),
        ({"topic": ["a"], "offset": pa.array([None], pa.int64())}, "kafka", "the column offset has nulls"),
        ({"topic": ["a"], "headers": [7]}, "kafka", "the column headers is bigint"),
        ({"topic": ["a" * 40_000]}, "rocketmq", "topic"),
        ({"topic": ["a"]}, "pulsar", "the format 'pulsar' is unknown"),
    ],
)
def test_refused_tables(tmp_path: Path, columns: dict[str, Any], format_name: str, said: str) -> None:
    path = table(tmp_path, columns)
    with pytest.raises(UsageError, match=said):
        load(path, str(tmp_path / "out"), format_name, settings=NEW if format_name == "rocketmq" else None, sync=False)
    assert not list((tmp_path / "out").glob("*"))


def test_refused_files(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(MissingFileError, match="no file here ends with"):
        load(str(tmp_path / "empty"), str(tmp_path / "out"), "kafka")
    whole = Path(table(tmp_path, {"topic": ["a"] * 100}))
    whole.write_bytes(whole.read_bytes()[:-50])
    with pytest.raises(CorruptError, match="no whole Parquet file"):
        load(str(whole), str(tmp_path / "out"), "kafka", sync=False)


def test_what_is_yet_to_deliver_is_left_out(tmp_path: Path) -> None:
    """A store would deliver it a second time."""
    with MessageStore.open(str(tmp_path / "store"), background=False, **NEW) as source:
        source.put_message(Message("a", b"plain"))
        for commit in (True, False):
            source.end_transaction(source.put_half(Message("a", b"half %d" % commit)), commit=commit)
        source.put_half(Message("a", b"open"))
    source_of = StoreSource(str(tmp_path / "store"), settings=NEW)
    export(source_of, str(tmp_path / "lake"), sync=False)
    old = {"body": ["old half", "x"], "sysFlag": [4, 0], "physicalOffset": [1 << 40, 1 << 41]}
    table(tmp_path / "lake" / "topic=a", old)
    table(tmp_path / "lake" / "topic=SCHEDULE_TOPIC_XXXX", {"body": ["delayed"], "physicalOffset": [1 << 42]})
    report = load(str(tmp_path / "lake"), str(tmp_path / "back"), "rocketmq", settings=NEW, sync=False)
    converted = convert(source_of, str(tmp_path / "logs"), sync=False)
    topics = ("RMQ_SYS_TRANS_HALF_TOPIC", "RMQ_SYS_TRANS_OP_HALF_TOPIC", "SCHEDULE_TOPIC_XXXX")
    assert report.losses == [
        "1 message left out: of transactions, which are in no queue",
        *(
            f"{count} message{'s' * (count > 1)} of {topic}, in which an engine keeps what it has yet to deliver"
            for count, topic in zip((3, 2, 1), topics, strict=True)
        ),
    ]
    assert set(converted.losses) == set(report.losses[1:3])
    with StoreSnapshot(str(tmp_path / "back"), **NEW) as back:
        assert sorted((m.topic, m.body) for m in back.scan()) == [(b"a", b"half 1"), (b"a", b"plain"), (b"a", b"x")]
    assert report.messages == 3


@pytest.mark.parametrize(
    ("columns", "format_name", "said"),
    [
        (
            {"topic": ["a"], "key": ["k"], "valeu": ["v"]},
            "kafka",
            "the column 'valeu' is unknown .did you mean 'value'",
        ),
        ({"topic": ["a"], "Key": ["k"], "value": ["v"]}, "kafka", "the column 'Key' is unknown .did you mean 'key'"),
        ({"topic": ["a"], "body": ["k"], "queueid": [1]}, "rocketmq", "'queueid' is unknown .did you mean 'queueId'"),
        (
            {"topic": ["a"], "body": ["k"], "queue_id": [1], "unique_key": ["u"]},
            "rocketmq",
            'the names of SQL.*SELECT queue_id AS "queueId", unique_key AS "uniqueKey"',
        ),
        ({"Topic": ["a"], "body": ["k"]}, "rocketmq", "the column 'Topic' is unknown .did you mean 'topic'"),
    ],
)
def test_misspelt_columns(tmp_path: Path, columns: dict[str, Any], format_name: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        load(table(tmp_path, columns), str(tmp_path / "out"), format_name, sync=False)


def test_columns_of_the_other_format_are_no_misspelt_ones(tmp_path: Path) -> None:
    path = table(tmp_path / "in", {"topic": ["a"], "body": ["b"], "value": ["v"], "key": ["k"]})
    assert load(path, str(tmp_path / "out"), "rocketmq", settings=NEW, sync=False).messages == 1


def test_files_that_are_not_of_the_export_are_told(tmp_path: Path) -> None:
    """They may be there twice, or be of something else."""
    with Log.open(str(tmp_path / "logs" / "a-0")) as log:
        log.append([Record(b"k", b"v")])
    lake = tmp_path / "lake"
    export(LogDirSource(str(tmp_path / "logs")), str(lake), sync=False)
    assert load(str(lake), str(tmp_path / "one"), "kafka", sync=False).notes == [
        "columns without a place in kafka: isControl, isTransactional, leaderEpoch, producerEpoch, producerId, "
        "sequence, timestampType"
    ]
    other = Path(table(lake / "topic=b", {"value": ["v"]}))
    report = load(str(lake), str(tmp_path / "two"), "kafka", sync=False)
    assert report.notes[0] == f"1 file in no manifest of the export, such as {other}: their rows are imported too"
    assert report.messages == 2
