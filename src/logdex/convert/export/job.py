"""The export as a job: the new part of a log is divided into tasks, each of which writes its own
Parquet files; they are published together with a manifest.

See ``docs/design/0025-export.md``.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial

from logdex.convert.columns.projection import Projection
from logdex.convert.columns.table_form import FORMS, TableForm
from logdex.convert.export import delta_log
from logdex.convert.export.manifest import Manifest, exported_files, last_manifest, require_manifests, require_own
from logdex.convert.export.parquet_file import CODECS
from logdex.convert.export.report import ExportReport
from logdex.convert.export.writer import DayWriter, WrittenFile
from logdex.convert.sources.source import LogSource, SourcePart, SourcePlan, read_one_log
from logdex.errors import UsageError
from logdex.io.env import DEFAULT_ENV, Env
from logdex.io.path_look import EXPORT_FOLDER, StrPath, path_text
from logdex.jobs.output import check_output, command_line, staged_output
from logdex.jobs.publication import Names
from logdex.jobs.reports import Gone
from logdex.jobs.staging import Staging, remove_tree_in_use
from logdex.jobs.tasks import Count, LocalRunner, Runner, group_parts
from logdex.jobs.work_time import work_seconds

TASK_BYTES = 256 << 20
"""A task reads about this much of the log. It does not depend on the cores, so that every engine
writes the same files."""
SPLIT_BYTES = 64 << 20
LOSSES_MAX = 100
"""How many losses a task tells one by one."""
TABLE_FORMATS = ("delta",)
"""The table formats that an export can be in, beside its own manifests."""
_TASKS = "tasks"


@dataclass(frozen=True, slots=True)
class ExportTask:
    """Some parts of the log, and the beginning of the names of the files that they become."""

    prefix: str
    parts: tuple[SourcePart, ...]


@dataclass(frozen=True, slots=True)
class TaskDone:
    """What one task wrote, in a folder of its own."""

    folder: str
    files: tuple[WrittenFile, ...]
    losses: tuple[str, ...]


def export(
    source: LogSource,
    output: StrPath,
    runner: Runner | None = None,
    *,
    engine: str = "local",
    codec: str = "zstd",
    table_format: str | None = None,
    sync: bool = True,
    task_bytes: int = TASK_BYTES,
    env: Env = DEFAULT_ENV,
) -> ExportReport:
    """Exports what of `source` is not yet in `output`, in tasks on `runner` (in this process if it
    is None). All workers must see both under these paths.

    Files are named after the run and the task, and their bytes depend only on the log, the codec
    and `task_bytes`. If a run is killed, the next one undoes what that had published. With
    `table_format="delta"`, the output becomes a Delta table with all that is in it, and stays one:
    each further run adds its files to the table. Raises
    `UsageError` if `output` belongs to an export of another format or with another filter, has
    files of one whose manifests are gone, or of something else, or lies in the source; and if the
    log is not the one that was exported to it.
    """
    started = work_seconds()
    if codec not in CODECS:
        raise UsageError(f"the codec {codec!r} is unknown", hint=f"choose from {', '.join(CODECS)}")
    if table_format not in (None, *TABLE_FORMATS):
        raise UsageError(
            f"the table format {table_format!r} is unknown", hint=f"choose from {', '.join(TABLE_FORMATS)}"
        )
    target = env.real_path(path_text(output))  # workers have working directories of their own
    runner = runner or LocalRunner()
    check_output(target, source.path, in_place=False, may_be_in_place=False, env=env)
    report = ExportReport(engine)
    command = command_line("export", source.path, target, in_place=False)
    with staged_output(target, in_place=False, lock=nullcontext(), command=command, sync=sync, env=env) as staging:
        found = last_manifest(target, env)
        require_own(target, found is not None, env)
        before = found or Manifest(source.format, source.filter)
        before.require_same(source.format, source.filter, target)
        require_manifests(target, before.run, env)
        job = _Export(runner, source.format, codec, staging, env, sync)

        def read() -> tuple[list[SourcePlan], SourcePlan]:
            job.discard()
            plan = source.plan(_reads(FORMS[source.format]), before.positions, SPLIT_BYTES, env, marks=before.marks)
            if plan.parts:
                env.require_free(target, plan.size_bytes)
                job.write(plan.parts, f"run{before.run + 1:06d}", task_bytes)
            return [plan], plan

        plan = read_one_log(source, read, env)
        report.bytes, report.positions, report.losses = plan.size_bytes, plan.positions, plan.losses
        report.notes = staging.notes
        report.notes += plan.notes + plan.waiting + _earlier_losses(before, target)
        has_table = delta_log.has_table(target, env)
        begins_table = table_format is not None and not has_table
        if plan.parts or plan.positions != before.positions or (begins_table and before.run):
            report.losses = [*plan.losses, *job.losses]
            manifest = before.next(plan, job.files, report.losses)
            if begins_table or has_table:
                job.add_to_table(manifest, is_first=begins_table)
            job.publish(manifest)
            report.run, report.messages, report.files = manifest.run, manifest.messages, len(job.files)
            report.written_bytes = sum(each.size_bytes for each in job.files)
    report.tasks = runner.tasks
    report.seconds = work_seconds() - started
    return report


def _earlier_losses(before: Manifest, output: str) -> list[str]:
    """Tells of what earlier runs could not export: no later run reads it again."""
    runs = before.all_lossy_runs
    if not runs:
        return []
    listed = f"{output}/{EXPORT_FOLDER}/{runs[-1]:06d}.json"
    told = f"{'run' if len(runs) == 1 else 'runs'} {', '.join(map(str, runs))} of this export"
    return [f"{told} could not read parts of the log, which no later run reads again: {listed} lists them"]


def _reads(form: TableForm) -> tuple[str, ...]:
    """Returns the columns of the format that an export reads."""
    return tuple(dict.fromkeys((form.topic, form.time_ms, *Projection(form.columns, form.names).reads)))


class _Export:
    """Writes and publishes the files of one run."""

    def __init__(self, runner: Runner, format_name: str, codec: str, staging: Staging, env: Env, sync: bool) -> None:
        self.files: list[WrittenFile] = []
        self.losses: list[str] = []
        self._runner = runner
        self._format = format_name
        self._table_entry: tuple[str, ...] = ()
        self._codec = codec
        self._staging = staging
        self._env = env
        self._sync = sync

    def discard(self) -> None:
        """Removes what was written."""
        for folder in {file.name.partition("/")[0] for file in self.files}:
            self._env.remove_tree(f"{self._staging.directory}/{folder}")
        self.files, self.losses = [], []

    def write(self, parts: Iterable[SourcePart], prefix: str, task_bytes: int) -> None:
        """Runs the tasks, and moves their files to where they are published from."""
        home, env = f"{self._staging.directory}/{_TASKS}", self._env
        env.make_dirs(home)
        tasks = [
            ExportTask(f"{prefix}-{number:05d}", tuple(group))
            for number, group in enumerate(group_parts(parts, task_bytes))
        ]
        task = partial(export_task, home, self._format, self._codec, self._sync, env)
        for done in self._runner.run("logdex export", task, tasks):
            for file in done.files:
                target = f"{self._staging.directory}/{file.name}"
                env.make_dirs(posixpath.dirname(target))
                env.rename(f"{done.folder}/{file.name}", target)
            self.files += done.files
            self.losses += done.losses
        remove_tree_in_use(home, env)

    def add_to_table(self, manifest: Manifest, *, is_first: bool) -> None:
        """Writes the run's entry of Delta's log. The first one of a table adds the files of earlier
        runs too."""
        output, form = self._staging.output, FORMS[self._format]
        earlier = (exported_files(output, self._env) or []) if is_first else []
        table_id = manifest.to_bytes().decode("ascii") if is_first else None
        schema = Projection(form.columns, form.names).schema
        name = delta_log.next_entry(output, self._env)
        self._write(name, delta_log.entry(manifest.run, [*earlier, *self.files], schema, table_id))
        self._table_entry = (self._new_name(name),)

    def publish(self, manifest: Manifest) -> None:
        """Publishes the files, then the entry of Delta's log, and then the manifest."""
        self._write(manifest.name, manifest.to_bytes())
        names = dict.fromkeys(self._new_name(file.name) for file in self.files)
        self._staging.publish(Names(tuple(names), last=(*self._table_entry, self._new_name(manifest.name))))

    def _write(self, name: str, data: bytes) -> None:
        path = f"{self._staging.directory}/{name}"
        self._env.make_dirs(posixpath.dirname(path))
        with self._env.open_write(path) as file:
            file.write_at(0, data)
            if self._sync:
                file.sync()

    def _new_name(self, name: str) -> str:
        """Returns the name, or that of its first folder that the output does not have yet."""
        folders = name.split("/")
        for depth in range(1, len(folders)):
            folder = "/".join(folders[:depth])
            if not self._env.exists(f"{self._staging.output}/{folder}"):
                return folder
        return name


def export_task(
    home: str, format_name: str, codec: str, sync: bool, env: Env, task: ExportTask, attempt: str, count: Count
) -> TaskDone:
    """A task: reads some parts, and writes their rows below a folder of its own."""
    form = FORMS[format_name]
    projection = Projection(form.columns, form.names)
    folder, losses = f"{home}/{attempt}", list[str]()
    env.make_dirs(folder)
    with DayWriter(folder, task.prefix, form, projection.schema, codec, env=env, sync=sync) as writer:
        for part in task.parts:
            for batch in part.batches(losses.append, env):
                times_ms = batch.column(form.time_ms).to_numpy()
                writer.add(batch.column(form.topic), times_ms, projection.convert(batch, {}))
                count(len(batch), 0)
            count(0, part.size_bytes)
    return TaskDone(folder, tuple(writer.written), shortened(losses))


def shortened(losses: list[str]) -> tuple[str, ...]:
    """Returns the first `LOSSES_MAX` losses, and how many there are beyond them."""
    more = len(losses) - LOSSES_MAX
    if more <= 0:
        return tuple(losses)
    kind = Gone if all(isinstance(loss, Gone) for loss in losses) else str
    return (*losses[:LOSSES_MAX], kind(f"and {more} more like this"))
