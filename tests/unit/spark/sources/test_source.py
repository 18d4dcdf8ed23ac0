"""The sources as Spark's Python process uses them, without a session: schemas, errors, the batches
of a reader, and what is said of a plan."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")
from pyspark.sql.datasource import EqualTo
from pyspark.sql.types import BinaryType, LongType, StringType, StructField, StructType

from logdex.errors import NotAStoreError, UsageError
from logdex.kafka.batch.record import Record
from logdex.kafka.log.log import Log
from logdex.spark.sources import rows
from logdex.spark.sources.arrow_batches import BATCH_BYTES_MAX, BATCH_BYTES_MIN
from logdex.spark.sources.kafka.source import KafkaLogSource
from logdex.spark.sources.rocketmq.source import RocketmqStoreSource
from logdex.spark.sources.source import LogReader, LogSource
from tests.unit.rocketmq.small_stores import MESSAGES, build
from tests.unit.spark.sources.kafka.small_logs import START_MS, write
from tests.unit.spark.sources.rocketmq.settings import GEOMETRY


def reader_of(source: LogSource) -> LogReader:
    found = source.reader(source.schema())
    assert isinstance(found, LogReader)
    return found


def types_of(source: LogSource) -> list[tuple[str, str]]:
    return [(field.name, field.dataType.simpleString()) for field in source.schema()]


def test_the_columns_of_spark_s_kafka_source(tmp_path: Path) -> None:
    source = KafkaLogSource({"path": str(write(tmp_path / "logs", "t-0", 1)), "includeHeaders": "true"})
    assert types_of(source)[:8] == [
        ("key", "binary"),
        ("value", "binary"),
        ("topic", "string"),
        ("partition", "int"),
        ("offset", "bigint"),
        ("timestamp", "timestamp"),
        ("timestampType", "int"),
        ("headers", "array<struct<key:string,value:binary>>"),
    ]


def test_the_columns_of_rocketmq_spark(tmp_path: Path) -> None:
    source = RocketmqStoreSource({"path": str(build(tmp_path / "s", MESSAGES[:1])), **GEOMETRY})
    assert types_of(source)[:9] == [
        ("topic", "string"),
        ("flag", "int"),
        ("body", "binary"),
        ("properties", "string"),
        ("brokerName", "string"),
        ("queueId", "int"),
        ("queueOffset", "bigint"),
        ("bornTimestamp", "timestamp"),
        ("storeTimestamp", "timestamp"),
    ]


@pytest.mark.parametrize("source", [KafkaLogSource, RocketmqStoreSource])
def test_a_missing_path(source: type[LogSource], tmp_path: Path) -> None:
    """An error at once, for a batch read and for a stream, not when a task begins."""
    missing = source({"path": str(tmp_path / "none")})
    with pytest.raises(NotAStoreError, match="none: there is no such file or directory"):
        missing.schema()
    with pytest.raises(NotAStoreError, match="none: there is no such file or directory"):
        source.make_stream(missing.options).initial()


def test_what_is_wrong_with_a_stream_is_said_where_spark_can_tell_it(tmp_path: Path) -> None:
    """PySpark hides an error of `streamReader` behind one of its own."""
    path = str(write(tmp_path / "logs", "t-0", 1))
    refused = KafkaLogSource({"path": path, "endingOffsets": "latest"})
    reader: Any = refused.streamReader(refused.schema())
    calls: list[Any] = [reader.initialOffset, reader.getDefaultReadLimit, reader.prepareForTriggerAvailableNow]
    for call in [*calls, lambda: reader.latestOffset({}, None), lambda: reader.partitions({}, {})]:
        with pytest.raises(UsageError, match="endingOffsets is for batch reads"):
            call()
    reader.stop()
    stream: Any = KafkaLogSource({"path": path})
    for wrong in (StructField("offset", StringType()), StructField("lastOffset", StringType())):
        with pytest.raises(UsageError, match=wrong.name):
            stream.streamReader(StructType([wrong])).initialOffset()


@pytest.mark.parametrize("names", ["offset", "offset,value,key"])
def test_a_schema_and_the_option_columns_say_the_same(tmp_path: Path, names: str) -> None:
    path = str(write(tmp_path / "logs", "t-0", 1))
    source = KafkaLogSource({"path": path, "columns": names})
    other = KafkaLogSource({"path": path, "columns": "value,offset", "mode": "PERMISSIVE"}).schema()
    with pytest.raises(UsageError, match="the schema has the columns value, offset, _corrupt, and the option columns"):
        source.reader(other)
    with pytest.raises(UsageError, match="leave out one of the two"):
        source.streamReader(other).initialOffset()
    lenient = KafkaLogSource({"path": path, "columns": "offset,value", "mode": "PERMISSIVE"})
    for schema in (other, StructType(other.fields[:2]), lenient.schema()):
        lenient.reader(schema)
        assert lenient.streamReader(schema).initialOffset() == {"t": {"0": 1}}


def test_the_case_of_names_does_not_matter(tmp_path: Path) -> None:
    """As in Spark. The columns have the case of the user's schema."""
    path = str(write(tmp_path / "logs", "t-0", 3))
    assert types_of(KafkaLogSource({"path": path, "columns": "OFFSET,Value"})) == [
        ("offset", "bigint"),
        ("value", "binary"),
    ]
    source = KafkaLogSource({"path": path, "columns": "Offset", "mode": "PERMISSIVE"})
    damage = source.schema()["_corrupt"].dataType
    schema = StructType([StructField("OFFSET", LongType()), StructField("_CORRUPT", damage)])
    assert source.streamReader(schema).initialOffset() == {"t": {"0": 3}}
    reader: Any = KafkaLogSource({"path": path}).reader(StructType([StructField("OFFSET", LongType())]))
    assert list(reader.pushFilters([EqualTo(("OFFSET",), 1)])) == [], "it is filtered by the read"
    rows = [row for part in reader.partitions() for batch in reader.read(part) for row in batch.to_pylist()]
    assert rows == [{"OFFSET": 1}]
    with pytest.raises(UsageError, match="name columns, each once"):
        KafkaLogSource({"path": path, "columns": "offset,Offset"}).schema()


def test_a_schema_without_nulls_is_refused_where_there_are_some(tmp_path: Path) -> None:
    """Spark would not look for them."""
    source = KafkaLogSource({"path": str(write(tmp_path / "logs", "t-0", 1))})
    source.reader(StructType([StructField("offset", LongType(), False)]))
    never = StructType([StructField("value", BinaryType(), False)])
    with pytest.raises(UsageError, match=r"value may be null, and the schema says NOT NULL .leave that, or nullable="):
        source.reader(never)
    with pytest.raises(UsageError, match="the column value may be null"):
        source.streamReader(never).initialOffset()


def test_sizes_of_batches(tmp_path: Path) -> None:
    """A large partition is cut, small ones are put together."""
    for name, count in (("a-0", 60), ("b-0", 3), ("c-0", 3), ("d-0", 3), ("e-0", 3), ("f-0", 3)):
        with Log.open(str(tmp_path / "logs" / name)) as log:
            for _ in range(count):
                log.append([Record(b"k", bytes(100_000), START_MS)])
    reader = reader_of(KafkaLogSource({"path": str(tmp_path / "logs"), "minPartitions": "1"}))
    for partition in reader.partitions():
        sizes = [batch.nbytes for batch in reader.read(partition)]
        assert all(BATCH_BYTES_MIN <= size <= BATCH_BYTES_MAX for size in sizes[:-1]), sizes
        assert sizes[-1] <= BATCH_BYTES_MAX


def test_what_was_left_out_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rows.LOGGER, "handlers", [])  # a handler keeps the stderr that it was made with
    for name in ("t-0", "u-0"):
        write(tmp_path / "logs", name, 3)
    reader = reader_of(KafkaLogSource({"path": str(tmp_path / "logs")}))
    taken: Any = reader.pushFilters
    assert list(taken([EqualTo(("topic",), "t")])) == []
    assert len(reader.partitions()) == 1
    assert "kafka_log: reads " in (said := capsys.readouterr().err)
    assert "bytes for topic = t; left out 1 of 2 files" in said


def test_records_of_a_partition(tmp_path: Path) -> None:
    """Parts are not put together then."""
    path = write(tmp_path / "logs", "t-0", 10)
    reader = reader_of(KafkaLogSource({"path": str(path), "maxRecordsPerPartition": "4"}))
    assert [sum(map(len, reader.read(each))) for each in reader.partitions()] == [4, 4, 2]
    assert len(reader_of(KafkaLogSource({"path": str(path)})).partitions()) == 1


def test_the_limit_that_spark_is_told(tmp_path: Path) -> None:
    path = str(write(tmp_path / "logs", "t-0", 1))
    source = KafkaLogSource({"path": path, "minOffsetsPerTrigger": "3"})
    stream = source.streamReader(source.schema())
    assert str(stream.getDefaultReadLimit()) == "ReadMinRows(min_rows=3)"
