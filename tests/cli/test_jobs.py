"""`--jobs`: what threads write and print is what one thread does."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.helpers import run
from tests.directories import contents
from tests.examples import cases

OWN = ("seconds", "tasks", "output")
COMMANDS = {
    "rebuild a store": ("store", ["rebuild"]),
    "rebuild logs": ("logs", ["rebuild", "--key-index"]),
    "export": ("logs", ["export"]),
    "convert a store": ("store", ["convert", "--to", "kafka"]),
    "convert logs": ("logs", ["convert", "--to", "rocketmq"]),
    "stats": ("store", ["stats"]),
    "recover a store": ("store", ["recover"]),
    "recover logs": ("logs", ["recover"]),
    "verify a store": ("store", ["verify"]),
    "verify logs": ("logs", ["verify"]),
}


@pytest.mark.parametrize("name", cases(COMMANDS, 3))
def test_threads_change_nothing(name: str, golden_store: Any, golden_log: Any, tmp_path: Path) -> None:
    kind, (command, *flags) = COMMANDS[name]
    path = golden_store("tiny-5.5.0") if kind == "store" else golden_log("tiny-broker")
    told, written = [], []
    for jobs in (1, 3):
        output = tmp_path / f"out-{jobs}"
        where = [] if command in ("stats", "verify") else ["-o", output, "--no-sync"]
        done = run(command, path, *flags, *where, "--jobs", jobs, "--json")
        assert done.exit_code in (0, 1, 3), done
        told.append([{k: v for k, v in json.loads(line).items() if k not in OWN} for line in done.stdout.splitlines()])
        files = contents(output) if where else {}
        written.append({name: data for name, data in files.items() if "consumerOffset" not in name})  # has the time
    assert told[0] == told[1] != []
    assert written[0] == written[1]


def test_threads_are_the_local_engines(golden_log: Any, tmp_path: Path) -> None:
    logs = golden_log("tiny-broker")
    told = run("rebuild", logs, "-o", tmp_path / "out", "--engine", "spark", "--jobs", 2)
    assert told.exit_code == 2
    assert "--jobs is about --engine local" in told.stderr
    assert run("stats", logs, "--jobs", 0).exit_code == 2


@pytest.mark.parametrize("command", ["rebuild", "dispatch", "stats"])
def test_a_master_needs_spark(command: str, golden_log: Any, tmp_path: Path) -> None:
    """It was ignored."""
    output = () if command == "stats" else ("-o", tmp_path / "out")
    told = run(command, golden_log("tiny-broker"), *output, "--master", "local[2]")
    assert (told.exit_code, told.stdout) == (2, "")
    assert "--master is about --engine spark" in told.stderr
    assert "give --engine spark" in told.stderr
    assert not (tmp_path / "out").exists()
