"""`verify` for Kafka: checks a log directory, a partition or one segment. It reads everything and
changes nothing.

The expected content of derived files is computed by the same folds that append, recovery and
rebuild use. Memory depends on the window, on the entries of one segment's indexes and on the number
of producers, not on the size of the log.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Collection
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from logdex.errors import UsageError
from logdex.io.env import DEFAULT_ENV, Env
from logdex.io.path_look import StrPath
from logdex.jobs.findings import FINDINGS_MAX, VerifyReport
from logdex.jobs.journal import report_unfinished
from logdex.jobs.publication import is_dated
from logdex.jobs.reports import Progress
from logdex.jobs.tasks import LocalRunner, Runner
from logdex.jobs.work_time import work_seconds
from logdex.kafka.directory.clean_mark import is_closed_cleanly, is_shut_down_cleanly
from logdex.kafka.directory.log_dir import KafkaLogDir, found_twice
from logdex.kafka.directory.partition_files import (
    home_of,
    is_log_directory,
    offset_in,
    partition_directory,
    read_offsets,
    stated_start,
)
from logdex.kafka.directory.recognise import KafkaPath, KafkaPathKind, require_kafka
from logdex.kafka.directory.unfinished import unfinished_at
from logdex.kafka.files import file_names as files
from logdex.kafka.files.checkpoints import TopicPartition
from logdex.kafka.files.file_names import parse_partition_dir
from logdex.kafka.segment.index_interval import index_intervals
from logdex.kafka.settings.log_config import LogConfig
from logdex.kafka.verify.checkpoint_check import LogEnd, check_checkpoints, read_checkpoints
from logdex.kafka.verify.checks import MOVE_AWAY, Collector
from logdex.kafka.verify.directory_check import check_meta_properties
from logdex.kafka.verify.partition_check import Totals
from logdex.kafka.verify.partitions import CheckedPartition, PartitionChecks, logs_of, logs_size_bytes


def verify(
    path: StrPath | KafkaPath,
    config: LogConfig | None = None,
    *,
    infer_interval: bool | None = None,
    states_version: bool = False,
    env: Env = DEFAULT_ENV,
    progress: Progress | None = None,
    max_findings: int = FINDINGS_MAX,
    checks: Collection[str] | None = None,
    flags: str = "",
    runner: Runner | None = None,
) -> VerifyReport:
    """Checks what is at `path` and returns the report. `checks` (keys of `CHECKS`) limits which
    checks are reported, `max_findings` how many findings. With `infer_interval`, the
    `index_interval_bytes` is inferred from the indexes where that is possible, instead of taken
    from `config`; this is the default without a `config`. Each index is checked by what its entries
    show, whatever the `kafka_version` of `config` is; with `states_version`, the report's
    `unsettled` says so if they contradict it. The commands that repair what is found
    end with `flags`. The partitions of a log directory are checked in tasks on `runner`, by default
    one after the other in this process.

    Raises `NotAStoreError` if `path` is not a Kafka path, `UsageError` for an unknown check or a
    file without its log, and `StorageError` if a directory cannot be listed. Damage is reported and
    never raised. If a broker starts on the directory meanwhile, it is checked once more.
    """
    started = work_seconds()
    found = require_kafka(path, env=env)
    settings = _Settings(config or LogConfig(), config is None if infer_interval is None else infer_interval)
    checked = PartitionChecks(_repaired(found), max_findings, checks, flags, env)
    runner = LocalRunner(progress) if runner is None else runner
    while True:
        was_closed = _is_closed(found, env)
        out, totals = checked.collector(), Totals()
        report_unfinished(unfinished_at(found, env), out)
        if found.kind is KafkaPathKind.LOG_DIR:
            _verify_log_dir(found, settings, out, env, totals, partial(checked.run_on, runner))
        else:
            _verify_partition(found, settings, out, env, totals, partial(checked.run_one_on, runner))
        if not was_closed or _is_closed(found, env):
            seconds = work_seconds() - started
            report = out.report(messages=totals.records, size_bytes=totals.bytes, seconds=seconds)
            report.list_at_most(max_findings)
            if states_version:
                report.unsettled = _contradiction(settings.config, totals.older_entry)
            return report


def _contradiction(config: LogConfig, older_entry: str) -> UsageError | None:
    """Returns the error for a stated version whose brokers do not write an index entry that was
    found, None without any."""
    if not older_entry or not config.has_entry_per_batch:
        return None
    return UsageError(
        f"the files contradict what is stated: kafka-version {config.kafka_version}: {older_entry} is as "
        "only brokers before 3.9.1, and 4.0.0, write it",
        hint="leave it out: each index is checked by what its entries show",
    )


def _is_closed(found: KafkaPath, env: Env) -> bool:
    """Whether a log directory, or the partition, is marked as closed cleanly."""
    if found.kind is KafkaPathKind.LOG_DIR:
        return is_shut_down_cleanly(found.path, env=env)
    return is_closed_cleanly(partition_directory(found), env=env) is True


def _verify_partition(
    found: KafkaPath,
    settings: _Settings,
    out: Collector,
    env: Env,
    totals: Totals,
    check: Callable[[CheckedPartition, Collector, Totals], LogEnd | None],
) -> None:
    """Checks one partition, or one segment of it."""
    directory, only = found.path, None
    if found.kind is not KafkaPathKind.PARTITION:
        directory, only = posixpath.dirname(found.path) or ".", found.offset
        _require_log(directory, found.offset, found.path, env)
    name, home = parse_partition_dir(posixpath.basename(env.real_path(directory))), ""
    if name is not None and name.mark is None:
        home = home_of(env.real_path(directory), env=env)[0]
    start = stated_start(directory, [], env)
    own = settings.of_partitions([directory], env)[directory]
    is_home = name is not None and only is None and home == env.real_path(directory)
    stored = read_checkpoints(directory, env) if is_home else {}
    end = check(CheckedPartition(directory, own, start, only), out, totals)
    if name is not None and end is not None:
        check_checkpoints(stored, {TopicPartition(name.topic, name.partition): end}, out, env)


def log_size_bytes(path: StrPath | KafkaPath, *, env: Env = DEFAULT_ENV) -> int:
    """Returns the size in bytes of the logs at `path`, for a progress bar. Raises the same errors
    as `verify` for `path`."""
    found = require_kafka(path, env=env)
    path = found.path
    if found.kind is KafkaPathKind.LOG_DIR:
        directories = [partition.path for partition in KafkaLogDir(found, env=env).partition_dirs()]
    elif found.kind is KafkaPathKind.PARTITION:
        directories = [path]
    else:
        log = posixpath.join(posixpath.dirname(path), files.offset_file_name(found.offset, files.LOG_SUFFIX))
        return env.size_bytes(log) if env.is_file(log) else 0
    return sum(logs_size_bytes(directory, env) for directory in directories)


def _repaired(found: KafkaPath) -> str:
    """Returns the path that commands take: for an index by itself, that of its .log."""
    if found.kind in (KafkaPathKind.LOG_DIR, KafkaPathKind.PARTITION, KafkaPathKind.LOG):
        return found.path
    return posixpath.join(posixpath.dirname(found.path), files.offset_file_name(found.offset, files.LOG_SUFFIX))


def _require_log(directory: str, offset: int, path: str, env: Env) -> None:
    log = f"{directory}/{files.offset_file_name(offset, files.LOG_SUFFIX)}"
    if not env.exists(log):
        raise UsageError(f"{path}: there is no {log} to hold it against", hint="give the partition's directory")


class _Settings(NamedTuple):
    """The settings of a run. With `infers_interval`, a partition's interval is the one inferred
    from the indexes of its topic."""

    config: LogConfig
    infers_interval: bool

    def of_partitions(self, directories: list[str], env: Env) -> dict[str, LogConfig]:
        """Returns the settings of each partition, by directory."""
        if not self.infers_interval:
            return dict.fromkeys(directories, self.config)
        named = {directory: posixpath.basename(directory) for directory in directories}
        logs = {name: logs_of(directory, env) for directory, name in named.items()}
        found = index_intervals(logs, env)
        return {
            directory: replace(self.config, index_interval_bytes=found[name].size_bytes)
            for directory, name in named.items()
        }


def _verify_log_dir(
    found: KafkaPath,
    settings: _Settings,
    out: Collector,
    env: Env,
    totals: Totals,
    check_all: Callable[[list[CheckedPartition], Collector, Totals], dict[str, LogEnd]],
) -> None:
    log_dir, path = KafkaLogDir(found, env=env), found.path
    is_home = is_log_directory(path, env=env)
    starts = read_offsets(path, files.LOG_START_CHECKPOINT, [], env)
    if is_home and not is_shut_down_cleanly(path, env=env):
        out.info("unclean-end", path, f"no {files.CLEAN_SHUTDOWN}: a broker crashed, or is running")
    stored = read_checkpoints(path, env)
    partitions = log_dir.partition_dirs(marked=True)
    for one, other in found_twice(partitions):
        told = f"a second directory of partition {one.partition} of {one.topic}: a broker fails to start"
        out.find("partition-twice", other.path, 0, told, expected=one.name, found=other.name, mend=MOVE_AWAY)
    own = {partition.path: partition for partition in partitions if partition.mark is None}
    configs = settings.of_partitions([*own], env)
    checked = []
    for partition in partitions:
        if partition.mark is not None:
            out.info(f"partition-{partition.mark}", partition.path, f"a directory marked {partition.mark}: not checked")
            continue
        stated = starts if is_home else read_offsets(partition.path, files.LOG_START_CHECKPOINT, [], env)
        start = offset_in(stated, partition.topic_partition, is_lone=not is_home) or 0
        checked.append(CheckedPartition(partition.path, configs[partition.path], start))
    found_ends = check_all(checked, out, totals)
    ends = {own[directory].topic_partition: end for directory, end in found_ends.items()}
    for name in log_dir.other_names():
        if is_dated(name):
            continue  # what a rebuild or a recovery has replaced
        out.info("foreign-file", f"{path}/{name}", "not one of Kafka's files")
    check_checkpoints(stored, ends, out, env)
    check_meta_properties(path, out, env)
