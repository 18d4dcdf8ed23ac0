"""One attempt at a task in a Python worker of Spark, and what the driver makes of the outcomes: for
classic sessions and for Spark Connect."""

from __future__ import annotations

import gc
from collections.abc import Iterable

from logdex.errors import LogdexError, StorageError
from logdex.jobs.tasks import Count, Result, Task, TaskFunction

_FREEZES = 3
_frozen = 0


def attempt(function: TaskFunction[Task, Result], failures_max: int, count: Count, task: Task) -> Result | LogdexError:
    """Runs a task, and returns its typed error instead of raising it. The operating system's errors
    are raised as long as Spark attempts the task again, at most `failures_max` times."""
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None  # set in every worker
    freeze_imports()
    try:
        return function(task, f"{context.stageId()}-{context.partitionId()}-{context.taskAttemptId()}", count)
    except StorageError as error:
        if context.attemptNumber() + 1 < failures_max:
            raise  # another attempt, perhaps on another machine, may succeed
        return error
    except LogdexError as error:
        return error


def results_of(outcomes: Iterable[Result | LogdexError]) -> list[Result]:
    """Returns what attempts at tasks have returned. Raises the first typed error among it."""
    results: list[Result] = []
    for outcome in outcomes:
        if isinstance(outcome, LogdexError):
            raise outcome
        results.append(outcome)
    return results


def failures_max(master: str, of_cluster: str) -> int:
    """Returns how often Spark attempts a task: once on a local master, unless it says
    ``local[2,3]``; on a cluster as often as `of_cluster`, its setting spark.task.maxFailures,
    says."""
    if master.startswith("local") and not master.startswith("local-cluster"):
        _, comma, count = master.rstrip("]").partition(",")
        return int(count) if comma else 1
    return int(of_cluster)


def freeze_imports() -> None:
    """Excludes imported objects from garbage collection.

    A worker runs a full collection after each task, which would otherwise visit about 75,000
    objects and cost more than a small task.
    """
    global _frozen
    if _frozen < _FREEZES:
        _frozen += 1
        gc.freeze()
