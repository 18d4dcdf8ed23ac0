"""How parts become tasks, and how this process runs them."""

from __future__ import annotations

import threading
import time
from collections.abc import Generator, Iterator
from typing import NamedTuple

import pytest

from logdex.errors import UsageError
from logdex.jobs.tasks import Count, LocalRunner, group_parts, in_order, threads_of


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


def test_the_default_is_the_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 6)
    assert (threads_of(None, 1 << 40), threads_of(None, 1 << 10)) == (6, 1)
    assert (threads_of(3, 1 << 10), threads_of(1, 1 << 40)) == (3, 1)


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


def test_a_task_by_itself_runs_behind_an_error() -> None:
    def count(fails: bool, _attempt: str, count: Count) -> int:
        count(1, 1)
        return 1 // (not fails)

    runner = LocalRunner(jobs=2)
    with pytest.raises(ZeroDivisionError):
        runner.run("first", count, [True, True])
    assert runner.run("second", count, [False]) == [1]


@pytest.mark.parametrize("jobs", [1, 2, 5])
def test_results_come_in_the_order_of_the_items(jobs: int) -> None:
    begun: list[int] = []

    def work(number: int) -> int:
        time.sleep((number * 7 % 5) / 2_000)
        return number * number

    def items() -> Iterator[int]:
        for number in range(40):
            begun.append(number)
            yield number

    for count, result in enumerate(in_order("test", work, items(), jobs)):
        assert result == count * count
        assert len(begun) - count <= 2 * jobs + 1
    assert count == 39


@pytest.mark.parametrize("jobs", [1, 3])
def test_an_error_of_the_items_comes_behind_the_results_before_it(jobs: int) -> None:
    def items() -> Iterator[int]:
        yield from range(4)
        raise UsageError("no more")

    seen: list[str] = []
    with pytest.raises(UsageError, match="no more"):
        seen.extend(in_order("test", str, items(), jobs))
    assert seen == ["0", "1", "2", "3"]


@pytest.mark.parametrize("jobs", [1, 3])
def test_an_error_of_the_work_comes_in_its_place(jobs: int) -> None:
    seen: list[int] = []
    with pytest.raises(ZeroDivisionError):
        seen.extend(in_order("test", lambda number: 6 // (3 - number), range(100), jobs))
    assert seen == [2, 3, 6]


def test_who_stops_early_waits_for_little() -> None:
    done: list[int] = []

    def work(number: int) -> int:
        time.sleep(0.002)
        done.append(number)
        return number

    results = in_order("test", work, range(1_000), 2)
    assert isinstance(results, Generator)
    assert next(results) == 0
    results.close()
    assert len(done) <= 6
