"""What a dispatch is, whatever the format: derived files in another directory that follow a log,
step by step."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from logdex.errors import LogInUseError
from logdex.io.env import Env
from logdex.io.process_lock import LockHolder, ProcessLock, take_lock
from logdex.jobs.journal import LOCK_NAME, find_unfinished
from logdex.jobs.reports import Lossy, Progress, WorkReport
from logdex.jobs.staging import remove_tree_in_use
from logdex.jobs.tasks import Runner

STAGE_PREFIX = ".logdex-dispatch-stage-"

Ends = Mapping[tuple[str, str], int]
"""The end of each log by two names, as the streams of the Spark sources have them."""


@dataclass(slots=True)
class DispatchReport(Lossy, WorkReport):
    """What a dispatch did. `losses` state what of the log is not dispatched, `notes` are remarks
    that are no losses. `lake_messages` and `lake_files` count what was added to the Parquet
    lake."""

    path: str = ""
    output: str = ""
    lake_messages: int = 0
    lake_files: int = 0
    losses: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def summary(self) -> str:
        """What was dispatched, in the words of the format."""
        return ""


class DispatchJob(Protocol):
    """A log whose derived files follow it in another directory. At the end of ``with`` the files
    are completed, but after an error they are left to the next run. For one thread at a time."""

    @property
    def report(self) -> DispatchReport:
        """What was done so far."""

    @property
    def stage_directory(self) -> str:
        """A folder in the output, which may not exist yet, for what lives as long as the run. The
        job removes it at its end, and those of killed runs at its beginning."""

    @property
    def is_stopped(self) -> bool:
        """Whether `stop` was called."""

    def step(
        self, runner: Runner | None = None, *, until: Ends | None = None, progress: Progress | None = None
    ) -> bool:
        """Derives what there is now, but at least up to `until`, in tasks on `runner` or else in
        this process. Returns whether anything was new."""

    def stop(self) -> None:
        """Ends a step soon; safe in a signal handler."""

    def __enter__(self) -> DispatchJob: ...

    def __exit__(self, kind: object, *rest: object) -> None: ...


class Stoppable:
    """A job that another thread, or a signal handler, may ask to end soon."""

    def __init__(self) -> None:
        self._stopped = threading.Event()

    def stop(self) -> None:
        """Ends a step soon; safe in a signal handler."""
        self._stopped.set()

    @property
    def is_stopped(self) -> bool:
        """Whether `stop` was called."""
        return self._stopped.is_set()


def lock_output(output: str, env: Env) -> ProcessLock:
    """Creates the output if it is missing, and takes its lock. Raises `LogInUseError` if another
    dispatch has it, and `UsageError` if a command was killed while it published there."""
    env.make_dirs_durably(output)
    for unfinished in find_unfinished([output], env, is_writer=True):
        raise unfinished.error
    lock = take_lock(f"{output}/{LOCK_NAME}", env=env)
    if isinstance(lock, LockHolder):
        raise LogInUseError("another dispatch writes here", path=output, hint="stop it first")
    return lock


def new_stage(output: str, env: Env) -> str:
    """Returns the path of a new folder in an output, and removes those of killed runs. The caller
    holds the lock of the output. The name is new each time, because the workers of a killed run on
    Spark may still be writing to theirs."""
    for name in env.list_dir(output):
        if name.startswith(STAGE_PREFIX):
            remove_tree_in_use(f"{output}/{name}", env)
    return f"{output}/{STAGE_PREFIX}{uuid.uuid4().hex[:8]}"
