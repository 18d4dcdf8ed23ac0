"""One rebuild on Spark, step by step from the start of Java, beside the local engine with as many
cores. Both sync."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks import stores
from benchmarks.measure import remove
from logdex.jobs.tasks import LocalRunner, Result, Runner, Task, TaskFunction
from logdex.rocketmq.rebuild.job import rebuild_on
from logdex.rocketmq.settings.store_config import StoreConfig

CORES = 2
STEPS = ("planning", "tasks that scan", "joining", "tasks that write", "publishing")
"""The steps of a rebuild, which end where its jobs begin and end."""


class MarkingRunner:
    """Runs the tasks of a job on another runner. `marks` are the times when calls of `run` began
    and ended."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner
        self.marks: list[float] = []
        self.tasks = 0

    @property
    def cores(self) -> int:
        """The number of tasks that run at once."""
        return self._runner.cores

    def run(self, name: str, function: TaskFunction[Task, Result], tasks: Sequence[Task]) -> list[Result]:
        """Runs the tasks."""
        self.marks.append(time.perf_counter())
        results = self._runner.run(name, function, tasks)
        self.marks.append(time.perf_counter())
        self.tasks = self._runner.tasks
        return results


def time_line(data: Path, name: str = "1k") -> list[dict[str, Any]]:
    """The seconds of each step: on a Spark that starts, of the same session again, and of the local
    engine."""
    from logdex.spark.session import COORDINATING, session
    from logdex.spark.tasks import TaskRunner

    root, output = stores.ensure(stores.SPECS[name], data), data / "out"
    stores.read_in(root)

    def steps(runner: Runner, engine: str) -> dict[str, float]:
        remove(output)
        marking, begin = MarkingRunner(runner), time.perf_counter()
        rebuild_on(marking, str(root), str(output), StoreConfig(), engine=engine)
        # A log whose parts do not join up is scanned in more jobs; the last job writes.
        bounds = [begin, marking.marks[0], *marking.marks[-3:], time.perf_counter()]
        return {step: end - start for step, start, end in zip(STEPS, bounds[:-1], bounds[1:], strict=True)}

    for _ in range(2):
        local = steps(LocalRunner(jobs=CORES), "local")
    began, began_s = time.perf_counter(), time.time()
    with session(f"local[{CORES}]", app_name="logdex bench", conf=COORDINATING) as spark:
        started_s = time.perf_counter() - began
        java_s = max(spark.sparkContext.startTime / 1000 - began_s, 0.0)
        first = {"start of Java": java_s, "start of the session": max(started_s - java_s, 0.0)}
        first |= steps(TaskRunner(spark), "spark")
        again = steps(TaskRunner(spark), "spark")
    remove(output)
    for found in (first, again, local):
        found["all"] = sum(found.values())
    return [
        {
            "what": f"rebuild {name}, {CORES} cores: {step}",
            "spark_s": round(seconds, 3),
            "spark_again_s": round(again.get(step, 0.0), 3),
            "local_s": round(local.get(step, 0.0), 3),
        }
        for step, seconds in first.items()
    ]
