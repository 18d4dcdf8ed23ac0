"""The commands with `--engine spark`, as they are typed: they say and write what `--engine local`
does, with the same exit codes."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.cli.helpers import run
from tests.cli.test_jobs import OWN
from tests.directories import contents
from tests.golden.archives import ROOT
from tests.unit.kafka.verify.test_in_tasks import harmed_logs

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(1200)]

SPARK = ("--engine", "spark", "--master", "local[2]")


def told(output: str) -> list[dict[str, Any]]:
    """The JSON lines of a command, without what depends on the engine."""
    lines = [json.loads(line) for line in output.splitlines()]
    return [{name: value for name, value in line.items() if name not in (*OWN, "engine")} for line in lines]


def both(*arguments: object) -> tuple[int, list[dict[str, Any]]]:
    """The exit code and what is said, which are the same on either engine."""
    local = run(*arguments, "--json")
    words = [str(each) for each in arguments]
    command = [sys.executable, "-m", "logdex", *words, "--json", *SPARK]
    spark = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (spark.returncode, told(spark.stdout)) == (local.exit_code, told(local.stdout)), spark.stderr
    return local.exit_code, told(local.stdout)


def written(folder: Path, *arguments: object) -> tuple[int, list[dict[str, Any]]]:
    """Runs a command once per engine, with an output of its own for each; the exit code and what is
    said. Both wrote the same, but for the times in offsets that groups have committed."""
    codes, said, files = [], [], []
    for name, more in (("local", ()), ("spark", SPARK)):
        output = folder / name
        words = [*map(str, arguments), "--output", str(output), "--no-sync", "--json", *more]
        done = subprocess.run(
            [sys.executable, "-m", "logdex", *words], cwd=ROOT, capture_output=True, text=True, check=False
        )
        codes.append(done.returncode)
        said.append(told(done.stdout))
        files.append({each: data for each, data in contents(output).items() if "consumerOffset" not in str(each)})
        assert said[-1], done.stderr
    assert codes[0] == codes[1]
    assert said[0] == said[1]
    assert files[0] == files[1] != {}
    return codes[0], said[0]


def test_verify(golden_store: Callable[[str], Path], golden_log: Callable[[str], Path], tmp_path: Path) -> None:
    assert both("verify", golden_log("tiny-broker"))[0] == 0
    assert both("verify", golden_store("tiny-5.5.0"))[0] == 0
    code, said = both("verify", harmed_logs(tmp_path / "harmed", Random(4)))
    assert code == 1
    assert said
    assert both("verify", tmp_path / "nowhere")[0] == 2


def test_stats(golden_store: Callable[[str], Path], golden_log: Callable[[str], Path]) -> None:
    for path in (golden_store("tiny-5.5.0"), golden_log("tiny-broker")):
        code, said = both("stats", path)
        assert code == 0
        assert said


def test_convert(golden_store: Callable[[str], Path], tmp_path: Path) -> None:
    code, said = written(tmp_path, "convert", golden_store("tiny-5.5.0"), "--to", "kafka")
    assert code in (0, 3)
    assert said[0]["messages"] > 0


def test_export_and_import(golden_log: Callable[[str], Path], tmp_path: Path) -> None:
    code, said = written(tmp_path / "lakes", "export", golden_log("tiny-broker"))
    assert code == 0
    messages = said[0]["messages"]
    assert messages > 0
    code, said = written(tmp_path / "back", "import", tmp_path / "lakes" / "local", "--format", "kafka")
    assert code == 0
    assert said[0]["messages"] == messages
