"""All commands, the library and `Log.open` on a Kafka directory of crafted bytes: what must hold of
each."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from logdex.errors import LogdexError
from logdex.kafka.batch.record import Record
from logdex.kafka.log.log import Log
from logdex.kafka.snapshot.log_dir_snapshot import open_kafka
from tests.cli.harm import peak_bytes
from tests.cli.helpers import Ended, run
from tests.directories import tree_hash

SECONDS_MAX = 60
"""Generous: of a command, kernels compiled, on a busy machine."""
GROWTH_MAX = 900 << 20
"""What a decompression may take: twice the bound of a batch, and room for what the first calls
load."""


@contextmanager
def bounded(growth_max: int = GROWTH_MAX, seconds: float = SECONDS_MAX) -> Iterator[None]:
    """Fails where the block takes more CPU time, or the process's peak grows by more."""
    peak, begin = peak_bytes(), time.process_time()
    yield
    assert time.process_time() - begin < seconds
    assert peak_bytes() - peak < growth_max


def command(*words: object) -> Ended:
    """``logdex WORDS`` in this process: no traceback, no bug, a clear line where it does not end
    well."""
    begin = time.process_time()
    told = run(*words)
    assert told.exit_code in (0, 1, 2, 3), (words, told)
    assert "Traceback" not in told.stderr, (words, told)
    assert "this is a bug" not in told.stderr, (words, told)
    assert told.exit_code == 0 or (told.stdout + told.stderr).strip(), (words, told)
    assert time.process_time() - begin < SECONDS_MAX, words
    return told


def every_way(root: Path, topic: str = "events") -> dict[str, Ended]:
    """All commands on a log directory, Arrow, and `Log.open` on a copy; the directory is as it was
    then."""
    before = tree_hash(root)
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
                snapshot.scan(control=True).arrow_reader().read_all().validate(full=True)
        except LogdexError:
            pass  # told
        assert tree_hash(root) == before
        open_copy(root, topic)
    for name in ("rebuilt", "recovered"):
        shutil.rmtree(f"{out}-{name}", ignore_errors=True)
    return found


def open_copy(root: Path, topic: str) -> None:
    """`Log` on a copy of one partition: it opens, reads and takes a record, or says what is
    wrong."""
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
