"""Stores that are harmed while commands run on them."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.cli.harm import Run, check_run, take_output, tell
from tests.cli.helpers import run
from tests.cli.rocketmq.tiny_stores import TINY
from tests.golden import rocketmq as golden

COMMANDS = ("info", "cat", "query", "verify", "rebuild")


@dataclass(frozen=True)
class Store:
    """A store that is harmed and mended again, a key to ask for, and what is answered while it is
    whole."""

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


def check(store: Store, command: str, harm: str) -> Run:
    """Runs a command on the harmed store; what must hold of every run holds."""
    result = check_run(store.root, lambda: run_on(store, command), f"{command} after {harm}")
    told = tell(command, harm, result)
    if result.exit_code == 2:
        assert result.stderr.startswith(f"logdex: {store.root}"), told
        assert len(result.stderr.splitlines()) <= 2, told
    return result


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
