"""Rebuilds a store's ConsumeQueues and IndexFiles from its CommitLog, in tasks that any `Runner`
runs.

Phase 1 has tasks for the parts of the CommitLog: each scans its parts into stage files. The caller
then joins the parts and computes the position of each entry. Phase 2 has one task per IndexFile,
and tasks for some queues each, which write files from the stage files. Everything is written in one
staging folder below the output; at the end the files of the finished attempts are moved into place.
Docs: ``docs/design``.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from logdex.io.env import DEFAULT_ENV, Env
from logdex.io.path_look import StrPath, path_text
from logdex.jobs.output import command_line, staged_output
from logdex.jobs.staging import remove_tree_in_use
from logdex.jobs.tasks import Count, Runner
from logdex.jobs.work_time import work_seconds
from logdex.rocketmq.commit_log.commit_log import CommitLog
from logdex.rocketmq.commit_log.misnamed import require_right_names_in
from logdex.rocketmq.files.broker_lock import broker_lock
from logdex.rocketmq.files.known_topics import KnownTopics
from logdex.rocketmq.files.store_files import StorePaths
from logdex.rocketmq.geometry.set_aside import settings_by_folder
from logdex.rocketmq.index_file.name_zone import resolve_name_zone
from logdex.rocketmq.rebuild.parts import PartScan, WholeLog, join_parts, parallel_part_size, plan_parts, scan_part
from logdex.rocketmq.rebuild.publish import Outputs, complete_output
from logdex.rocketmq.rebuild.report import RebuildReport
from logdex.rocketmq.rebuild.source import UncutLog, again_if_cut, behind_unreadable, check_output, settle_unfinished
from logdex.rocketmq.rebuild.space import require_space
from logdex.rocketmq.rebuild.write import (
    QUEUE_TASKS_PER_CORE,
    IndexDone,
    IndexTask,
    QueuesDone,
    QueueTask,
    plan_index,
    plan_queues,
    write_index_file,
    write_queues,
)
from logdex.rocketmq.scan.scan_part import ScanPart
from logdex.rocketmq.scan.scanner import Behind
from logdex.rocketmq.settings.store_config import StoreConfig

STAGE_DIR = "stage"
TASKS_DIR = "tasks"


@again_if_cut
def rebuild_on(
    runner: Runner,
    root: StrPath,
    output: StrPath,
    config: StoreConfig,
    *,
    in_place: bool = False,
    sync: bool = True,
    engine: str = "local",
    deleted_topics: bool = False,
    time_zone: str | None = None,
    flags: str = "",
    env: Env = DEFAULT_ENV,
    part_size_bytes: int | None = None,
) -> RebuildReport:
    """Rebuilds like `logdex.rocketmq.rebuild.rebuild`, on `runner`. `env` is used in the caller's
    process only; `part_size_bytes` overrides how the log is divided into tasks, which does not
    change what is written."""
    started = work_seconds()
    root, output = (
        env.real_path(path_text(root)),
        env.real_path(path_text(output)),
    )  # workers have working directories of their own
    check_output(root, output, in_place=in_place, env=env)
    notes = settle_unfinished(root, output, in_place=in_place, sync=sync, env=env)
    uncut = UncutLog(root, config, env)
    log = CommitLog.of_config(root, config, env=env)
    require_right_names_in(root, config, env)
    total = log.size_bytes
    require_space(output, log, config, env, copies=2)  # stage files are no larger than the result
    report = RebuildReport(engine, assumed=list(config.assumed), notes=notes)
    named = resolve_name_zone(StorePaths(root).index, time_zone, env=env)
    lock = broker_lock(root, env=env)
    command = command_line("rebuild", root, output, in_place=in_place, flags=flags)
    with staged_output(output, in_place=in_place, lock=lock, command=command, sync=sync, env=env) as staging:
        with uncut:
            job = Rebuild(runner, root, log, config, staging.directory, env, sync=sync)
            whole = job.scan(part_size_bytes or parallel_part_size(total, runner.cores))
            outputs = job.write(whole, KnownTopics.read(root, every=deleted_topics, env=env))
            outputs.assemble(staging.directory, named.zone, env)
            for name in (STAGE_DIR, TASKS_DIR):  # so that their folders are not synced
                remove_tree_in_use(f"{staging.directory}/{name}", env)
            report.bytes = whole.end.offset - log.readable_from()
            if whole.trimmed:
                report.note_trimmed(whole.trimmed)
                log.refresh()  # it begins later now
            names = complete_output(
                root, staging.directory, log, whole.end, whole.newest_ms, config, report, sync=sync, env=env
            )
        report.kept = staging.publish(names, settings=settings_by_folder(config))
    outputs.note(whole, config, report)
    report.note_unusable(log.unusable.values())
    report.time_zone = named.text
    report.tasks = runner.tasks
    report.seconds = work_seconds() - started
    return report


@dataclass(slots=True)
class Rebuild:
    """The two phases of one rebuild as jobs on `runner`. Files are written below the staging folder
    `directory`."""

    runner: Runner
    root: str
    log: CommitLog
    config: StoreConfig
    directory: str
    env: Env
    sync: bool

    def scan(self, part_size_bytes: int) -> WholeLog:
        """Phase 1: scans all parts. Where the parts of a file do not join up, scans the rest of the
        file again."""
        self.env.make_dirs(f"{self.directory}/{STAGE_DIR}")
        behind = behind_unreadable(self.root, self.log, self.config, DEFAULT_ENV)  # tasks have the default one
        task = partial(scan_task, f"{self.directory}/{STAGE_DIR}", self.config, behind)
        scans: list[PartScan] = []
        again = plan_parts(self.log, part_size_bytes)
        while True:
            for done in self.runner.run("logdex rebuild: scan", task, again):
                scans += done
            whole = join_parts(self.log, scans)
            if isinstance(whole, WholeLog):
                return whole
            again = [[part] for part in whole]

    def write(self, whole: WholeLog, known: KnownTopics) -> Outputs:
        """Phase 2: writes all files, but for the queues of deleted topics. IndexFiles come first,
        because each is one long task."""
        self.env.make_dirs(f"{self.directory}/{TASKS_DIR}")
        index = plan_index(whole, self.config)
        queues, left_out = plan_queues(whole, QUEUE_TASKS_PER_CORE * self.runner.cores, known)
        task = partial(write_task, f"{self.directory}/{TASKS_DIR}", self.config, self.sync)
        done = self.runner.run("logdex rebuild: write", task, [*index, *queues])
        return Outputs(
            [file for file in done if isinstance(file, IndexDone)],
            [part for part in done if isinstance(part, QueuesDone)],
            left_out,
        )


def scan_task(
    directory: str, config: StoreConfig, behind: Behind | None, parts: list[ScanPart], attempt: str, count: Count
) -> list[PartScan]:
    """A task: scans some parts, each into its own stage file; `behind` as of `Scanner`."""
    return [
        scan_part(part, config, f"{directory}/{attempt}-{number}", behind=behind, progress=count)
        for number, part in enumerate(parts)
    ]


def write_task(
    directory: str, config: StoreConfig, sync: bool, task: IndexTask | QueueTask, attempt: str, count: Count
) -> IndexDone | QueuesDone:
    """A task: writes one IndexFile, or the files of some queues."""
    if isinstance(task, IndexTask):
        return write_index_file(task, config, f"{directory}/{attempt}", sync=sync)
    return write_queues(task, config, f"{directory}/{attempt}", sync=sync)
