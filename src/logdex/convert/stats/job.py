"""The figures as a job: each task counts some parts of the log, and the counts are summed."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa

from logdex.convert.sources.source import LogSource, SourcePart, SourcePlan, read_one_log
from logdex.convert.stats.counted_columns import COLUMNS
from logdex.convert.stats.counts import Counts
from logdex.convert.stats.group_lag import group_lags
from logdex.convert.stats.report import HourFigures, KeyFigures, QueueFigures, StatsReport, TopicFigures
from logdex.io.env import DEFAULT_ENV, Env
from logdex.jobs.tasks import Count, LocalRunner, Runner, group_parts
from logdex.jobs.work_time import work_seconds

TASK_BYTES = 256 << 20
SPLIT_BYTES = 64 << 20
TOP_KEYS = 20
_HOUR_MS = 3_600_000


@dataclass(slots=True)
class Counted:
    """What a task has counted."""

    counts: Counts
    losses: tuple[str, ...]


def stats(
    source: LogSource,
    runner: Runner | None = None,
    *,
    engine: str = "local",
    top_keys: int = TOP_KEYS,
    env: Env = DEFAULT_ENV,
) -> StatsReport:
    """Counts the messages of `source`, in tasks on `runner` (in this process if it is None), and
    again where a log is cut meanwhile."""
    started = work_seconds()
    runner = runner or LocalRunner()

    def read() -> tuple[list[SourcePlan], tuple[StatsReport, Counts]]:
        report, counts = StatsReport(engine), Counts()
        plan = source.plan(COLUMNS[source.format].reads, {}, SPLIT_BYTES, env)
        report.bytes, report.losses, report.notes = plan.size_bytes, list(plan.losses), plan.notes + plan.waiting
        tasks = [tuple(group) for group in group_parts(plan.parts, TASK_BYTES)]
        for done in runner.run("logdex stats", partial(count_task, source.format, env), tasks):
            counts.take_in(done.counts)
            report.losses += done.losses
        return [plan], (report, counts)

    report, counts = read_one_log(source, read, env)
    _fill(report, counts, top_keys)
    report.groups = group_lags(source, report.losses, env)
    report.tasks, report.seconds = runner.tasks, work_seconds() - started
    return report


def count_task(format_name: str, env: Env, parts: tuple[SourcePart, ...], attempt: str, count: Count) -> Counted:
    """A task: counts the rows of some parts."""
    columns, counts, losses = COLUMNS[format_name], Counts(), list[str]()
    for part in parts:
        for batch in part.batches(losses.append, env):
            place = batch.column("topic"), batch.column(columns.queue), batch.column(columns.time_ms)
            counts.add(*place, columns.sizes(batch), columns.keys(batch))
            count(len(batch), 0)
        count(0, part.size_bytes)
    counts.join()
    return Counted(counts, tuple(losses))


def _fill(report: StatsReport, counts: Counts, top_keys: int) -> None:
    counts.join()
    report.keys_are_exact = counts.keys_are_exact
    if counts.places is None:
        return
    queues = [QueueFigures(*row) for row in _grouped(counts.places, ["topic", "queue"])]
    report.queues = queues
    by_topic: dict[str, list[QueueFigures]] = {}
    for each in queues:
        by_topic.setdefault(each.topic, []).append(each)
    report.topics = sorted((_topic(name, found) for name, found in by_topic.items()), key=lambda each: -each.messages)
    report.hours = [
        HourFigures(hour * _HOUR_MS, messages, size) for hour, messages, size in _grouped(counts.places, ["hour"])
    ]
    report.messages = sum(each.messages for each in queues)
    report.size_bytes = sum(each.bytes for each in queues)
    top = counts.top_keys(top_keys)
    if top is not None:
        report.keys = [
            KeyFigures(row["topic"], row["key"].decode("utf-8", "backslashreplace"), row["messages"], row["bytes"])
            for row in top.to_pylist()
        ]


def _topic(name: str, queues: list[QueueFigures]) -> TopicFigures:
    messages = sum(each.messages for each in queues)
    skew = max(each.messages for each in queues) * len(queues) / messages
    return TopicFigures(name, messages, sum(each.bytes for each in queues), len(queues), round(skew, 3))


def _grouped(table: pa.Table, names: list[str]) -> list[tuple[Any, ...]]:
    found = table.group_by(names, use_threads=False).aggregate([("messages", "sum"), ("bytes", "sum")])
    columns = [found.column(name).to_pylist() for name in [*names, "messages_sum", "bytes_sum"]]
    return sorted(zip(*columns, strict=True))
