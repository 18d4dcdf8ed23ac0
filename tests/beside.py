"""An `Env` beside which something else changes files, as a running broker does."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from logdex.io.env import Env, ReadFile
from tests.directories import contents
from tests.examples import some


class Beside(Env):
    """Calls `act` once, right before the `number`-th opening of a file whose path ends with
    `suffix`. What a job itself has written is not counted."""

    def __init__(self, suffix: str, act: Callable[[], object], number: int = 1) -> None:
        super().__init__()
        self._suffix, self._act, self._left = suffix, act, number

    @property
    def has_acted(self) -> bool:
        return not self._left

    def open_read(self, path: str) -> ReadFile:
        if self._left and path.endswith(self._suffix) and "/.logdex-" not in path:
            self._left -= 1
            if not self._left:
                self._act()
        return super().open_read(path)


class At(Env):
    """Acts before the n-th operation, if there are so many."""

    def __init__(self, number: int, act: Callable[[], object]) -> None:
        super().__init__()
        self.left, self._act = number, act

    @contextmanager
    def operation(self, kind: str, path: str) -> Iterator[None]:
        self.left -= 1
        if self.left == 0:
            self._act()
        with super().operation(kind, path):
            yield


class Retention(Env):
    """Acts before the `first`-th operation and before each `step`-th one behind it, as a broker
    does that keeps removing old files. `count` counts the operations."""

    def __init__(self, first: int, step: int, act: Callable[[], object]) -> None:
        super().__init__()
        self.count, self._first, self._step, self._act = 0, first, step, act

    @contextmanager
    def operation(self, kind: str, path: str) -> Iterator[None]:
        self.count += 1
        if self.count >= self._first and not (self.count - self._first) % self._step:
            self._act()
        with super().operation(kind, path):
            yield


def retentions(
    source: Path, work: Path, step: int, count: int, remove_oldest: Callable[[Path], object]
) -> Iterator[tuple[Path, Path, Retention]]:
    """Yields a copy of `source`, a path for an output and an Env that keeps removing the oldest
    file of the copy from an operation on, for some of `count` operations."""
    for first in some(range(1, count + 1, 7), 9):
        root, output = Path(shutil.copytree(source, work / f"copy-{first}")), work / f"out-{first}"
        yield root, output, Retention(first, step, partial(remove_oldest, root))
        shutil.rmtree(root)
        shutil.rmtree(output)


def become(root: Path, after: Path) -> None:
    """Gives `root` the files of `after`. Those that differ are written over in place, as by a
    broker that cuts its log when it recovers, and goes on."""
    wanted = contents(after)
    for name, data in contents(root).items():
        if name not in wanted:
            (root / name).unlink()
        elif data != wanted[name]:
            with (root / name).open("r+b") as file:
                file.write(wanted[name])
                file.truncate()
    for path in sorted(root.rglob("*"), reverse=True):
        if path.is_dir() and not (after / path.relative_to(root)).is_dir():
            path.rmdir()
    for name in wanted.keys() - contents(root).keys():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(wanted[name])
