"""The conversion between formats as a job: tasks write into the staging folder, and everything is
published at once.

See ``docs/design/0027-convert.md``.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from logdex.convert.new_directory import new_directory
from logdex.convert.partition_writer import join_directories
from logdex.convert.report import ConvertReport
from logdex.convert.sources.kafka import LogDirSource
from logdex.convert.sources.rocketmq import StoreSource
from logdex.convert.sources.source import LogSource
from logdex.convert.translate import from_logs, from_store
from logdex.convert.translate.committed_offsets import put_committed_offsets, write_committed_offsets
from logdex.errors import UsageError
from logdex.io.env import DEFAULT_ENV, Env
from logdex.io.path_look import StrPath
from logdex.jobs.tasks import LocalRunner, Runner
from logdex.jobs.work_time import work_seconds
from logdex.kafka.batch.record import Compression
from logdex.kafka.read.log_read import READ_COMMITTED
from logdex.primitives.shown import counted


def convert(
    source: LogSource,
    output: StrPath,
    runner: Runner | None = None,
    *,
    engine: str = "local",
    compression: Compression = Compression.NONE,
    settings: Mapping[str, Any] | None = None,
    sync: bool = True,
    env: Env = DEFAULT_ENV,
) -> ConvertReport:
    """Writes the messages of `source` as a directory of the other format, in tasks on `runner` (in
    this process if it is None): a store becomes a log directory, Kafka partitions become a store,
    with their committed records unless the source states an isolation level.

    `output` must be empty. `compression` is that of Kafka's batches, and `settings` are keyword
    arguments of `MessageStore.open` for a new store. If a run is killed, the next one begins again.
    Raises `UsageError` if it may not write to `output`.
    """
    started = work_seconds()
    runner, report = runner or LocalRunner(), ConvertReport(engine)
    with new_directory("convert", source.path, output, sync=sync, env=env) as made:
        report.notes += made.notes
        if isinstance(source, StoreSource):
            made.contents = _to_kafka(source, made.home, runner, compression, report, env)
        elif isinstance(source, LogDirSource):
            made.contents = _to_rocketmq(source, made.home, runner, settings or {}, report, env)
        else:
            raise UsageError(f"{source.path} cannot be converted", hint="give a RocketMQ store or Kafka partitions")
    report.tasks = runner.tasks
    report.seconds = work_seconds() - started
    return report


def _to_kafka(
    source: StoreSource, home: str, runner: Runner, compression: Compression, report: ConvertReport, env: Env
) -> str:
    done = from_store.convert_topics(home, source, compression, runner, env)
    begins, shifts = dict[from_store.Place, int](), dict[from_store.Place, int]()
    for each in done:
        begins |= each.begins
        shifts |= each.shifts
        report.messages += each.messages
        report.bytes = max(report.bytes, each.size_bytes)  # each task reads the log for its topic
        report.losses += [loss for loss in each.losses if loss not in report.losses]
        report.notes += [note for note in each.notes if note not in report.notes]
    escaped = sum(each.escaped for each in done)
    if escaped:
        report.notes.append(
            f"{counted(escaped, 'message has', 'messages have')} properties with \\x, which may stand for bytes that "
            "are not UTF-8"
        )
    now_ms = time.time_ns() // 1_000_000
    report.groups, notes, losses = write_committed_offsets(source, begins, shifts, f"{home}/offsets", now_ms, env)
    report.notes += notes
    report.losses += losses
    moved = [f"{topic} {queue}" for (topic, queue), shift in shifts.items() if shift]
    if moved:
        report.notes.append(f"offsets were moved up where queues began anew: {', '.join(moved)}")
    folder = f"{home}/joined"
    report.files = len(shifts)
    join_directories([*(each.folder for each in done), f"{home}/offsets"], folder, env)
    return folder


def _to_rocketmq(
    source: LogDirSource, home: str, runner: Runner, settings: Mapping[str, Any], report: ConvertReport, env: Env
) -> str:
    if source.wanted.isolation is None:
        source = replace(source, wanted=replace(source.wanted, isolation=READ_COMMITTED))
    task = partial(from_logs.convert_logs, home, settings, env)
    (done,) = runner.run("logdex convert", task, [source])
    report.messages, report.bytes, report.files = done.messages, done.size_bytes, done.queues
    report.groups = len(done.offsets)
    report.losses += done.losses + put_committed_offsets(done.folder, done, env)
    report.notes += done.notes
    return done.folder
