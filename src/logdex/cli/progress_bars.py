"""A progress bar on stderr for a long command: messages, bytes per second, time left.

Shows nothing if stderr is not a terminal.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from logdex.jobs import work_time
from logdex.jobs.reports import Progress

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress as RichProgress
    from rich.progress import ProgressColumn, TaskID


_shown: RichProgress | None = None
"""The bar that is shown now."""


def _ignore(messages: int, done_bytes: int) -> None:
    """Ignores progress that is not shown."""


@contextmanager
def progress_bar(what: str, total_bytes: int, console: Console | None = None) -> Iterator[Progress]:
    """Shows a bar from 0 to `total_bytes` until the block ends. Returns the function that advances
    it, which any thread may call. `console` replaces stderr."""
    if console is None and not sys.stderr.isatty():
        yield _ignore
        return
    from rich.progress import BarColumn, DownloadColumn, TextColumn, TimeRemainingColumn, TransferSpeedColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[messages]:,} messages"),
        DownloadColumn(binary_units=True),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    bar = _new_bar(*columns, console=console)
    with bar, _live(bar):
        task = bar.add_task(what, total=total_bytes or None, messages=0)

        def move(messages: int, done_bytes: int) -> None:
            bar.update(task, completed=done_bytes, messages=messages)

        yield move


def _new_bar(*columns: ProgressColumn, console: Console | None = None) -> RichProgress:
    from rich.console import Console
    from rich.progress import Progress as RichProgress

    # By default Rich would redirect what the command prints to the bar's terminal, even if stdout
    # is redirected.
    return RichProgress(
        *columns, console=console or Console(stderr=True), transient=True, redirect_stdout=False, redirect_stderr=False
    )


@contextmanager
def _live(bar: RichProgress) -> Iterator[None]:
    """While `bar` is shown, other bars go below it: a terminal has room for one."""
    global _shown
    before, _shown = _shown, bar
    try:
        yield
    finally:
        _shown = before


class _CompilingBar:
    """Shows at a terminal that a kernel is compiled: below the bar of the command, if there is
    one."""

    def __init__(self) -> None:
        self._shown: tuple[RichProgress, TaskID, bool] | None = None

    def show(self, name: str | None) -> None:
        """Shows a bar for the kernel `name`; None takes it away."""
        if name is None:
            self._end()
        elif sys.stderr.isatty():
            self._begin(name)

    def _begin(self, name: str) -> None:
        bar, is_own = _shown, _shown is None
        if bar is None:
            from rich.progress import BarColumn, TextColumn, TimeElapsedColumn

            columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
            bar = _new_bar(*columns)
            bar.start()
        task = bar.add_task(f"compiling for this machine, once: {name}", total=None, messages=0)
        self._shown = bar, task, is_own

    def _end(self) -> None:
        if self._shown is None:
            return
        bar, task, is_own = self._shown
        self._shown = None
        bar.remove_task(task)
        if is_own:
            bar.stop()


def show_compiling() -> None:
    """Shows from now on at the terminal what is compiled."""
    work_time.show_compiling(_CompilingBar().show)
