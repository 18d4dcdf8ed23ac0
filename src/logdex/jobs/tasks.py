"""Work cut into tasks: what runs them, and the runner of this process. `logdex.spark.tasks` has the other one.

A task is a plain value, the function that does it is importable everywhere, and its result is small.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from logdex.jobs.reports import Progress

Task = TypeVar("Task")
Result = TypeVar("Result")

Count = Callable[[int, int], None]
"""What a task calls with the (messages, bytes) that it has done since it called last."""

TaskFunction = Callable[[Task, str, Count], Result]
"""Does a task; with a name that no other attempt at any task has, and its `Count`."""


class Runner(Protocol):
    """What runs tasks, job after job. `tasks` counts them, repeated attempts left out."""

    tasks: int

    @property
    def cores(self) -> int:
        """How many tasks run at once."""

    def run(self, name: str, function: TaskFunction[Task, Result], tasks: Sequence[Task]) -> list[Result]:
        """Results in the order of `tasks`."""


class LocalRunner:
    """Runs tasks here, one after the other; errors are raised as they come. `progress` takes running totals."""

    cores = 1

    def __init__(self, progress: Progress | None = None) -> None:
        self.tasks = 0
        self._progress = progress
        self._messages = self._size_bytes = 0

    def run(self, name: str, function: TaskFunction[Task, Result], tasks: Sequence[Task]) -> list[Result]:
        """Results in the order of `tasks`."""
        results = []
        for task in tasks:
            self.tasks += 1
            results.append(function(task, f"attempt-{self.tasks}", self._count))
        return results

    def _count(self, messages: int, size_bytes: int) -> None:
        self._messages += messages
        self._size_bytes += size_bytes
        if self._progress is not None:
            self._progress(self._messages, self._size_bytes)
