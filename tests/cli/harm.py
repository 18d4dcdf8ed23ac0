"""Harming a store's files and running commands on it: what must hold of each run, and a snapshot that shows a write."""

from __future__ import annotations

import hashlib
import io
import os
import random
import resource
import shutil
import stat
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import typer

from logdex.cli import app
from tests import golden
from tests.cli.tiny_stores import TINY

COMMANDS = ("info", "cat", "query", "verify", "rebuild")
SECONDS_MAX = 20


class Run(NamedTuple):
    """How a command ended; `output` are the files that it wrote to its --output, by path."""

    exit_code: int
    stdout: str
    stderr: str
    output: dict[str, bytes]


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
        store.whole[command] = run_fast(store, command)
    return store


def arguments(store: Store, command: str) -> list[object]:
    more: dict[str, list[object]] = {
        "query": ["--topic", store.topic, "--key", store.key, "--scan-missing"],
        "rebuild": ["--output", store.out, "--no-sync"],
    }
    return [command, store.root, *more.get(command, [])]


@cache
def command_line() -> Any:
    """The command line as Typer makes it, which takes longer than most commands here."""
    return typer.main.get_command(app)


def run_fast(store: Store, command: str) -> Run:
    """One of `COMMANDS` on a store in this process, as `helpers.run`, the command line made once."""
    streams = [io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2)]
    code: Any = 0
    with redirect_stdout(streams[0]), redirect_stderr(streams[1]):
        try:
            command_line().main(args=[str(word) for word in arguments(store, command)], prog_name="logdex")
        except SystemExit as end:
            code = end.code or 0
    out, err = (stream.buffer.getvalue().decode() for stream in streams)
    return Run(code, out, err, take_output(store.out))


def take_output(folder: Path) -> dict[str, bytes]:
    """Path below `folder` → bytes of all files; the folder is gone then."""
    if not folder.exists():
        return {}
    found = {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    shutil.rmtree(folder)
    return found


def check(store: Store, command: str, harm: str) -> Run:
    """Runs a command on the harmed store: an exit code and clear lines in time, and nothing is written there."""
    before = fingerprint(store.root)
    begin = time.monotonic()
    result = run_fast(store, command)
    seconds = time.monotonic() - begin
    told = tell(command, harm, result)
    assert result.exit_code in (0, 1, 2, 3), told
    assert "Traceback" not in result.stdout + result.stderr, told
    assert "this is a bug" not in result.stderr, told
    assert result.exit_code == 0 or (result.stdout + result.stderr).strip(), told
    if result.exit_code == 2:
        assert result.stderr.startswith(f"logdex: {store.root}"), told
        assert len(result.stderr.splitlines()) <= 2, told
    assert seconds < SECONDS_MAX, told
    assert fingerprint(store.root) == before, told
    return result


def fingerprint(root: Path) -> bytes:
    """As `helpers.tree_hash`, faster: a digest over names, modes, times and bytes of everything below `root`."""
    digest = hashlib.sha256()
    for folder, folders, names in os.walk(root):
        folders.sort()
        for name in [".", *sorted(names)]:
            path = f"{folder}/{name}"
            status = os.lstat(path)
            digest.update(
                f"{path}\0{status.st_mode}\0{status.st_mtime_ns}\0{status.st_size}\0".encode("utf-8", "surrogateescape")
            )
            if stat.S_ISREG(status.st_mode):
                digest.update(Path(path).read_bytes())
    return digest.digest()


def tell(command: str, harm: str, result: Run) -> str:
    return f"{command} after {harm}: exit {result.exit_code}\n{result.stdout[-2000:]}\n{result.stderr}"


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
