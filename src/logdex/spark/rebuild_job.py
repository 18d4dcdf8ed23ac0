"""`logdex.spark.rebuild`: everything that follows from the logs, scanned and written in parallel, of either format.

Kafka's job is `logdex.kafka.rebuild` with Spark's runner. A RocketMQ store's is here: ConsumeQueues and IndexFiles.
Phase 1, a task for each part of the CommitLog: scan it into a stage file. The driver joins the parts and places every
entry. Phase 2, a task for each IndexFile and for some queues each: write files from the stage files. All in one staging
folder below the output; the driver moves what the finished attempts wrote into place. Docs: ``docs/design``.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from logdex.errors import UsageError
from logdex.io.env import DEFAULT_ENV, Env
from logdex.io.tasks import Count, Runner
from logdex.kafka.rebuild import rebuild_on as rebuild_kafka_on
from logdex.kafka.rebuild import rebuild_settings
from logdex.kafka.rebuild.report import KafkaRebuildReport
from logdex.kafka.rebuild.segment import RebuildSettings
from logdex.recognise import find_kafka
from logdex.reports import Progress
from logdex.rocketmq.commit_log import CommitLog
from logdex.rocketmq.dialect import StoreConfig
from logdex.rocketmq.geometry import resolve_config
from logdex.rocketmq.rebuild import RebuildReport, check_output, output_of, output_size_bytes
from logdex.rocketmq.rebuild_outputs import (
    QUEUE_TASKS_PER_CORE,
    IndexDone,
    IndexTask,
    Outputs,
    QueuesDone,
    QueueTask,
    plan_index,
    plan_queues,
    write_index_file,
    write_queues,
)
from logdex.rocketmq.rebuild_parts import (
    PartScan,
    ScanPart,
    WholeLog,
    join_parts,
    parallel_part_size,
    plan_parts,
    scan_part,
)
from logdex.rocketmq.store_files import COMMIT_LOG_DIR, CONSUME_QUEUE_DIR, INDEX_DIR
from logdex.spark.tasks import TaskRunner

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STAGE_DIR = "stage"
TASKS_DIR = "tasks"


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
    """Rebuilds what `store` is on `spark`: a RocketMQ store's ConsumeQueues and IndexFiles from its CommitLog, or the
    indexes, snapshots and leader epochs of a Kafka log directory, partition or .log from the logs alone. Byte for byte
    what `logdex.rocketmq.rebuild.rebuild` or `logdex.kafka.rebuild.rebuild` writes. All workers must see `store` and
    `output` (by default ``STORE-rebuilt``) under these paths.

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
    runner = TaskRunner(spark, progress)
    return rebuild_on(
        runner, root, output, config, in_place=in_place, sync=sync, env=env, part_size_bytes=part_size_bytes
    )


def rebuild_on(
    runner: Runner,
    root: str,
    output: str,
    config: StoreConfig,
    *,
    in_place: bool = False,
    sync: bool = True,
    env: Env = DEFAULT_ENV,
    part_size_bytes: int | None = None,
) -> RebuildReport:
    """`rebuild_with_config` with `runner` at hand."""
    started = time.perf_counter()
    root, output = env.real_path(root), env.real_path(output)  # workers have working directories of their own
    check_output(root, output, in_place=in_place, env=env)
    log = CommitLog(f"{root}/{COMMIT_LOG_DIR}", file_size_bytes=config.mapped_file_size_commit_log, env=env)
    total = sum(file.size_bytes for file in log.files)
    env.require_free(output, 2 * output_size_bytes(total, config))  # stage files are no larger than what comes of them
    report = RebuildReport("spark", assumed=list(config.assumed))
    with output_of(root, output, in_place=in_place, sync=sync, env=env) as staging:
        job = Rebuild(runner, log, config, staging.directory, env, sync=sync)
        whole = job.scan(part_size_bytes or parallel_part_size(total, runner.cores))
        outputs = job.write(whole)
        env.remove_tree(f"{staging.directory}/{STAGE_DIR}")
        outputs.assemble(staging.directory, env)
        report.kept = staging.publish([CONSUME_QUEUE_DIR, INDEX_DIR])
    outputs.note(whole, report)
    report.tasks = runner.tasks
    report.bytes = whole.end.offset - log.min_offset
    report.seconds = time.perf_counter() - started
    return report


@dataclass(slots=True)
class Rebuild:
    """The two phases of one rebuild, as jobs on `runner`, below the staging folder `directory`."""

    runner: Runner
    log: CommitLog
    config: StoreConfig
    directory: str
    env: Env
    sync: bool

    def scan(self, part_size_bytes: int) -> WholeLog:
        """Phase 1: scans all parts; scans anew, whole, the files whose parts do not join up."""
        self.env.make_dirs(f"{self.directory}/{STAGE_DIR}")
        task = partial(scan_task, f"{self.directory}/{STAGE_DIR}", self.config)
        scans: list[PartScan] = []
        again = plan_parts(self.log, part_size_bytes)
        while True:
            for done in self.runner.run("logdex rebuild: scan", task, again):
                scans += done
            whole = join_parts(self.log, scans)
            if isinstance(whole, WholeLog):
                return whole
            again = [[part] for part in whole]

    def write(self, whole: WholeLog) -> Outputs:
        """Phase 2: writes all files; IndexFiles first, each of which is one long task."""
        self.env.make_dirs(f"{self.directory}/{TASKS_DIR}")
        index = plan_index(whole, self.config)
        queues, skipped = plan_queues(whole, QUEUE_TASKS_PER_CORE * self.runner.cores)
        task = partial(write_task, f"{self.directory}/{TASKS_DIR}", self.config, self.sync)
        done = self.runner.run("logdex rebuild: write", task, [*index, *queues])
        return Outputs(
            [file for file in done if isinstance(file, IndexDone)],
            [part for part in done if isinstance(part, QueuesDone)],
            skipped,
        )


def scan_task(directory: str, config: StoreConfig, parts: list[ScanPart], attempt: str, count: Count) -> list[PartScan]:
    """Runs in a worker: scans some parts, each into a stage file of its own."""
    return [
        scan_part(part, config, f"{directory}/{attempt}-{number}", progress=count) for number, part in enumerate(parts)
    ]


def write_task(
    directory: str, config: StoreConfig, sync: bool, task: IndexTask | QueueTask, attempt: str, count: Count
) -> IndexDone | QueuesDone:
    """Runs in a worker: writes one IndexFile, or some queues' files."""
    if isinstance(task, IndexTask):
        return write_index_file(task, config, f"{directory}/{attempt}", sync=sync)
    return write_queues(task, config, f"{directory}/{attempt}", sync=sync)
