"""The index pipeline: what is derived from a log, and its Parquet lake, follow it step by step.

A step first derives the indexes, and then exports what is new. Each of the two knows from its own
output how far it has come, so that a run which was killed anywhere can be run again.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass

from logdex.convert.export.job import export
from logdex.convert.sources.source import LogSource
from logdex.io.env import DEFAULT_ENV, Env
from logdex.jobs.dispatching import DispatchJob, Ends
from logdex.jobs.reports import Progress
from logdex.jobs.tasks import Runner


@dataclass(frozen=True, slots=True)
class Lake:
    """The directory to which what is new of a source is exported as Parquet."""

    source: LogSource
    directory: str
    codec: str = "zstd"
    sync: bool = True
    env: Env = DEFAULT_ENV


class IndexPipeline:
    """The steps of a dispatch and of its lake, with their tasks on `runner`, or else in this
    process. Several threads may use it, and one at a time makes a step. `engine` is that of the
    report."""

    def __init__(
        self,
        job: DispatchJob,
        lake: Lake | None = None,
        *,
        runner: Runner | None = None,
        engine: str = "local",
        progress: Progress | None = None,
    ) -> None:
        self.job = job
        self._lake = lake
        self._runner = runner
        self._engine = engine
        self._progress = progress
        self._lock = threading.Lock()
        self._is_lake_behind = lake is not None
        job.report.engine = engine

    def step(self, until: Ends | None = None) -> None:
        """Takes in what there is now, at least up to `until`. Does nothing once the job is
        stopped."""
        with self._lock:
            if self.job.is_stopped:
                return
            has_moved = self.job.step(self._runner, until=until, progress=self._progress)
            self._is_lake_behind |= has_moved
            if self._lake is not None and self._is_lake_behind and not self.job.is_stopped:
                self._append(self._lake)
                self._is_lake_behind = False

    def _append(self, lake: Lake) -> None:
        done = export(
            lake.source,
            lake.directory,
            self._runner,
            engine=self._engine,
            codec=lake.codec,
            sync=lake.sync,
            env=lake.env,
        )
        report = self.job.report
        report.lake_messages += done.messages
        report.lake_files += done.files
        report.notes += [note for note in done.notes if note not in report.notes]
        report.losses += [loss for loss in done.losses if loss not in report.losses]

    def run(self, *, follow: bool, every_s: float) -> None:
        """Makes one step, with `follow` one after the other until the job is stopped, each begun
        `every_s` seconds after the one before, or when that one has ended."""
        while True:
            due = time.monotonic() + every_s
            self.step()
            if not follow:
                return
            while not self.job.is_stopped and time.monotonic() < due:
                time.sleep(min(max(due - time.monotonic(), 0), 0.05))
            if self.job.is_stopped:
                return

    def wait_for_step(self) -> None:
        """Returns when no step is under way. After `stop` none begins."""
        with self._lock:
            pass
