"""A real broker's classes pass a key index over: the same log is loaded with it and without, and it stays as it is."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from logdex.kafka.key_index.build import build_key_index
from tests.golden import kafka as golden_kafka
from tests.interop.kafka.peer import ENVIRONMENT, PEERS, needs_peers

pytestmark = [pytest.mark.needs_java, needs_peers, pytest.mark.timeout(600)]


def load(directory: Path, work: Path) -> list[dict[str, Any]]:
    """What `UnifiedLog` says of a log directory after its load and clean end; `work` is the directory it left."""
    command = [str(PEERS / "run"), "ReadLog", "--dir", str(directory), "--mode", "log", "--load", "full"]
    command += ["--work", str(work)]
    done = subprocess.run(command, env=ENVIRONMENT, capture_output=True, timeout=500, check=True)
    return [json.loads(text) for text in done.stdout.decode().splitlines()]


def test_the_broker_ignores_it(tmp_path: Path) -> None:
    plain = golden_kafka.unpack("tiny-broker", tmp_path / "plain")
    indexed = tmp_path / "indexed"
    shutil.copytree(plain, indexed)
    written = {}
    for log in indexed.glob("orders-*/*.log"):
        target = log.with_suffix(".keyindex")
        target.write_bytes(build_key_index(str(log)).tobytes())
        written[target.relative_to(indexed)] = target.read_bytes()
    assert len(written) > 3
    answers = [
        [line for line in load(directory, tmp_path / f"work-{directory.name}") if "keyindex" not in str(line)]
        for directory in (plain, indexed)
    ]
    assert answers[0] == answers[1]
    assert [line for line in answers[0] if line["kind"] == "record"]
    left = tmp_path / "work-indexed"
    assert {path.relative_to(left): path.read_bytes() for path in left.rglob("*.keyindex")} == written
