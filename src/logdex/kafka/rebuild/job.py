"""Rebuilds the derived files of a partition or log directory from the .log files alone.

There are two phases of tasks, run in this process or by another `Runner` (Spark). The first derives
the files of each segment (`segment`), the second the files that depend on all earlier segments
(`state`). The bytes are those of `LogSegment.recover`. Docs: ``docs/guide/kafka-rebuild.md``,
``docs/design/0008-kafka-rebuild.md``.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

from logdex.io.env import DEFAULT_ENV, Env
from logdex.io.path_look import StrPath, path_text
from logdex.jobs.look_again import LOOKS_MAX
from logdex.jobs.reports import Progress
from logdex.jobs.tasks import LocalRunner, Runner, group_parts
from logdex.jobs.work_time import work_seconds
from logdex.kafka.directory.given_names import GivenNames
from logdex.kafka.directory.recognise import KafkaPath, require_kafka
from logdex.kafka.directory.unfinished import settle_unfinished, staged_logs
from logdex.kafka.rebuild.publish import SEGMENTS_DIR, STATES_DIR, assemble
from logdex.kafka.rebuild.report import KafkaRebuildReport
from logdex.kafka.rebuild.segment import RebuildSettings, SegmentDone, derive_segments
from logdex.kafka.rebuild.source import RebuildSource, SourceSegment, check_output, find_source
from logdex.kafka.rebuild.space import require_space
from logdex.kafka.rebuild.state import StateDone, StateTask, derive_states, with_known_state
from logdex.kafka.segment.index_interval import describe_intervals, index_intervals
from logdex.kafka.settings.log_config import LogConfig

TASK_SIZE_BYTES_MIN, TASK_SIZE_BYTES_MAX = 16 << 20, 1 << 30
STATE_TASKS_A_CORE = 4


def rebuild(
    path: StrPath | KafkaPath,
    output: StrPath,
    *,
    index_interval_bytes: int | None = None,
    key_index: bool = False,
    in_place: bool = False,
    sync: bool = True,
    progress: Progress | None = None,
    env: Env = DEFAULT_ENV,
) -> KafkaRebuildReport:
    """Derives all files that depend on the .log files at `path`: a log directory, a partition or
    one .log.

    These are .index, .timeindex and .txnindex (with `key_index` also .keyindex) per segment, and
    .snapshot files and leader-epoch-checkpoint per partition. They are written to
    ``OUTPUT/topic-N/``, or ``OUTPUT/`` for one partition; no .log is ever written. All files are
    staged and published at the end, so the rebuild can be run again after a kill. With `in_place`,
    `output` is the directory of `path`, and replaced files stay under a dated name. Without `sync`
    there is no fsync. `index_interval_bytes` is by default inferred from existing indexes, else the
    broker's default.

    Raises `NotAStoreError`, `UsageError` for an unsuitable output, and, in place, `LogInUseError`
    while a broker runs.
    """
    runner = LocalRunner(progress)
    settings = rebuild_settings(index_interval_bytes, key_index=key_index, sync=sync)
    return rebuild_on(runner, path, output, settings, in_place=in_place, env=env, worker_env=env)


def rebuild_settings(index_interval_bytes: int | None, *, key_index: bool, sync: bool) -> RebuildSettings:
    """Returns the settings. Raises `UsageError` for an invalid interval. None: the interval is
    inferred."""
    if index_interval_bytes is not None:
        LogConfig(index_interval_bytes=index_interval_bytes)
    return RebuildSettings(index_interval_bytes, key_index, sync)


def rebuild_on(
    runner: Runner,
    path: StrPath | KafkaPath,
    output: StrPath,
    settings: RebuildSettings,
    *,
    in_place: bool = False,
    engine: str = "local",
    flags: str = "",
    env: Env = DEFAULT_ENV,
    worker_env: Env = DEFAULT_ENV,
    task_size_bytes: int | None = None,
) -> KafkaRebuildReport:
    """As `rebuild`, on a given `runner`. If the run is killed, `flags` end the command that
    `verify` prints to run it again.

    `env` is the caller's, `worker_env` that of the tasks. `task_size_bytes` overrides the size of
    tasks; the output does not depend on it.
    """
    started = work_seconds()
    found, output = require_kafka(path, env=env), path_text(output)
    settled = settle_unfinished(found, output, in_place=in_place, sync=settings.sync, env=env)
    source, given = find_source(found, env), GivenNames(found, output, env)
    check_output(source, output, in_place=in_place, env=env)
    output = env.real_path(output)  # workers have other working directories
    report = KafkaRebuildReport(engine, notes=settled)
    report.inferred, report.assumed = _set_intervals(source, settings, env)
    require_space(output, source, settings, env)
    if not source.is_whole:
        report.notes.append("a single segment is rebuilt without .snapshot, .txnindex and leader epochs")
    partition = f"{output}/{next(iter(source.partitions))}" if source.is_log_dir else None
    places: dict[str, Any] = {"home": source.home, "partition": partition}
    with staged_logs(
        found, output, "rebuild", **places, in_place=in_place, flags=flags, sync=settings.sync, env=env
    ) as staging:
        job = _Job(runner, source, settings, staging.directory, env, worker_env)
        segments = job.derive_segments(task_size_bytes)
        states = job.derive_states(segments) if source.is_whole else []
        plan = assemble(staging.directory, output, segments, states, settings, source.lost, in_place=in_place, env=env)
        report.kept = staging.publish(plan.all_names)
    for done in segments.values():
        report.note_partition(done)
    for state in states:
        report.note_state(state)
    report.notes += [*source.notes, *plan.notes]
    report.losses += source.losses
    report.kept, report.notes, report.losses = given.kept(report.kept), *map(given.texts, (report.notes, report.losses))
    report.tasks = runner.tasks if engine != "local" or runner.cores > 1 else 1
    report.seconds = work_seconds() - started
    return report


def _set_intervals(source: RebuildSource, settings: RebuildSettings, env: Env) -> tuple[list[str], list[str]]:
    """Sets each partition's index interval; returns (lines on inferred, lines on assumed
    intervals)."""
    if settings.index_interval_bytes is not None:
        source.set_intervals(dict.fromkeys(source.partitions, settings.index_interval_bytes))
        return [], []
    logs = {folder: [segment.path for segment in found] for folder, found in source.partitions.items()}
    intervals = index_intervals(logs, env)
    source.set_intervals({folder: interval.size_bytes for folder, interval in intervals.items()})
    return describe_intervals(intervals)


@dataclass(slots=True)
class _Job:
    """The two phases of one rebuild, run on `runner`, below the staging directory `directory`."""

    runner: Runner
    source: RebuildSource
    settings: RebuildSettings
    directory: str
    env: Env
    worker_env: Env

    def derive_segments(self, task_size_bytes: int | None) -> dict[str, list[SegmentDone]]:
        """Runs phase 1 and returns its results by partition, in log order. A partition of which a
        broker has removed or replaced segments meanwhile is listed and derived again."""
        size = self.source.size_bytes // (2 * self.runner.cores)
        size = task_size_bytes or min(max(size, TASK_SIZE_BYTES_MIN), TASK_SIZE_BYTES_MAX)
        done = self._derive(self.source.segments, size)
        for _ in range(LOOKS_MAX):
            changed = [folder for folder in self.source.partitions if any(each.is_gone for each in done[folder])]
            if not changed or not self.source.is_whole:
                break
            again = [segment for folder in changed for segment in self.source.list_again(folder, self.env)]
            done |= self._derive(again, size)
        return {folder: done[folder] for folder in self.source.partitions}

    def _derive(self, segments: list[SourceSegment], size_bytes: int) -> dict[str, list[SegmentDone]]:
        tasks = group_parts(segments, size_bytes)
        task = partial(derive_segments, f"{self.directory}/{SEGMENTS_DIR}", self.settings, self.worker_env)
        done: dict[str, list[SegmentDone]] = {}
        for result in self.runner.run("logdex rebuild: segments", task, tasks):
            for segment in result:
                done.setdefault(segment.source.partition, []).append(segment)
        return done

    def derive_states(self, segments: dict[str, list[SegmentDone]]) -> list[StateDone]:
        """Runs phase 2 and returns its results in the order of partitions."""
        all_tasks = [StateTask(partition, with_known_state(done)) for partition, done in segments.items()]
        step = -(-len(all_tasks) // (STATE_TASKS_A_CORE * self.runner.cores))
        tasks = [all_tasks[first : first + step] for first in range(0, len(all_tasks), step)]
        task = partial(derive_states, f"{self.directory}/{STATES_DIR}", self.settings.sync, self.worker_env)
        return [state for done in self.runner.run("logdex rebuild: states", task, tasks) for state in done]
