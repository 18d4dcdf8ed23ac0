"""A file is truncated while `cat` prints it: it ends with an error that says where, and no
signal."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from logdex.kafka.batch.record import Record
from logdex.kafka.log.log import Log
from logdex.testing.store_builder import make_message, write_commit_log
from tests.cli.helpers import rows_of
from tests.examples import cases

COUNT = 1_200
BODY = b"x" * 25_000


def kafka_log(folder: Path) -> tuple[Path, Path]:
    path = folder / "t-0"
    with Log.open(str(path), clock_ms=lambda: 1_700_000_000_000) as log:
        for number in range(COUNT):
            log.append(Record(b"%d" % number, BODY, 1_700_000_000_000, ()))
    return path, path / f"{0:020d}.log"


def commit_log(folder: Path) -> tuple[Path, Path]:
    write_commit_log(str(folder), [make_message(body=BODY, queue_offset=n) for n in range(COUNT)], 1 << 25)
    return folder, folder / "commitlog" / f"{0:020d}"


@pytest.mark.parametrize("make", cases([kafka_log, commit_log], 2))
def test_cat_of_a_file_that_is_truncated(make: Any, tmp_path: Path) -> None:
    root, file = make(tmp_path / "root")
    command = [sys.executable, "-m", "logdex", "cat", str(root), "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        lines = [process.stdout.readline()]  # it now waits until the pipe is read on
        os.truncate(file, 4096)
        lines += process.stdout.readlines()
        told = process.stderr.read()
    assert process.returncode in (1, 2), told
    assert f"{file}: " in told
    assert "truncated to 4096 bytes" in told
    rows = rows_of("".join(lines))
    assert 0 < len(rows) < COUNT
    bodies = {row.get("value") or row.get("body") for row in rows}
    assert len(bodies) == 1
