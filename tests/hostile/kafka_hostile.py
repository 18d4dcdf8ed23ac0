"""All commands, the library and `Log.open` on a Kafka directory of crafted bytes: what must hold of each."""

from __future__ import annotations

import io
import resource
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple

from logdex.errors import LogdexError
from logdex.kafka.log import Log
from logdex.kafka.log_dir_snapshot import open_kafka
from logdex.kafka.record import Record
from tests.cli.harm import command_line, fingerprint

SECONDS_MAX = 60
"""Generous: of a command, kernels compiled, on a busy machine."""
GROWTH_MAX = 900 << 20
"""What a decompression may take: twice the bound of a batch, and room for what the first calls load."""


class Told(NamedTuple):
    """How a command ended."""

    exit_code: int
    stdout: str
    stderr: str


@contextmanager
def bounded(growth_max: int = GROWTH_MAX, seconds: float = SECONDS_MAX) -> Iterator[None]:
    """Fails where the block takes more time, or the process's peak grows by more."""
    unit = 1 if sys.platform == "darwin" else 1024
    peak, begin = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit, time.monotonic()
    yield
    assert time.monotonic() - begin < seconds
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit - peak < growth_max


def command(*words: object) -> Told:
    """``logdex WORDS`` in this process: no traceback, no bug, a clear line where it does not end well."""
    streams = [io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2)]
    code: Any = 0
    begin = time.monotonic()
    with redirect_stdout(streams[0]), redirect_stderr(streams[1]):
        try:
            command_line().main(args=[str(word) for word in words], prog_name="logdex")
        except SystemExit as end:
            code = end.code or 0
    told = Told(code, *(stream.buffer.getvalue().decode() for stream in streams))
    assert told.exit_code in (0, 1, 2, 3), (words, told)
    assert "Traceback" not in told.stderr, (words, told)
    assert "this is a bug" not in told.stderr, (words, told)
    assert told.exit_code == 0 or (told.stdout + told.stderr).strip(), (words, told)
    assert time.monotonic() - begin < SECONDS_MAX, words
    return told


def every_way(root: Path, topic: str = "events") -> dict[str, Told]:
    """All commands on a log directory, Arrow, and `Log.open` on a copy; the directory is as it was then."""
    before = fingerprint(root)
    out = root.parent / f"out-{root.name}"
    place = ["--topic", topic, "--partition", "0"]
    ways: dict[str, list[object]] = {
        "info": ["info", root],
        "info --json": ["info", root, "--json"],
        "cat": ["cat", root, "--json", "--control"],
        "cat committed": ["cat", root, "--isolation-level", "read_committed"],
        "get": ["get", root, *place, "--offset", "0", "--count", "5"],
        "get by time": ["get", root, *place, "--time", "1500", "--count", "5"],
        "query": ["query", root, "--topic", topic, "--key", "k"],
        "verify": ["verify", root],
        "rebuild": ["rebuild", root, "-o", f"{out}-rebuilt", "--no-sync", "--key-index"],
        "recover": ["recover", root, "-o", f"{out}-recovered", "--no-sync"],
    }
    with bounded(seconds=10 * SECONDS_MAX):
        found = {name: command(*words) for name, words in ways.items()}
        try:
            with open_kafka(str(root)) as snapshot:
                snapshot.scan(control=True).to_arrow().read_all().validate(full=True)
        except LogdexError:
            pass  # told
        assert fingerprint(root) == before
        open_copy(root, topic)
    for name in ("rebuilt", "recovered"):
        shutil.rmtree(f"{out}-{name}", ignore_errors=True)
    return found


def open_copy(root: Path, topic: str) -> None:
    """`Log` on a copy of one partition: it opens, reads and takes a record, or says what is wrong."""
    copy = root.parent / f"copy-{root.name}"
    shutil.copytree(root / f"{topic}-0", copy / f"{topic}-0", symlinks=True, ignore=_odd_files)
    try:
        with Log.open(str(copy / f"{topic}-0")) as log:
            log.append(Record(value=b"new"))
            list(log.records())
    except LogdexError:
        pass  # told
    shutil.rmtree(copy)


def _odd_files(folder: str, names: list[str]) -> list[str]:
    """What cannot be copied."""
    return [name for name in names if (path := Path(folder, name)).is_fifo() or path.is_symlink()]
