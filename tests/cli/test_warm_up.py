"""`logdex warm-up`, and what the first command shows where it was not called."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.test_terminal import Terminal
from tests.conftest import GoldenStore

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

COMMANDS = (
    ("verify", "{store}"),
    ("rebuild", "{store}", "--output", "{output}"),
    ("recover", "{store}", "--output", "{output}"),
    ("stats", "{store}"),
    ("export", "{store}", "--output", "{output}"),
    ("convert", "{store}", "--to", "kafka", "--output", "{output}"),
    ("verify", "{logs}"),
    ("rebuild", "{logs}", "--output", "{output}", "--key-index"),
    ("recover", "{logs}", "--output", "{output}"),
    ("stats", "{logs}"),
    ("export", "{logs}", "--output", "{output}"),
    ("convert", "{logs}", "--to", "rocketmq", "--output", "{output}"),
)


def logdex(folder: Path, *arguments: str) -> str:
    """Runs a command in a process of its own, whose compiled kernels are in `folder`."""
    environ = {**os.environ, "XDG_CACHE_HOME": str(folder)}
    environ.pop("NUMBA_CACHE_DIR", None)
    command = [sys.executable, "-m", "logdex", *arguments]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 3), done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout


def compiled(folder: Path) -> set[str]:
    return {str(path) for path in folder.rglob("*.nbc")}


def test_nothing_is_compiled_behind_it(golden_store: GoldenStore, golden_log: GoldenStore, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    assert logdex(kept, "warm-up").startswith("Compiled ")
    before = compiled(kept)
    assert len(before) > 50
    assert logdex(kept, "warm-up") == "Nothing to do: all kernels are compiled.\n"
    places = {"store": golden_store("tiny-5.5.0"), "logs": golden_log("tiny-broker")}
    for number, command in enumerate(COMMANDS):
        logdex(kept, *(part.format(output=tmp_path / str(number), **places) for part in command))
        assert compiled(kept) == before, command


def test_the_first_command_says_what_takes_so_long(golden_store: GoldenStore, tmp_path: Path) -> None:
    terminal = Terminal()
    environ = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "kept"), "COLUMNS": "200", "TERM": "xterm"}
    environ.pop("NUMBA_CACHE_DIR", None)
    command = [sys.executable, "-m", "logdex", "verify", str(golden_store("tiny-5.5.0"))]
    done = subprocess.run(command, env=environ, stdout=subprocess.PIPE, stderr=terminal.file, check=False)
    assert done.stdout.splitlines()[-1].startswith(b"No findings")
    assert "compiling for this machine, once: " in terminal.text
