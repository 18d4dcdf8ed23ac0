"""The sources on an S3-compatible server: rows are those of local reads, and what a filter leaves
out is not transferred. The server counts what it sends, because Spark's workers are processes of
their own."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from logdex.kafka.batch.record import Record
from logdex.kafka.key_index.build import build_key_index
from logdex.kafka.log.log import Log
from logdex.rocketmq import Message, MessageStore
from logdex.rocketmq.rebuild import rebuild
from logdex.rocketmq.settings.dialect import Dialect
from logdex.rocketmq.settings.store_config import StoreConfig
from logdex.spark.sources.kafka.stream import LogDirStream
from logdex.spark.sources.options import camel_case
from logdex.spark.sources.rocketmq.stream import StoreStream
from logdex.spark.sources.stream_table import LogStream, StreamProgress
from logdex.testing.store_builder import make_message, write_commit_log
from tests import remote
from tests.conformance.rocketmq.test_store import geometry_of
from tests.remote import Traffic
from tests.unit.spark.sources.tables import rows_between

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning"),
]

START_MS = 1_700_000_000_000
SIZES: dict[str, Any] = {
    "mapped_file_size_commit_log": 4 << 20,
    "mapped_file_size_consume_queue": 20 * 2000,
    "max_hash_slot_num": 1000,
    "max_index_num": 20_000,
}
OPTIONS = {camel_case(name): str(size) for name, size in SIZES.items()} | {"timeSlackMs": "0"}
MESSAGES, BODY_BYTES = 6000, 4000

STARTS = '{"orders": {"0": 1490, "1": 1490, "2": 1470, "3": 1490}}'


@dataclass(frozen=True)
class Cloud:
    """A server, and what it has sent."""

    storage: dict[str, Any]
    traffic: Traffic

    @property
    def storage_values(self) -> tuple[str, str, str]:
        """The address and both keys."""
        return self.storage["endpoint_url"], self.storage["key"], self.storage["secret"]

    def put(self, root: Path) -> str:
        return remote.uploaded(self.storage, root, "backup")

    def frame(self, spark: SparkSession, source: str, url: str, **options: str) -> DataFrame:
        storage = {f"storage.{name}": value for name, value in self.storage.items()}
        return spark.read.format(source).options(**storage, **options).load(url)

    def rows(self, spark: SparkSession, source: str, root: Path, condition: str, **options: str) -> int:
        """The number of rows of a query, which are those of the local files. `traffic` has what was
        sent for it."""
        here = spark.read.format(source).options(**options).load(str(root)).where(condition).drop("logDir").collect()
        self.traffic.sent.clear()
        there = self.frame(spark, source, f"s3://backup/{root.name}", **options).where(condition).drop("logDir")
        assert there.collect() == here
        return len(here)


@pytest.fixture(scope="module")
def cloud() -> Iterator[Cloud]:
    traffic = Traffic()
    with remote.s3_server(traffic) as storage:
        yield Cloud(storage, traffic)


@pytest.fixture(scope="module")
def store(cloud: Cloud, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """24 MB: four queues, one behind the other, and in their midst 20 messages of another topic. No
    golden store has its name."""
    root, counts = tmp_path_factory.mktemp("s3") / "large-store", dict[tuple[bytes, int], int]()
    messages = []
    for number in range(MESSAGES):
        topic, queue = (b"rare", 0) if 3000 <= number < 3020 else (b"orders", number * 4 // MESSAGES)
        offset = counts[topic, queue] = counts.get((topic, queue), -1) + 1
        message = make_message(
            topic,
            queue_id=queue,
            queue_offset=offset,
            body=b"%04d " % number * (BODY_BYTES // 5),
            store_timestamp_ms=START_MS + 1000 * number,
            properties=[(b"UNIQ_KEY", b"u-%d" % number), (b"KEYS", b"k-%d" % number)],
        )
        messages.append(message)
    write_commit_log(str(root), messages, SIZES["mapped_file_size_commit_log"])
    rebuild(str(root), str(root), StoreConfig(**SIZES, dialect=Dialect.of("5.5.0")), in_place=True, sync=False)
    cloud.put(root)
    return root


@pytest.fixture(scope="module")
def logs(cloud: Cloud, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """20 MB: two partitions of a topic and one of another, in segments of 2 MiB, with key
    indexes."""
    root = tmp_path_factory.mktemp("s3") / "large-logs"
    root.mkdir()
    for name, count in (("orders-0", 2400), ("orders-1", 2400), ("rare-0", 20)):
        with Log.open(root / name, segment_bytes=2 << 20) as log:
            for first in range(0, count, 10):
                numbers = range(first, first + 10)
                log.append([Record(b"k-%d" % n, b"%04d" % n * 1000, START_MS + 1000 * n) for n in numbers])
        for segment in (root / name).glob("*.log"):
            segment.with_suffix(".keyindex").write_bytes(build_key_index(str(segment)).tobytes())
    cloud.put(root)
    return root


def test_golden_cases(
    cloud: Cloud, spark: SparkSession, golden_store: Callable[..., Path], golden_log: Callable[[str], Path]
) -> None:
    geometry = {camel_case(name): str(value) for name, value in geometry_of("tiny-broker").items()}
    for source, root, options in (
        ("rocketmq_store", golden_store("tiny-broker"), geometry),
        ("kafka_log", golden_log("tiny-broker"), {"includeHeaders": "true"}),
    ):
        cloud.put(root)
        assert cloud.rows(spark, source, root, "1 = 1", maxPartitionBytes="4k", **options)


@pytest.mark.usefixtures("pushdown")
@pytest.mark.parametrize(
    ("condition", "options", "rows", "most"),
    [
        ("topic = 'rare'", {}, 20, 0.25),
        ("topic = 'orders' and queueId = 3", {}, 1500, 0.51),
        ("topic = 'orders' and queueId = 3 and queueOffset < 20", {}, 20, 0.25),
        ("physicalOffset < 50000", {}, 13, 0.2),
        ("storeTimestamp < timestamp_millis(1700000020000)", {}, 20, 0.2),
        ("topic = 'orders' and uniqueKey = 'u-77'", {}, 1, 0.5),
        ("true", {"topic": "orders", "key": "k-4000"}, 1, 0.5),
        ("true", {"endingTimestamp": "1700000020000"}, 20, 0.2),
        ("true", {"topic": "orders", "queueId": "3"}, 1500, 0.51),
        ("true", {"endingPhysicalOffset": "50000"}, 13, 0.2),
        ("true", {"topic": "orders", "startingOffsets": STARTS}, 40, 0.3),
        ("true", {"topic": "orders", "startingOffsets": STARTS, "endingOffsets": '{"orders": {"3": 1495}}'}, 35, 0.3),
    ],
)
def test_what_a_store_sends(
    cloud: Cloud, spark: SparkSession, store: Path, condition: str, options: dict[str, str], rows: int, most: float
) -> None:
    """`most` is a share of the log. A key costs most: some entries of each IndexFile are held
    against the messages that they name. Each split reads a message again at its end, to see that
    the log was not cut."""
    assert cloud.rows(spark, "rocketmq_store", store, condition, **OPTIONS, **options) == rows
    log = {name: size for name, size in cloud.traffic.sent.items() if "/commitlog/" in name}
    assert 0 < cloud.traffic.total < most * (MESSAGES * BODY_BYTES)
    if rows <= 20:
        assert max(log.values()) < SIZES["mapped_file_size_commit_log"]


@pytest.mark.usefixtures("pushdown")
@pytest.mark.parametrize(
    ("condition", "options", "rows", "most"),
    [
        ("topic = 'rare'", {}, 20, 0.1),
        ("topic = 'orders' and partition = 1", {}, 2400, 0.6),
        ("topic = 'orders' and partition = 1 and offset between 700 and 719", {}, 20, 0.1),
        ("timestamp >= timestamp_millis(1700002390000)", {}, 20, 0.4),
        ("key = cast('k-2000' as binary)", {}, 2, 0.4),
        ("true", {"key": "k-2000"}, 2, 0.4),
        (
            "true",
            {
                "startingOffsets": '{"orders": {"0": 2390, "1": -2}, "rare": {"0": 10}}',
                "endingOffsets": '{"orders": {"0": -1, "1": 10}, "rare": {"0": 11}}',
            },
            21,
            0.2,
        ),
    ],
)
def test_what_logs_send(
    cloud: Cloud, spark: SparkSession, logs: Path, condition: str, options: dict[str, str], rows: int, most: float
) -> None:
    assert cloud.rows(spark, "kafka_log", logs, condition, **options) == rows
    assert 0 < cloud.traffic.total < most * 4820 * 4000


# -- streams -------------------------------------------------------------------------------------
WAIT_S = 300
COLUMNS = {"rocketmq_store": "body", "kafka_log": "value"}


def grow(source: str, root: Path, turn: int) -> None:
    """Adds ten numbers to a store or a log directory whose files are small: the last file grows,
    and others follow."""
    numbers = [b"%d" % number for number in range(10 * turn, 10 * turn + 10)]
    if source == "kafka_log":
        with Log.open(root / "t-0", segment_bytes=600) as log:
            for number in numbers:
                log.append([Record(b"k", number)])
        return
    with MessageStore.open(root, mapped_file_size_commit_log=2048, background=False) as store:
        for number in numbers:
            assert store.put_message(Message("t", number, keys="k")).is_stored


@pytest.mark.parametrize("source", COLUMNS)
def test_a_running_stream_sees_what_is_uploaded(cloud: Cloud, spark: SparkSession, tmp_path: Path, source: str) -> None:
    """Bytes of a file that was there, and new files, between the batches of one query: each row
    once."""
    root, name = tmp_path / f"growing-{source}", f"seen_{source}"
    storage = {f"storage.{key}": value for key, value in cloud.storage.items()}
    grow(source, root, 0)
    reader = spark.readStream.format(source).options(**storage, startingOffsets="earliest")
    rows = reader.load(cloud.put(root)).selectExpr(f"CAST({COLUMNS[source]} AS STRING) AS number")
    query = rows.writeStream.format("memory").queryName(name).trigger(processingTime="100 milliseconds").start()
    try:
        for turn in range(1, 4):
            deadline = time.monotonic() + WAIT_S
            while spark.table(name).count() < 10 * turn:
                assert query.isActive, query.exception()
                assert time.monotonic() < deadline
                time.sleep(0.2)
            if turn < 3:
                grow(source, root, turn)
                cloud.put(root)
    finally:
        query.stop()
    assert sorted(int(row.number) for row in spark.table(name).collect()) == [*range(30)]


@pytest.mark.parametrize("source", COLUMNS)
def test_listings_and_blocks_are_not_kept_for_later_batches(
    cloud: Cloud, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str
) -> None:
    """Without storage options all batches share the listings and the blocks of one file system,
    which is that of the process. What is uploaded is seen nevertheless, after a moment."""
    for name, value in zip(("ENDPOINT_URL", "ACCESS_KEY_ID", "SECRET_ACCESS_KEY"), cloud.storage_values, strict=True):
        monkeypatch.setenv(f"AWS_{name}", value)
    root = tmp_path / f"shared-{source}"
    grow(source, root, 0)
    given = {"path": cloud.put(root), "startingOffsets": "earliest", "columns": COLUMNS[source]}
    stream: LogStream = LogDirStream(given) if source == "kafka_log" else StoreStream(given)
    progress, start, found = StreamProgress(stream), stream.initial(), list[int]()
    for turn in range(1, 4):
        deadline = time.monotonic() + WAIT_S
        while len(found) < 10 * turn:
            assert time.monotonic() < deadline
            time.sleep(0.2)
            end = progress.advance(start, stream.limits)
            found += [int(row[COLUMNS[source]]) for row in rows_between(stream, start, end)] if end != start else []
            start = end
        grow(source, root, turn)
        cloud.put(root)
    assert found == [*range(30)]
