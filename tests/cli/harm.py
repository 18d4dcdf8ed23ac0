"""Harming the files of a store or log directory and running commands on it: what must hold of each
run."""

from __future__ import annotations

import resource
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from tests.directories import contents, tree_hash

SECONDS_MAX = 20


class Run(NamedTuple):
    """How a command ended; `output` are the files that it wrote to its --output, by path."""

    exit_code: int
    stdout: str
    stderr: str
    output: dict[str, bytes]

    def told(self) -> str:
        return f"exit {self.exit_code}\n{self.stdout[-2000:]}\n{self.stderr[-2000:]}"


def take_output(folder: Path) -> dict[str, bytes]:
    """Path below `folder` → bytes of all files; the folder is gone then."""
    if not folder.exists():
        return {}
    found = contents(folder)
    shutil.rmtree(folder)
    return found


def check_run(root: Path, work: Callable[[], Run], name: str) -> Run:
    """Runs a command on what lies harmed in `root`: an exit code and clear lines in little CPU
    time, and nothing is written there. `name` says what was run and on what, where it fails."""
    before, begin = tree_hash(root), time.process_time()
    result = work()
    seconds = time.process_time() - begin
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


def flipped(path: Path, at: int, mask: int) -> bytes:
    """The file's bytes with one byte changed."""
    data = path.read_bytes()
    return data[:at] + bytes([data[at] ^ mask]) + data[at + 1 :]
