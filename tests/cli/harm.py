"""Harming a store's files and running commands on it: what must hold of each run, and a snapshot that shows a write."""

from __future__ import annotations

import random
import resource
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from tests import golden
from tests.cli.helpers import run
from tests.cli.tiny_stores import TINY
from tests.directories import contents, tree_hash

COMMANDS = ("info", "cat", "query", "verify", "rebuild")
SECONDS_MAX = 20


class Run(NamedTuple):
    """How a command ended; `output` are the files that it wrote to its --output, by path."""

    exit_code: int
    stdout: str
    stderr: str
    output: dict[str, bytes]

    def told(self) -> str:
        return f"exit {self.exit_code}\n{self.stdout[-2000:]}\n{self.stderr[-2000:]}"


@dataclass(frozen=True)
class Store:
    """A store that is harmed and mended again, a key to ask for, and what is answered while it is whole."""

    root: Path
    topic: str
    key: str
    files: list[Path]
    out: Path
    whole: dict[str, Run] = field(default_factory=dict)

    def name(self, path: Path) -> str:
        return str(path.relative_to(self.root))


def unpack(name: str, folder: Path) -> Store:
    """A store by its name, golden or one of `TINY`, ready to be harmed."""
    if name in TINY:
        root, topic, key = TINY[name](folder / "store")
    else:
        root = golden.unpack(name, folder)
        queries = golden.manifest(name)["queries"]
        asked = next(asked for asked in queries if asked["exact"] and asked["indexType"] is None)
        topic, key = asked["topic"], asked["key"]
    files = sorted(path for path in root.rglob("*") if path.is_file() and "rocksdb" not in str(path))
    store = Store(root, topic, key, files, folder / "out")
    for command in COMMANDS:
        store.whole[command] = run_on(store, command)
    return store


def arguments(store: Store, command: str) -> list[object]:
    more: dict[str, list[object]] = {
        "query": ["--topic", store.topic, "--key", store.key, "--scan-missing"],
        "rebuild": ["--output", store.out, "--no-sync"],
    }
    return [command, store.root, *more.get(command, [])]


def run_on(store: Store, command: str) -> Run:
    """One of `COMMANDS` on a store, and what it wrote."""
    return Run(*run(*arguments(store, command)), take_output(store.out))


def take_output(folder: Path) -> dict[str, bytes]:
    """Path below `folder` → bytes of all files; the folder is gone then."""
    if not folder.exists():
        return {}
    found = contents(folder)
    shutil.rmtree(folder)
    return found


def check(store: Store, command: str, harm: str) -> Run:
    """Runs a command on the harmed store; what must hold of every run holds."""
    result = check_run(store.root, lambda: run_on(store, command), f"{command} after {harm}")
    told = tell(command, harm, result)
    if result.exit_code == 2:
        assert result.stderr.startswith(f"logdex: {store.root}"), told
        assert len(result.stderr.splitlines()) <= 2, told
    return result


def check_run(root: Path, work: Callable[[], Run], name: str) -> Run:
    """Runs a command on what lies harmed in `root`: an exit code and clear lines in time, and nothing is written there.
    `name` says what was run and on what, where it fails."""
    before, begin = tree_hash(root), time.monotonic()
    result = work()
    seconds = time.monotonic() - begin
    told = f"{name}: {result.told()}"
    assert result.exit_code in (0, 1, 2, 3), told
    assert "Traceback" not in result.stdout + result.stderr, told
    assert "this is a bug" not in result.stderr, told
    assert result.exit_code == 0 or (result.stdout + result.stderr).strip(), told
    assert result.exit_code != 2 or result.stderr.startswith("logdex: "), told
    assert seconds < SECONDS_MAX, told
    assert tree_hash(root) == before, told
    return result


def tell(command: str, harm: str, result: Run) -> str:
    return f"{command} after {harm}: {result.told()}"


@contextmanager
def harmed(path: Path, data: bytes | None) -> Iterator[None]:
    """A file with other bytes, or removed, until the block ends."""
    whole = path.read_bytes()
    try:
        path.unlink() if data is None else path.write_bytes(data)
        yield
    finally:
        path.write_bytes(whole)


def peak_bytes() -> int:
    """The most memory that this process has had."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def flips(store: Store, count: int, seed: int) -> Iterator[tuple[Path, int, int]]:
    """(file, byte, mask): most of them among the bytes that are in use, which are few."""
    chance = random.Random(seed)
    used = {path: [at for at, value in enumerate(path.read_bytes()) if value] for path in store.files}
    sized = [path for path in store.files if path.stat().st_size]
    for _ in range(count):
        path = chance.choice(sized)
        size = path.stat().st_size
        at = chance.choice(used[path]) if used[path] and chance.random() < 0.7 else chance.randrange(size)
        yield path, at, chance.choice((0xFF, 0x80, 1 << chance.randrange(8)))


def flipped(path: Path, at: int, mask: int) -> bytes:
    """The file's bytes with one byte changed."""
    data = path.read_bytes()
    return data[:at] + bytes([data[at] ^ mask]) + data[at + 1 :]
