"""`logdex.spark.rebuild`: rebuilds the indexes of either format in parallel on Spark.

The jobs are `logdex.rocketmq.rebuild.job` and `logdex.kafka.rebuild.job`; this module passes
Spark's runner to them.
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
    """Rebuilds the indexes of `store` from its logs on `spark`.

    `store` is a RocketMQ store (its ConsumeQueues and IndexFiles are rebuilt), or a Kafka log
    directory, partition or .log file (its indexes, producer snapshots and leader epochs are
    rebuilt). The files are byte-identical to those of `logdex.rocketmq.rebuild.local.rebuild` and
    `logdex.kafka.rebuild.rebuild`. All workers must see `store` and `output` (by default
    ``STORE-rebuilt``) under these paths.

    A store's sizes and version are resolved as by `resolve_config`. `index_interval_bytes` and
    `key_index` are for Kafka only. `in_place` writes into the store itself, which keeps each
    replaced directory under a dated name; leave out `output` then. `progress` takes the (messages,
    bytes) scanned so far, and is called from another thread. Raises what the local rebuild raises,
    `UsageError` for arguments of the other format, and `EnvironmentProblem` if Spark fails.
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
    """Rebuilds Kafka's files with given settings. `task_size_bytes` overrides the size of tasks."""
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
    """Rebuilds a RocketMQ store with known sizes and version.

    `env` is used by the driver only. `part_size_bytes` overrides how the CommitLog is divided into
    tasks; the output does not depend on it.
    """
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
