"""Measures time and memory, and compares outputs."""

from __future__ import annotations

import filecmp
import os
import re
import shutil
import statistics
import subprocess
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Work = Callable[[], object]


def timed(call: Callable[[], object], repeats: int, between: Callable[[], object] = lambda: None) -> list[float]:
    """The seconds of each of `repeats` runs; `between` is called before each, uncounted."""
    seconds = []
    for _ in range(repeats):
        between()
        start = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - start)
    return seconds


def summary(seconds: list[float]) -> dict[str, float]:
    """Best and median, in seconds."""
    return {"best_s": round(min(seconds), 4), "median_s": round(statistics.median(seconds), 4)}


@dataclass(slots=True)
class Rates:
    """How many of its `units` a `call` completes per second, by the clock and by the thread's CPU
    time.

    CPU time is more reliable on a shared machine. The first call, which fills caches, is not
    counted, nor are more calls until `warm_s` seconds are over.
    """

    what: str
    units: float
    call: Callable[[], object]
    between: Callable[[], object] = lambda: None
    """Called before each call, uncounted."""
    warm_s: float = 0.0
    wall: list[float] = field(default_factory=list)
    on_core: list[float] = field(default_factory=list)

    def measure(self, repeats: int) -> None:
        """Adds `repeats` samples."""
        begin, is_warm, left = time.perf_counter(), False, repeats
        while left:
            self.between()
            start, start_on_core = time.perf_counter(), time.thread_time()
            self.call()
            seconds, seconds_on_core = time.perf_counter() - start, time.thread_time() - start_on_core
            if not is_warm:
                is_warm = start + seconds >= begin + self.warm_s
            else:
                left -= 1
                self.wall.append(self.units / seconds)
                self.on_core.append(self.units / max(seconds_on_core, 1e-9))

    @property
    def median(self) -> float:
        """Units per second, by the clock."""
        return statistics.median(self.wall)

    def summary(self, unit: float) -> dict[str, float]:
        """Median and best by the clock, median by CPU time, in `unit` per second."""
        figures = {"median": self.median, "best": max(self.wall), "on_core": statistics.median(self.on_core)}
        return {name: round(value / unit, 3) for name, value in figures.items()}


def in_turns(
    what: str, ours: Work, other: Work, repeats: int, bar: float, fresh: Work = lambda: None
) -> dict[str, Any]:
    """Measures two kinds of work in turns. The ratio is how many times as fast ours is, of the best
    runs."""
    mine, theirs = list[float](), list[float]()
    for number in range(repeats + 1):
        found = timed(ours, 1, fresh), timed(other, 1, fresh)
        if number:  # the first ones fill caches
            mine += found[0]
            theirs += found[1]
    ratio = round(min(theirs) / min(mine), 2)
    row = {"what": what, **summary(mine), "other_best_s": round(min(theirs), 4), "ratio": ratio}
    return judged(row, "ratio", ratio, bar)


def judged(row: dict[str, Any], name: str, value: float, bar: float, *, at_most: bool = False) -> dict[str, Any]:
    """A row with a figure, its bar, and whether it is met: by at least the bar, or at most."""
    is_met = value <= bar if at_most else value >= bar
    shown = round(value, 4 if at_most else 2) if bar < 1000 else round(value)
    return row | {name: shown, "bar": bar, "met": "yes" if is_met else "NO"}


def anonymous_bytes() -> int:
    """The anonymous memory of this process (Linux; else 0)."""
    return _anonymous_bytes(os.getpid())


def remove(path: Path) -> None:
    """Removes a directory tree, if it exists."""
    shutil.rmtree(path, ignore_errors=True)


def same_derived(ours: Path, theirs: Path) -> tuple[int, int]:
    """(identical, all) ConsumeQueue files and IndexFiles of two stores. IndexFiles are paired by
    their order."""
    pairs = []
    for folder in ("consumequeue", "index"):
        a, b = (sorted(p for p in (root / folder).rglob("*") if p.is_file()) for root in (ours, theirs))
        if folder == "consumequeue":
            a_names, b_names = ([p.relative_to(root) for p in files] for root, files in ((ours, a), (theirs, b)))
            pairs += [(ours / name, theirs / name) for name in sorted({*a_names, *b_names})]
        else:
            pairs += list(zip(a, b, strict=False)) + [(p, p / "missing") for p in (a + b)[2 * min(len(a), len(b)) :]]
    return sum(_same(a, b) for a, b in pairs), len(pairs)


def _same(a: Path, b: Path) -> bool:
    return a.is_file() and b.is_file() and filecmp.cmp(a, b, shallow=False)


class AnonymousMemory:
    """The peak anonymous memory of all Python processes below this one, sampled during the block
    (Linux)."""

    def __init__(self, pid: int) -> None:
        self.peak_bytes = 0
        self._pid = pid
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> AnonymousMemory:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._stop.wait(0.02):
            self.peak_bytes = max(self.peak_bytes, sum(map(_anonymous_bytes, _python_processes(self._pid))))


def _python_processes(root: int) -> list[int]:
    listing = subprocess.run(["ps", "-eo", "pid,ppid,comm"], capture_output=True, text=True, check=False).stdout
    rows = [line.split(None, 2) for line in listing.splitlines()[1:]]
    parents = {int(pid): (int(parent), name) for pid, parent, name in rows}
    below, grown = {root}, True
    while grown:
        more = {pid for pid, (parent, _) in parents.items() if parent in below} - below
        below |= more
        grown = bool(more)
    return [pid for pid in below if "python" in parents.get(pid, (0, ""))[1]]


def _anonymous_bytes(pid: int) -> int:
    try:
        text = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    found = re.search(r"RssAnon:\s+(\d+) kB", text)
    return int(found.group(1)) * 1024 if found else 0
