"""`logdex.spark.rebuild`: everything that follows from the logs, scanned and written in parallel, of either format.

The jobs are `logdex.rocketmq.rebuild.job` and `logdex.kafka.rebuild.job`; here they get Spark's runner.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from logdex.errors import UsageError
from logdex.formats import find_kafka
from logdex.io.env import DEFAULT_ENV, Env
from logdex.jobs.reports import Progress
from logdex.kafka.rebuild import rebuild_on as rebuild_kafka_on
from logdex.kafka.rebuild import rebuild_settings
from logdex.kafka.rebuild.report import KafkaRebuildReport
from logdex.kafka.rebuild.segment import RebuildSettings
from logdex.rocketmq.geometry.resolve import resolve_config
from logdex.rocketmq.rebuild.job import rebuild_on
from logdex.rocketmq.rebuild.local import RebuildReport
from logdex.rocketmq.settings.store_config import StoreConfig
from logdex.spark.tasks import TaskRunner

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def rebuild(
    spark: SparkSession,
    store: str,
    output: str | None = None,
    *,
    in_place: bool = False,
    sync: bool = True,
    progress: Progress | None = None,
    mapped_file_size_commit_log: int | None = None,
    mapped_file_size_consume_queue: int | None = None,
    max_hash_slot_num: int | None = None,
    max_index_num: int | None = None,
    rocketmq_version: str | None = None,
    broker_conf: str | None = None,
    index_interval_bytes: int | None = None,
    key_index: bool = False,
) -> RebuildReport | KafkaRebuildReport:
    """Rebuilds what `store` is on `spark`: a RocketMQ store's ConsumeQueues and IndexFiles from its
    CommitLog, or the indexes, snapshots and leader epochs of a Kafka log directory, partition or
    .log from the logs alone. Byte for byte what `logdex.rocketmq.rebuild.local.rebuild` or
    `logdex.kafka.rebuild.rebuild` writes. All workers must see `store` and `output` (by default
    ``STORE-rebuilt``) under these paths.

    A store's sizes and version are found as by `resolve_config`; the last two arguments are Kafka's. `in_place` writes
    into the store itself, which keeps what is replaced under a dated name; `output` is then left out. `progress` takes
    (messages, bytes) scanned, from a thread of its own. Raises what the local rebuild raises, `UsageError` for the
    other format's arguments, and `EnvironmentProblem` where Spark itself fails.
    """
    geometry = {
        "mapped_file_size_commit_log": mapped_file_size_commit_log,
        "mapped_file_size_consume_queue": mapped_file_size_consume_queue,
        "max_hash_slot_num": max_hash_slot_num,
        "max_index_num": max_index_num,
        "rocketmq_version": rocketmq_version,
        "broker_conf": broker_conf,
    }
    kafka = {"index_interval_bytes": index_interval_bytes, "key_index": key_index or None}
    found = find_kafka(store)
    unfit = [name for name, value in (kafka if found is None else geometry).items() if value is not None]
    if unfit:
        raise UsageError(f"{' and '.join(unfit)}: not for what is at {store}", hint=f"leave out {', '.join(unfit)}")
    if output is None:
        output = store if in_place else f"{store.rstrip('/')}-rebuilt"
    if found is not None:
        settings = rebuild_settings(index_interval_bytes, key_index=key_index, sync=sync)
        return rebuild_kafka(spark, store, output, settings, in_place=in_place, progress=progress)
    config = resolve_config(store, **geometry)  # type: ignore[arg-type]  # each value came in under its own name
    return rebuild_with_config(spark, store, output, config, in_place=in_place, sync=sync, progress=progress)


def rebuild_kafka(
    spark: SparkSession,
    path: str,
    output: str,
    settings: RebuildSettings,
    *,
    in_place: bool = False,
    progress: Progress | None = None,
    task_size_bytes: int | None = None,
) -> KafkaRebuildReport:
    """`rebuild` of Kafka's with settings at hand. `task_size_bytes` overrides how segments are put into tasks."""
    runner = TaskRunner(spark, progress)
    return rebuild_kafka_on(
        runner, path, output, settings, in_place=in_place, engine="spark", task_size_bytes=task_size_bytes
    )


def rebuild_with_config(
    spark: SparkSession,
    root: str,
    output: str,
    config: StoreConfig,
    *,
    in_place: bool = False,
    sync: bool = True,
    progress: Progress | None = None,
    env: Env = DEFAULT_ENV,
    part_size_bytes: int | None = None,
) -> RebuildReport:
    """`rebuild` with sizes and version at hand. `env` is the driver's own; `part_size_bytes` overrides how the log is
    cut into tasks, which changes nothing in what is written."""
    return rebuild_on(
        TaskRunner(spark, progress),
        root,
        output,
        config,
        in_place=in_place,
        sync=sync,
        engine="spark",
        env=env,
        part_size_bytes=part_size_bytes,
    )
