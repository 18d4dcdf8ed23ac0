"""Cut and flipped files through the command line: an exit code, a clear line, nothing written, no hang.

Every file of a small store is cut at many places, and bytes all over it are flipped, seeded; each harm goes through one
of the commands. The slow test does 10,000 flips.
"""

from __future__ import annotations

import errno
import itertools
import os
import random
import resource
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests import golden
from tests.cli.helpers import run, tree_hash

STORES = ["tiny-broker", "tiny-4.9.7"]
SECONDS_MAX = 20
MEMORY_GROWTH_MAX = 300 << 20
COMMANDS = ("info", "cat", "query", "verify", "rebuild")
CUTS_PER_FILE = 6


@dataclass(frozen=True)
class Store:
    """A store that is harmed and mended again, and a key to ask for."""

    root: Path
    topic: str
    key: str
    files: list[Path]


@pytest.fixture(scope="module", params=STORES)
def store(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Store:
    name: str = request.param
    root = golden.unpack(name, tmp_path_factory.mktemp("harmed"))
    asked = next(asked for asked in golden.manifest(name)["queries"] if asked["exact"] and asked["indexType"] is None)
    files = sorted(path for path in root.rglob("*") if path.is_file() and "rocksdb" not in str(path))
    return Store(root, asked["topic"], asked["key"], files)


def arguments(store: Store, command: str, out: Path) -> list[object]:
    more: dict[str, list[object]] = {
        "query": ["--topic", store.topic, "--key", store.key, "--scan-missing"],
        "rebuild": ["--output", out, "--no-sync"],
    }
    return [command, store.root, *more.get(command, [])]


def check(store: Store, command: str, out: Path, harm: str) -> None:
    """Runs a command on the harmed store: an exit code and clear lines in time, and nothing is written there."""
    before = tree_hash(store.root)
    begin = time.monotonic()
    result = run(*arguments(store, command, out))
    seconds = time.monotonic() - begin
    told = f"{command} after {harm}: exit {result.exit_code}\n{result.stderr}"
    assert result.exit_code in (0, 1, 2, 3), told
    assert "Traceback" not in result.output, told
    assert "this is a bug" not in result.stderr, told
    assert result.exit_code == 0 or result.output.strip(), told
    if result.exit_code == 2:
        assert result.stderr.startswith("logdex: "), told
        assert len(result.stderr.splitlines()) <= 2, told
    assert seconds < SECONDS_MAX, told
    assert tree_hash(store.root) == before, told
    shutil.rmtree(out, ignore_errors=True)


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
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def cuts(size: int) -> list[int]:
    return sorted(
        {0, 1, size - 1, *(size * part // CUTS_PER_FILE for part in range(1, CUTS_PER_FILE))} & set(range(size))
    )


def test_cut_files(store: Store, tmp_path: Path) -> None:
    turn = itertools.cycle(COMMANDS)
    for path in store.files:
        data = path.read_bytes()
        for size in cuts(len(data)):
            with harmed(path, data[:size]):
                check(store, next(turn), tmp_path / "out", f"{path.relative_to(store.root)} cut to {size} bytes")


def test_cut_log(store: Store, tmp_path: Path) -> None:
    """The log's first file, cut within and between its first messages, through every command."""
    path = next(path for path in store.files if path.parent.name == "commitlog")
    data = path.read_bytes()
    for size in (*range(0, 260, 23), 700, len(data) // 2):
        with harmed(path, data[:size]):
            for command in COMMANDS:
                check(store, command, tmp_path / "out", f"the log cut to {size} bytes")


def test_missing_files(store: Store, tmp_path: Path) -> None:
    for path in store.files:
        with harmed(path, None):
            for command in COMMANDS:
                check(store, command, tmp_path / "out", f"{path.relative_to(store.root)} removed")


def flips(store: Store, count: int, seed: int) -> Iterator[tuple[Path, int, int]]:
    """(file, byte, mask): half of them among the bytes that are in use, which are few."""
    chance = random.Random(seed)
    used = {path: [at for at, value in enumerate(path.read_bytes()) if value] for path in store.files}
    sized = [path for path in store.files if path.stat().st_size]
    for _ in range(count):
        path = chance.choice(sized)
        size = path.stat().st_size
        at = chance.choice(used[path]) if used[path] and chance.random() < 0.7 else chance.randrange(size)
        yield path, at, chance.choice((0xFF, 0x80, 1 << chance.randrange(8)))


def check_flips(store: Store, tmp_path: Path, count: int, seed: int) -> None:
    growth_from = peak_bytes()
    for command, (path, at, mask) in zip(itertools.cycle(COMMANDS), flips(store, count, seed), strict=False):
        data = path.read_bytes()
        with harmed(path, data[:at] + bytes([data[at] ^ mask]) + data[at + 1 :]):
            check(store, command, tmp_path / "out", f"{path.relative_to(store.root)} byte {at} ^ {mask:#x}")
    assert peak_bytes() - growth_from < MEMORY_GROWTH_MAX


def test_flips(store: Store, tmp_path: Path) -> None:
    check_flips(store, tmp_path, 200, seed=1)


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("seed", range(2, 12))
def test_many_flips(store: Store, tmp_path: Path, seed: int) -> None:
    check_flips(store, tmp_path, 500, seed)


@pytest.mark.parametrize("command", ["info", "cat", "verify", "rebuild"])
def test_an_unreadable_file_is_one_clear_line(
    command: str, golden_copy: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = golden_copy("tiny-crash")
    open_file = os.open

    def refuse(path: str, flags: int, *more: Any, **named: Any) -> int:
        if str(path).endswith(f"commitlog/{0:020d}"):
            raise PermissionError(errno.EACCES, "Permission denied", path)
        return open_file(path, flags, *more, **named)

    monkeypatch.setattr("logdex.io.env.os.open", refuse)  # modes do not keep root from reading
    more = ["--output", tmp_path / "out"] if command == "rebuild" else []
    result = run(command, store, *more)
    assert result.exit_code == 2
    lines = result.stderr.splitlines()
    assert f"commitlog/{0:020d}: permission denied" in lines[0]
    assert lines[1:] == ["        check the owner and the mode of the file"]


def test_a_missing_middle_file(golden_copy: Any, tmp_path: Path) -> None:
    store, name = golden_copy("tiny-5.5.0"), f"{32768:020d}"
    (store / "commitlog" / name).unlink()
    cat, verify = run("cat", store), run("verify", store)
    rebuild = run("rebuild", store, "-o", tmp_path / "out")
    assert (cat.exit_code, verify.exit_code, rebuild.exit_code) == (1, 1, 3)
    assert f"the file {name} is missing" in cat.stderr
    assert name in verify.stdout
    assert name in rebuild.stderr
