"""Jobs that work until they are stopped: by Ctrl-C or SIGTERM, after which they end in good
order."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

SIGNAL_EXIT = 128
"""What is added to a signal's number to make the exit code."""


class Stoppable(Protocol):
    """A job that `stop` ends soon."""

    def stop(self) -> None:
        """Ends the job soon; safe in a signal handler."""


@contextmanager
def stopped_by_signals(job: Stoppable) -> Iterator[list[int]]:
    """Lets Ctrl-C and SIGTERM stop the job instead of the process. Yields the signals that came."""
    came: list[int] = []

    def stop(number: int, _: object) -> None:
        came.append(number)
        job.stop()

    if threading.current_thread() is not threading.main_thread():  # others cannot set signal handlers
        yield came
        return
    former = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield came
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)
