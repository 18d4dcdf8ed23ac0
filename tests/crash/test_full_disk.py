"""Conversions and imports onto a disk that is full from some moment on: an error says so, the
output is left empty, and the same command works when there is space again."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from logdex.convert.load import load
from logdex.convert.sources.kafka import LogDirSource
from logdex.convert.sources.rocketmq import StoreSource
from logdex.convert.translate import convert
from logdex.errors import StorageError
from logdex.io.env import Env
from logdex.testing import Fault, FaultEnv
from logdex.testing.store_builder import write_commit_log
from tests.crash.test_import import SIZES
from tests.crash.trees import Fresh, tree
from tests.examples import some
from tests.unit.rocketmq.small_stores import FILE_SIZE, message

WRITES = frozenset({"open_write", "write_at", "reserve", "make_dirs"})
"""The operations that a full disk refuses. It lets names be changed and files be removed."""

Job = Callable[[Path, Env], object]


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table, and a store and a log directory that were imported from it."""
    root = tmp_path_factory.mktemp("sources")
    write_commit_log(str(root / "store"), [message(number, keys=f"k-{number}") for number in range(3)], FILE_SIZE)
    convert(StoreSource(str(root / "store")), str(root / "logs"), sync=False)
    times = pa.array([1_700_000_000_000_000] * 4, pa.timestamp("us", "UTC"))
    texts = [b"0", b"1", b"2", b"3"]
    rows = {"topic": ["a", "b"] * 2, "value": texts, "body": texts, "timestamp": times, "bornTimestamp": times}
    pq.write_table(pa.table(rows), root / "table.parquet")
    return root


def job(name: str, sources: Path) -> Job:
    """A job that writes to a path through an `Env`."""

    def run(output: Path, env: Env) -> object:
        target = str(output)
        if name == "convert a store":
            settings: dict[str, Any] = {"mapped_file_size_commit_log": FILE_SIZE}
            return convert(StoreSource(str(sources / "store"), settings=settings), target, env=env)
        if name == "convert logs":
            return convert(LogDirSource(str(sources / "logs")), target, settings=SIZES, env=env)
        format_name = name.removeprefix("import ")
        settings = SIZES if format_name == "rocketmq" else {}
        return load(str(sources / "table.parquet"), target, format_name, settings=settings or None, env=env)

    return run


@pytest.mark.parametrize("name", ["convert a store", "convert logs", "import kafka", "import rocketmq"])
def test_a_full_disk(name: str, sources: Path, fresh: Fresh) -> None:
    run, counting = job(name, sources), FaultEnv(str(folder := fresh()))
    run(folder / "out", counting)
    right = names(folder / "out")
    writes = sum(kind in WRITES for kind, _ in counting.log)
    assert writes > 20
    for at in some(range(1, writes + 1), 8):
        folder = fresh()
        env = FaultEnv(str(folder), Fault(at, errno.ENOSPC, WRITES, lasting=True))
        with pytest.raises(StorageError, match=r"no space left on device \(free some space or") as raised:
            run(folder / "out", env)
        assert raised.value.errno == errno.ENOSPC
        assert tree(folder) in ({}, {"out": None}), at
        assert env.open_paths == []
        run(folder / "out", Env())
        assert names(folder / "out") == right, at


def names(output: Path) -> list[str]:
    """What there is. An import names its IndexFile after the time of its run."""
    return sorted("index/FILE" if name.startswith("index/") else name for name in tree(output))
