"""How parts become tasks, and how this process runs them."""

from __future__ import annotations

import threading
from typing import NamedTuple

import pytest

from logdex.jobs.tasks import Count, LocalRunner, group_parts


class Part(NamedTuple):
    size_bytes: int


def test_tasks_take_parts_up_to_their_size() -> None:
    parts = [Part(size) for size in [5, 5, 3, 20, 1, 0, 9]]
    for size, expected in ((10, [[5, 5], [3], [20], [1, 0, 9]]), (1, [[5], [5], [3], [20], [1, 0], [9]])):
        assert [[part.size_bytes for part in task] for task in group_parts(parts, size)] == expected
    no_parts: list[Part] = []
    assert group_parts(no_parts, 10) == []


@pytest.mark.parametrize("jobs", [1, 2, 5])
def test_results_have_the_order_of_the_tasks(jobs: int) -> None:
    progress: list[tuple[int, int]] = []
    runner = LocalRunner(lambda messages, size_bytes: progress.append((messages, size_bytes)), jobs)
    attempts: list[str] = []

    def square(task: int, attempt: str, count: Count) -> int:
        attempts.append(attempt)
        count(1, task)
        return task * task

    for size in (0, 1, 40):
        assert runner.run("test", square, range(size)) == [number**2 for number in range(size)]
    assert runner.tasks == len(attempts) == len(set(attempts)) == 41
    assert progress == sorted(progress)
    assert progress[-1] == (41, sum(range(40)))


def test_jobs_run_at_once() -> None:
    both = threading.Barrier(2, timeout=60)

    def wait(task: int, attempt: str, count: Count) -> int:
        return both.wait()

    assert sorted(LocalRunner(jobs=2).run("test", wait, [1, 2])) == [0, 1]


@pytest.mark.parametrize("jobs", [1, 2])
def test_the_error_of_a_task_is_raised_and_ends_the_others(jobs: int) -> None:
    begun: list[int] = []
    failed = threading.Event()

    def fail(task: int, attempt: str, count: Count) -> None:
        begun.append(task)
        if task == 0:
            failed.set()
            raise OSError("no space")
        assert failed.wait(60)
        while True:  # until the runner has seen the error
            count(1, 1)

    runner = LocalRunner(jobs=jobs)
    with pytest.raises(OSError, match="no space"):
        runner.run("test", fail, range(100))
    assert len(begun) <= jobs + 1
    assert runner.run("test", lambda task, attempt, count: count(1, 1), range(3)) == [None] * 3
