"""The time of work, for the rates that reports state."""

from __future__ import annotations

import time
from collections.abc import Callable

from logdex.kernels.compiled import Compiling, compiling, load


def work_seconds() -> float:
    """Returns the seconds of a clock that stands while kernels are compiled for this machine, which
    happens once and says nothing of the work."""
    return time.perf_counter() - compiling.seconds


def show_compiling(show: Callable[[str | None], None]) -> None:
    """Has `show` called with the name of each kernel that is compiled, and with None behind it."""
    compiling.show = show


def use_kernels() -> Compiling:
    """Has all work done by kernels from now on, however little it is. Returns what was compiled,
    which goes on counting."""
    load()
    return compiling
