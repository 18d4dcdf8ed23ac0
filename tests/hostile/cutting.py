"""Readers whose files are truncated while they read, in a process of their own: it must not die.

Each reader is a function of a root and an Env, which gives its rows one by one, comparable with ==.
Rows of a run in which a file was cut must be rows of the run in which none was; else an error of
Logdex ends it.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from logdex.errors import LogdexError, UnreadableError
from logdex.io.env import Env, MappedBytes, ReadFile

ROOT = Path(__file__).resolve().parents[2]
Reader = Callable[[Path, Env], Iterator[Any]]


class CuttingEnv(Env):
    """Truncates a file below `root` to a part of its size: after it was opened or mapped for the
    `at`-th time, counted from 1 over all files; -1 for never."""

    def __init__(self, root: Path, at: int, part: float) -> None:
        super().__init__()
        self.opened = 0
        self._root, self._at, self._part = str(root), at, part

    def _cut(self, path: str) -> None:
        if not os.path.realpath(path).startswith(self._root):
            return
        self.opened += 1
        if self.opened == self._at:
            os.truncate(path, int(os.path.getsize(path) * self._part))

    def open_read(self, path: str) -> ReadFile:
        file = super().open_read(path)
        own = file.map

        def map_and_cut(*, partly: bool = False) -> MappedBytes:
            mapped = own(partly=partly)
            self._cut(path)
            return mapped

        file.map = map_and_cut  # type: ignore[method-assign]
        self._cut(path)
        return file


class Cuts:
    """Runs the readers on copies of one sound directory, and counts how their runs ended."""

    def __init__(self, sound: Path, readers: dict[str, Reader], seed: int) -> None:
        self.sound = sound
        self.root = sound.parent / "cut"
        self.readers = readers
        self.chance = random.Random(seed)
        self.counts: Counter[str] = Counter()
        self.wrong: list[str] = []
        self._expected: dict[str, list[Any]] = {}
        self._opened: dict[str, int] = {}
        self._seconds: dict[str, float] = {}
        for name, reader in readers.items():
            self._renew()
            env = CuttingEnv(self.root, -1, 0)
            self._expected[name] = [*reader(self.root, Env())]  # compiles
            self._renew()
            start = time.perf_counter()
            assert [*reader(self.root, env)] == self._expected[name], name
            self._seconds[name] = time.perf_counter() - start
            self._opened[name] = env.opened

    def _renew(self) -> None:
        shutil.rmtree(self.root, ignore_errors=True)
        shutil.copytree(self.sound, self.root)

    def at_each_open(self, parts: tuple[float, ...], most: int) -> None:
        """Cuts a file just after it was opened or mapped: at most at `most` of the times it is."""
        for name in self.readers:
            times = range(1, self._opened[name] + 1)
            for at in times if len(times) <= most else sorted(self.chance.sample(times, most)):
                for part in parts:
                    self._run(f"{name} cut at open {at} to {part}", name, CuttingEnv(self.root, at, part))

    def at_random(self, trials: int) -> None:
        """Cuts random files while a reader runs."""
        files = [path.relative_to(self.sound) for path in self.sound.rglob("*") if path.is_file()]
        for number in range(trials):
            for name in self.readers:
                self._renew()
                path = self.root / self.chance.choice(files)
                size = int(path.stat().st_size * self.chance.random())
                delay = self.chance.random() * self._seconds[name]
                cutter = threading.Thread(target=_cut_later, args=(path, size, delay))
                cutter.start()
                self._run(f"{name} trial {number}: {path.name} cut to {size} after {delay:.4f} s", name, Env(), False)
                cutter.join()

    def between_rows(self, trials: int) -> None:
        """Cuts a random file between two rows of a reader, whose rows so far the caller still
        holds."""
        files = [path.relative_to(self.sound) for path in self.sound.rglob("*") if path.is_file()]
        for number in range(trials):
            for name in self.readers:
                path = self.root / self.chance.choice(files)
                row = self.chance.randrange(max(len(self._expected[name]), 1))
                what = f"{name} trial {number}: {path.name} cut at row {row}"
                self._run(what, name, Env(), between=(row, path, self.chance.random()))

    def _run(
        self, what: str, name: str, env: Env, renew: bool = True, between: tuple[int, Path, float] | None = None
    ) -> None:
        if renew:
            self._renew()
        print(what, file=sys.stderr, flush=True)
        rows: list[Any] = []
        try:
            for row in self.readers[name](self.root, env):
                if between is not None and len(rows) == between[0] and between[1].exists():
                    os.truncate(between[1], int(between[1].stat().st_size * between[2]))
                rows.append(row)
            ended = "all" if rows == self._expected[name] else "fewer"
        except LogdexError as error:
            ended = type(error).__name__
        except Exception as error:
            ended = "raised"
            self.wrong.append(f"{what}: {error!r}")
        known = self._expected[name]
        strange = [row for row in rows if row not in known]
        if strange:
            self.wrong.append(
                f"{what}: ended {ended}, {len(strange)} rows that are not in the log: {strange[0]!r:.300}"
            )
        self.counts[f"{name}: {ended}"] += 1


def until_error(items: Iterable[Any]) -> tuple[list[Any], UnreadableError]:
    """The items before an UnreadableError, and the error."""
    found: list[Any] = []
    try:
        found.extend(items)
    except UnreadableError as error:
        return found, error
    raise AssertionError(f"no error behind {len(found)} items")


def _cut_later(path: Path, size_bytes: int, delay: float) -> None:
    time.sleep(delay)
    if path.exists():
        os.truncate(path, size_bytes)


def main(make: Callable[[Path], Path], readers: dict[str, Reader]) -> None:
    """The program that `run_apart` runs. `make` writes the directory that is read. The arguments
    are a folder, a seed, and how many openings and trials; what a parent reads is printed."""
    folder, seed, opens, trials = Path(sys.argv[1]), *map(int, sys.argv[2:5])
    cuts = Cuts(make(folder / "sound"), readers, seed)
    cuts.at_each_open((0.0, 0.31, 0.77), opens)
    cuts.at_random(trials)
    cuts.between_rows(trials)
    print(json.dumps({"counts": cuts.counts, "wrong": cuts.wrong}))


def run_apart(module: str, folder: Path, *arguments: object) -> dict[str, Any]:
    """Runs a module of cut readers in a process of its own; fails with what it did last if it
    dies."""
    command = [sys.executable, "-m", module, str(folder), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    last = "\n".join(done.stderr.splitlines()[-12:])
    assert done.returncode == 0, f"exit {done.returncode}; the last lines: {last}"
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    assert found["wrong"] == [], "\n".join(found["wrong"][:20])
    return found
