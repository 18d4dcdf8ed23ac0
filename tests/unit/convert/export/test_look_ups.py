"""A key is found in what was exported without reading all of it: DuckDB, Polars and Spark leave out
row groups by their statistics and Bloom filters."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow.parquet as pq
import pytest

from logdex.convert.export import export
from logdex.convert.sources.kafka import LogDirSource
from logdex.convert.sources.rocketmq import StoreSource
from logdex.kafka import Log, Record
from logdex.testing.store_builder import make_message, write_commit_log
from tests.unit.convert.export.lakes import parquet_files
from tests.unit.rocketmq.small_stores import START_MS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COUNT = 2_000
FILE_BYTES = 1 << 20
TASK_BYTES = 1 << 20
"""A task for each file of the log, which writes a file of its own, so that there are several row
groups."""


class Lake(NamedTuple):
    """An export of messages with random keys, and how to find message `COUNT` // 2."""

    path: Path
    key_condition: str
    offset_condition: str
    key: Any
    key_column: str

    @property
    def files(self) -> str:
        return f"{self.path}/*/*/*.parquet"


def store(folder: Path) -> Lake:
    chance = random.Random(5)
    keys = [f"{chance.getrandbits(128):032X}" for _ in range(COUNT)]
    messages = [
        make_message(
            b"orders",
            queue_id=0,
            queue_offset=number,
            body=chance.randbytes(3_000),
            store_timestamp_ms=START_MS + number,
            properties=[(b"UNIQ_KEY", key.encode())],
        )
        for number, key in enumerate(keys)
    ]
    write_commit_log(str(folder / "store"), messages, FILE_BYTES)
    settings = {"mapped_file_size_commit_log": FILE_BYTES, "rocketmq_version": "5.5.0"}
    export(
        StoreSource(str(folder / "store"), settings=settings), str(folder / "lake"), sync=False, task_bytes=TASK_BYTES
    )
    key = keys[COUNT // 2]
    return Lake(folder / "lake", f"uniqueKey = '{key}'", f"queueOffset = {COUNT // 2}", key, "uniqueKey")


def logs(folder: Path) -> Lake:
    chance = random.Random(6)
    keys = [b"%032x" % chance.getrandbits(128) for _ in range(COUNT)]
    with Log.open(str(folder / "logs" / "orders-0"), segment_bytes=FILE_BYTES, index_interval_bytes=100) as log:
        for number, key in enumerate(keys):
            log.append([Record(key, chance.randbytes(3_000), START_MS + number)])
    export(LogDirSource(str(folder / "logs")), str(folder / "lake"), sync=False, task_bytes=TASK_BYTES)
    key = keys[COUNT // 2]
    return Lake(folder / "lake", f"key = '{key.decode()}'::BLOB", f'"offset" = {COUNT // 2}', key, "key")


@pytest.fixture(scope="module", params=[store, logs], ids=["store", "logs"])
def lake(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Lake:
    make: Callable[[Path], Lake] = request.param
    made = make(tmp_path_factory.mktemp("look-ups"))
    assert len(parquet_files(made.path)) >= 6
    return made


def test_statistics_exclude_no_file_for_the_key(lake: Lake) -> None:
    """So that what is counted below is the work of the Bloom filters."""
    for name in parquet_files(lake.path):
        group = pq.ParquetFile(lake.path / name).metadata.row_group(0)
        [column] = [
            group.column(at) for at in range(group.num_columns) if group.column(at).path_in_schema == lake.key_column
        ]
        low, high = column.statistics.min, column.statistics.max
        assert low < lake.key < high


def test_duckdb(lake: Lake) -> None:
    duckdb = pytest.importorskip("duckdb")

    def asked(where: str) -> tuple[int, int]:
        """Rows, and the bytes that DuckDB says it has read."""
        query = f"SELECT * FROM read_parquet('{lake.files}') WHERE {where}"
        with duckdb.connect() as connection:
            rows = len(connection.sql(query).fetchall())
        with duckdb.connect() as connection:
            profile = connection.sql(f"EXPLAIN (ANALYZE, FORMAT json) {query}").fetchall()[0][1]
        return rows, json.loads(profile)["io"]["total_bytes_read"]

    rows, everything = asked("true")
    assert rows == COUNT
    for where in (lake.key_condition, lake.offset_condition):
        rows, read = asked(where)
        assert rows == 1
        assert read < everything / 2, where


def test_duckdb_leaves_out_by_the_bloom_filters(lake: Lake) -> None:
    duckdb = pytest.importorskip("duckdb")
    with duckdb.connect() as connection:
        value = lake.key_condition.partition(" = ")[2]
        probe = f"SELECT bloom_filter_excludes FROM parquet_bloom_probe('{lake.files}', '{lake.key_column}', {value})"
        excluded = [row[0] for row in connection.sql(probe).fetchall()]
    assert len(excluded) - 2 <= sum(excluded) < len(excluded) == len(parquet_files(lake.path))


def test_polars(lake: Lake) -> None:
    """Polars uses statistics: an offset is found without reading all files."""
    polars = pytest.importorskip("polars")

    def asked(where: Any) -> tuple[int, int]:
        before = bytes_of_this_process()
        frame = polars.scan_parquet(lake.files)
        rows = frame.filter(where).collect().height
        return rows, bytes_of_this_process() - before

    column = lake.offset_condition.partition(" = ")[0].strip('"')
    rows, everything = asked(polars.col(column) >= 0)
    assert rows == COUNT
    rows, read = asked(polars.col(column) == COUNT // 2)
    assert rows == 1
    assert read < everything / 2
    assert asked(polars.col(lake.key_column) == lake.key)[0] == 1


def bytes_of_this_process() -> int:
    """The bytes that its system calls have read."""
    return int(Path("/proc/self/io").read_text().split()[1])


@pytest.mark.spark
@pytest.mark.slow
def test_spark(spark: SparkSession, lake: Lake) -> None:
    """The rows that the scan hands on are those of the row groups that are not left out."""

    def asked(where: str) -> tuple[int, int]:
        frame = spark.read.parquet(str(lake.path)).where(where)
        rows = len(frame.collect())
        plan = frame._jdf.queryExecution().executedPlan()
        [scan] = [leaf for leaf in _leaves(plan) if leaf.metrics().contains("numOutputRows")]
        return rows, scan.metrics().apply("numOutputRows").value()

    assert asked("true") == (COUNT, COUNT)
    for where in (lake.key_condition.replace("::BLOB", ""), lake.offset_condition.replace('"', "`")):
        rows, scanned = asked(where)
        assert rows == 1
        assert scanned < COUNT / 2, where


def _leaves(plan: Any) -> list[Any]:
    """The leaves of a plan of Spark, also of one that was changed while it ran."""
    if plan.getClass().getSimpleName() == "AdaptiveSparkPlanExec":
        plan = plan.executedPlan()
    leaves = plan.collectLeaves()
    return [leaves.apply(at) for at in range(leaves.size())]
