"""What goes wrong in the tasks of sources, sinks and jobs: a clear error, nothing that is published
by halves, and the next run makes it right."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

import logdex
from logdex.convert.export.job import export
from logdex.convert.load import load
from logdex.convert.sources.kafka import LogDirSource
from logdex.convert.sources.rocketmq import StoreSource
from logdex.convert.sources.source import LogSource
from logdex.convert.stats import stats
from logdex.convert.translate import convert
from logdex.errors import EnvironmentProblem, LogdexError, StorageError
from logdex.formats import detect, format_of
from logdex.kafka.batch.record import Record
from logdex.kafka.log.log import Log
from logdex.kafka.snapshot.log_dir_snapshot import LogDirSnapshot
from logdex.rocketmq import Message, MessageStore
from logdex.rocketmq.dispatch.job import Dispatcher
from logdex.rocketmq.snapshot.store_snapshot import StoreSnapshot
from logdex.spark.tasks import TaskRunner
from tests.directories import contents
from tests.spark.rocketmq.test_rebuild import Wrapping
from tests.unit.kafka.dispatch import growing as kafka
from tests.unit.rocketmq.dispatch import growing as rocketmq

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(600)]

FORMATS = ("rocketmq_store", "kafka_log")
HARMS = ("kill", "full disk")


def bodies(log_format: str, path: Path) -> list[int]:
    """What a log has, as numbers in order; nothing if it was never made."""
    if not path.exists() or not any(not each.name.startswith(".") for each in path.iterdir()):
        return []
    if log_format == "kafka_log":
        with LogDirSnapshot(path) as logs:
            return sorted(int(record.value or b"") for record in logs.scan())
    with StoreSnapshot(path) as store:
        return sorted(int(message.body) for message in store.scan())


def rows(spark: SparkSession, log_format: str, count: int) -> DataFrame:
    """Numbers as rows for a sink, in three tasks."""
    column = "value" if log_format == "kafka_log" else "body"
    return spark.range(count).selectExpr("'t' AS topic", f"CAST(id AS STRING) AS {column}").repartition(3)


def wrapped(harm: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Harms each task when it is done but for its return."""

    def wrap(function: Callable[..., Any]) -> Callable[..., Any]:
        def harmed(task: Any, attempt: str, count: Any) -> Any:
            import os
            import signal

            from logdex.errors import StorageError

            result = function(task, attempt, count)
            if harm == "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            if harm == "full disk":
                raise StorageError("no space left on device", path="stage", errno=28)
            return result

        return harmed

    return wrap


# -- sinks ---------------------------------------------------------------------------------------
def register_harmed_sink(spark: SparkSession, log_format: str, harm: str) -> None:
    """The sink of a format as the format `harmed`: its second task is killed, or finds the disk
    full, while it writes what it stages. Spark sends these classes to its workers whole, because
    they are made in a function."""
    from pyspark.sql.datasource import DataSource

    from logdex.spark.sinks.kafka.sink import LogDirSink
    from logdex.spark.sinks.rocketmq.sink import StoreSink
    from logdex.spark.sinks.writer import LogWriter

    base: Any = LogDirSink if log_format == "kafka_log" else StoreSink

    class Harmed(base):
        def prepared(self, batches: Any, task: int, now_ms: int) -> Any:
            import os
            import resource
            import signal

            for batch in base.prepared(self, batches, task, now_ms):
                if task == 1 and harm == "full disk":
                    resource.setrlimit(resource.RLIMIT_FSIZE, (16, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
                yield batch
                if task == 1 and harm == "kill":
                    os.kill(os.getpid(), signal.SIGKILL)

    class HarmedSource(DataSource):
        @classmethod
        def name(cls) -> str:
            return "harmed"

        def writer(self, schema: Any, overwrite: bool) -> Any:
            return LogWriter(Harmed(self.options, tuple(schema.names)))

    spark.dataSource.register(HarmedSource)


@pytest.mark.parametrize("harm", HARMS)
@pytest.mark.parametrize("log_format", FORMATS)
def test_a_task_of_a_sink(spark: SparkSession, tmp_path: Path, log_format: str, harm: str) -> None:
    """The log is as it was; what the other tasks had staged is removed; and the rows can be written
    again."""
    path = tmp_path / "log"
    register_harmed_sink(spark, log_format, harm)
    said = "file too large" if harm == "full disk" else "exited unexpectedly|crashed"
    for expected in ([], [*range(30)]):
        with pytest.raises(Exception, match=said):
            rows(spark, log_format, 30).write.format("harmed").mode("append").save(str(path))
        assert bodies(log_format, path) == expected
        if not expected:
            rows(spark, log_format, 30).write.format(log_format).mode("append").save(str(path))
    staged = list(path.glob(".logdex-sink-*"))
    # A killed task cannot remove its file, nor can the driver those of tasks that still run; later
    # commits do.
    assert len(staged) <= 2 * (3 if harm == "kill" else 2)


@pytest.mark.parametrize("log_format", FORMATS)
def test_two_streams_into_one_directory(spark: SparkSession, tmp_path: Path, log_format: str) -> None:
    """Where both commit at once, one of them gets an error, and goes on when it is started again.
    Each row comes once from each of them."""
    source, path = tmp_path / "source", tmp_path / "log"
    with MessageStore.open(source) as store:
        for number in range(40):
            store.put_message(Message(topic="t", body=b"%d" % number))
    frame = spark.readStream.format("rocketmq_store").options(startingOffsets="earliest", maxOffsetsPerTrigger="8")
    selected = frame.load(str(source)).selectExpr("topic", "body AS value" if log_format == "kafka_log" else "body")

    def start(number: int) -> Any:
        writer = selected.writeStream.format(log_format).option("checkpointLocation", str(tmp_path / f"ck-{number}"))
        return writer.trigger(availableNow=True).start(str(path))

    running, errors = {number: start(number) for number in range(2)}, list[str]()
    while running and len(errors) < 40:
        for number, query in [*running.items()]:
            try:
                query.awaitTermination()
                del running[number]
            except Exception as error:
                errors.append(str(error))
                running[number] = start(number)
    assert [each for each in errors if "LogInUseError" not in each] == []
    assert bodies(log_format, path) == sorted([*range(40)] * 2)
    assert list(path.glob(".logdex-sink-*")) == []


# -- sources -------------------------------------------------------------------------------------
def make_store(path: Path, count: int) -> Path:
    """A store of several megabytes with one CommitLog file, which it returns."""
    with MessageStore.open(path, background=False, mapped_file_size_commit_log=count * 5000) as store:
        for _ in range(count):
            assert store.put_message(Message(topic="t", body=bytes(4000))).is_stored
    return path / "commitlog" / f"{0:020d}"


def make_log(path: Path, count: int) -> Path:
    """A log directory of several megabytes with one segment, which it returns."""
    with Log.open(path / "t-0") as log:
        for _ in range(count):
            log.append([Record(b"k", bytes(4000), 1_700_000_000_000)])
    return path / "t-0" / f"{0:020d}.log"


def register_harmed_source(spark: SparkSession, log_format: str, file: Path) -> None:
    """The source of a format as the format `harmed`: a file is truncated after the first rows of a
    task."""
    from logdex.spark.sources.kafka.source import KafkaLogSource
    from logdex.spark.sources.rocketmq.source import RocketmqStoreSource
    from logdex.spark.sources.source import LogReader

    base: Any = KafkaLogSource if log_format == "kafka_log" else RocketmqStoreSource
    truncated = str(file)

    class HarmedReader(LogReader):
        def read(self, partition: Any) -> Iterator[Any]:
            import os

            for number, batch in enumerate(LogReader.read(self, partition)):
                yield batch
                if not number:
                    os.truncate(truncated, os.path.getsize(truncated) // 3)

    class HarmedSource(base):
        @classmethod
        def name(cls) -> str:
            return "harmed"

        def reader(self, schema: Any) -> Any:
            from pyspark.sql.pandas.types import to_arrow_schema

            return HarmedReader(self.table, to_arrow_schema(schema, timezone="UTC"))

    spark.dataSource.register(HarmedSource)


@pytest.mark.parametrize("while_read", [False, True])
@pytest.mark.parametrize("log_format", FORMATS)
def test_a_file_that_is_truncated(spark: SparkSession, tmp_path: Path, log_format: str, while_read: bool) -> None:
    """After the read was planned, or while a task reads the file: an error that names the file, or
    says that the log was cut, and Spark goes on."""
    file = (make_log if log_format == "kafka_log" else make_store)(tmp_path / "log", 3000)
    register_harmed_source(spark, log_format, file)
    source = spark.read.format("harmed" if while_read else log_format).option("maxPartitionBytes", "1g")
    frame = source.load(str(tmp_path / "log"))
    if not while_read:
        assert frame.count() == 3000
        os.truncate(file, file.stat().st_size // 3)
    told = file.name
    if log_format == "rocketmq_store":  # a log that is cut has shorter files: the task that ends first says that
        told = "the log was cut while it was read" if while_read else f"the log was cut while it was read|{told}"
    with pytest.raises(Exception, match=told):
        frame.selectExpr(f"sum(length({'value' if log_format == 'kafka_log' else 'body'}))").collect()
    assert spark.range(3).count() == 3


# -- jobs ----------------------------------------------------------------------------------------
@pytest.mark.parametrize("harm", HARMS)
@pytest.mark.parametrize("log_format", FORMATS)
def test_a_task_of_a_dispatch(spark: SparkSession, tmp_path: Path, log_format: str, harm: str) -> None:
    log, output = tmp_path / "log", tmp_path / "out"
    expected = StorageError if harm == "full disk" else EnvironmentProblem

    def run(runner: TaskRunner) -> None:
        job = kafka.dispatcher(log, output) if log_format == "kafka_log" else Dispatcher(log, output, rocketmq.CONFIG)
        with job:
            job.step(runner)

    for turn in range(2):
        if log_format == "kafka_log":
            kafka.grow(log / "a-0", 20, turn)
        else:
            rocketmq.grow(log, 80, turn)
        with pytest.raises(expected):
            run(Wrapping(spark, wrapped(harm)))
        run(TaskRunner(spark))
        grown = kafka if log_format == "kafka_log" else rocketmq
        grown.require_rebuilt(log, output, tmp_path / "rebuilt")
    assert list(output.glob(".logdex-dispatch-stage*")) == []


def grown_source(log_format: str, log: Path) -> LogSource:
    if log_format == "kafka_log":
        kafka.grow(log / "a-0", 20, 1)
        return LogDirSource(str(log))
    rocketmq.grow(log, 80, 1)
    return StoreSource(str(log), settings=rocketmq.SIZES)


def published(output: Path) -> list[Path]:
    """The files of an output that are not a job's own."""
    files = [path.relative_to(output) for path in output.rglob("*") if path.is_file()]
    return [path for path in files if not path.parts[0].startswith(".logdex")]


@pytest.mark.parametrize("harm", HARMS)
@pytest.mark.parametrize("log_format", FORMATS)
def test_a_task_of_an_export(spark: SparkSession, tmp_path: Path, log_format: str, harm: str) -> None:
    log, lake = tmp_path / "log", tmp_path / "lake"
    source = grown_source(log_format, log)
    with pytest.raises(LogdexError):
        export(source, str(lake), Wrapping(spark, wrapped(harm)), engine="spark", sync=False)
    assert [path for path in lake.rglob("*.parquet") if not path.name.startswith((".", "_"))] == []
    done = export(source, str(lake), TaskRunner(spark), engine="spark", sync=False)
    assert pq.read_table(lake).num_rows == done.messages > 40


@pytest.mark.parametrize("harm", HARMS)
@pytest.mark.parametrize("log_format", FORMATS)
def test_a_task_of_a_conversion(spark: SparkSession, tmp_path: Path, log_format: str, harm: str) -> None:
    source, output = grown_source(log_format, tmp_path / "log"), tmp_path / "out"
    with pytest.raises(StorageError if harm == "full disk" else EnvironmentProblem):
        convert(source, str(output), Wrapping(spark, wrapped(harm)), engine="spark", sync=False)
    assert published(output) == []
    done = convert(source, str(output), TaskRunner(spark), engine="spark", sync=False)
    local = convert(source, str(tmp_path / "local"), sync=False)
    assert done.messages == local.messages > 0
    assert contents(output) == contents(tmp_path / "local")


@pytest.mark.parametrize("harm", HARMS)
@pytest.mark.parametrize("log_format", FORMATS)
def test_a_task_of_an_import(spark: SparkSession, tmp_path: Path, log_format: str, harm: str) -> None:
    exported = export(grown_source(log_format, tmp_path / "log"), str(tmp_path / "lake"), sync=False)
    arguments = (str(tmp_path / "lake"), str(tmp_path / "out"), "kafka" if log_format == "kafka_log" else "rocketmq")
    with pytest.raises(StorageError if harm == "full disk" else EnvironmentProblem):
        load(*arguments, Wrapping(spark, wrapped(harm)), engine="spark", sync=False)
    assert published(tmp_path / "out") == []
    done = load(*arguments, TaskRunner(spark), engine="spark", sync=False)
    with logdex.open(tmp_path / "out") as snapshot:
        assert len([*snapshot.scan()]) == done.messages == exported.messages > 0


@pytest.mark.parametrize("harm", HARMS)
@pytest.mark.parametrize("log_format", FORMATS)
def test_a_task_of_a_job_that_only_reads(spark: SparkSession, tmp_path: Path, log_format: str, harm: str) -> None:
    """Nothing is reported of half a log, and the log is as it was."""
    log = tmp_path / "log"
    source, before = grown_source(log_format, log), contents(log)
    found = detect(log)
    settings = {} if log_format == "kafka_log" else rocketmq.SIZES

    def check(runner: TaskRunner | None) -> tuple[int, list[str]]:
        report = format_of(found).verify(found, settings, max_findings=100, runner=runner)
        return report.messages, [str(finding) for finding in report.findings]

    def count(runner: TaskRunner | None) -> tuple[int, object]:
        report = stats(source, runner)
        return report.messages, report.to_json()["topics"]

    for job in (check, count):
        with pytest.raises(StorageError if harm == "full disk" else EnvironmentProblem):
            job(Wrapping(spark, wrapped(harm)))
        assert job(TaskRunner(spark)) == job(None)
    assert contents(log) == before
