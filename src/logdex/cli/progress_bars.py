"""A progress bar on stderr for a long command: messages, bytes per second, time left.

Shows nothing if stderr is not a terminal.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from logdex.jobs.reports import Progress

if TYPE_CHECKING:
    from rich.console import Console


def _ignore(messages: int, done_bytes: int) -> None:
    """Ignores progress that is not shown."""


@contextmanager
def progress_bar(what: str, total_bytes: int, console: Console | None = None) -> Iterator[Progress]:
    """Shows a bar from 0 to `total_bytes` until the block ends. Returns the function that advances
    it, which any thread may call. `console` replaces stderr."""
    if console is None and not sys.stderr.isatty():
        yield _ignore
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, TextColumn, TimeRemainingColumn, TransferSpeedColumn
    from rich.progress import Progress as RichProgress

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[messages]:,} messages"),
        DownloadColumn(binary_units=True),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    # By default Rich would redirect what the command prints to the bar's terminal, even if stdout
    # is redirected.
    bar = RichProgress(
        *columns, console=console or Console(stderr=True), transient=True, redirect_stdout=False, redirect_stderr=False
    )
    with bar:
        task = bar.add_task(what, total=total_bytes or None, messages=0)

        def move(messages: int, done_bytes: int) -> None:
            bar.update(task, completed=done_bytes, messages=messages)

        yield move
