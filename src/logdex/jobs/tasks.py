"""Work divided into tasks, and a runner that runs them in this process. The other runner is in
`logdex.spark.tasks`.

A task is a plain value, its function can be imported on every worker, and its result is small.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Protocol, TypeVar

from logdex.jobs.reports import Progress

Task = TypeVar("Task")
Result = TypeVar("Result")

Count = Callable[[int, int], None]
"""A task calls this with the (messages, bytes) that it has processed since its last call."""

TaskFunction = Callable[[Task, str, Count], Result]
"""Runs a task. The arguments are the task, a name that no other attempt at any task has, and its
`Count`."""


JOBS_MAX = 1024
_SMALL_BYTES = 256 << 20
"""Up to this size, starting threads would take longer than they save."""


def threads_of(jobs: int | None, size_bytes: int) -> int:
    """Returns the number of threads for a log of `size_bytes`: `jobs`, or if that is None, that of
    the cores, and 1 for a small log."""
    if jobs is not None:
        return jobs
    return 1 if size_bytes <= _SMALL_BYTES else min(os.cpu_count() or 1, JOBS_MAX)


def progress_of(count: Count, messages: int = 0, size_bytes: int = 0) -> Progress:
    """Returns a `Progress` that passes on to `count` what is added to its running totals. It begins
    behind `messages` and `size_bytes`, which were counted before."""
    said = [messages, size_bytes]

    def progress(messages: int, size_bytes: int) -> None:
        more = max(messages - said[0], 0), max(size_bytes - said[1], 0)  # totals fall where a task looks again
        said[:] = said[0] + more[0], said[1] + more[1]
        count(*more)

    return progress


def shared(count: Count, shares: int) -> Count:
    """Returns a `Count` that passes on one of `shares` of the bytes, for work that processes them
    so many times: all shares together count each byte once."""
    progress, said = progress_of(count), [0, 0]

    def counted(messages: int, size_bytes: int) -> None:
        said[:] = said[0] + messages, said[1] + size_bytes
        progress(said[0], said[1] // shares)

    return counted


class Sized(Protocol):
    """A part of the work."""

    @property
    def size_bytes(self) -> int:
        """The bytes that it reads."""


Part = TypeVar("Part", bound=Sized)


def group_parts(parts: Iterable[Part], size_bytes: int) -> list[list[Part]]:
    """Returns the parts in groups of at most `size_bytes`, or of one larger part, in their
    order."""
    groups: list[list[Part]] = []
    room = 0
    for part in parts:
        if not groups or part.size_bytes > room:
            groups.append([])
            room = size_bytes
        groups[-1].append(part)
        room -= part.size_bytes
    return groups


def in_order(name: str, function: Callable[[Task], Result], items: Iterable[Task], jobs: int) -> Iterator[Result]:
    """Yields the results of `function` in the order of `items`. With more than one of `jobs`,
    threads run it for the next items meanwhile, at most twice as many as there are threads. An
    error of `items` is raised behind the results of those before it."""
    if jobs == 1:
        yield from map(function, items)
        return
    from concurrent.futures import Future, ThreadPoolExecutor

    ahead, source, failed = deque[Future[Result]](), iter(items), None
    with ThreadPoolExecutor(jobs, f"logdex {name}") as pool:
        try:
            while True:
                try:
                    item = next(source)
                except StopIteration:
                    break
                except Exception as error:
                    failed = error
                    break
                ahead.append(pool.submit(function, item))
                if len(ahead) > 2 * jobs:
                    yield ahead.popleft().result()
            while ahead:
                yield ahead.popleft().result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
    if failed is not None:
        raise failed


class Runner(Protocol):
    """Runs tasks. `tasks` counts the tasks of all calls of `run`; repeated attempts are not
    counted."""

    tasks: int

    @property
    def cores(self) -> int:
        """The number of tasks that run at once."""

    def run(self, name: str, function: TaskFunction[Task, Result], tasks: Sequence[Task]) -> list[Result]:
        """Runs `function` on each task. Returns the results in the order of `tasks`. `name` is the
        name of the job."""


class _StoppedError(Exception):
    """Ends a task whose result nobody needs any more."""


class LocalRunner:
    """Runs tasks in this process: one after the other, or in `jobs` threads, because the kernels
    release Python's lock. Errors of tasks are raised unchanged. `progress` is called with running
    totals, by one thread at a time."""

    def __init__(self, progress: Progress | None = None, jobs: int = 1) -> None:
        self.tasks = 0
        self.cores = jobs
        self._progress = progress
        self._messages = self._size_bytes = 0
        self._lock = threading.Lock()
        self._is_stopped = False

    def run(self, name: str, function: TaskFunction[Task, Result], tasks: Sequence[Task]) -> list[Result]:
        """Runs `function` on each task. Returns the results in the order of `tasks`."""
        attempts = [f"attempt-{number}" for number in range(self.tasks + 1, self.tasks + len(tasks) + 1)]
        self.tasks += len(tasks)
        self._is_stopped = False
        if self.cores == 1 or len(tasks) < 2:
            return [function(task, attempt, self._count) for task, attempt in zip(tasks, attempts, strict=True)]
        from concurrent.futures import ThreadPoolExecutor

        with ThreadPoolExecutor(self.cores, f"logdex {name}") as pool:
            try:
                running = [pool.submit(function, *each, self._count) for each in zip(tasks, attempts, strict=True)]
                return [each.result() for each in running]
            except BaseException:
                self._is_stopped = True  # tasks that run end where they count next
                pool.shutdown(wait=False, cancel_futures=True)
                raise

    def _count(self, messages: int, size_bytes: int) -> None:
        with self._lock:
            if self._is_stopped:
                raise _StoppedError
            self._messages += messages
            self._size_bytes += size_bytes
            if self._progress is not None:
                self._progress(self._messages, self._size_bytes)
