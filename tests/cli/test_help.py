"""Every --help has examples that run, and the reference page is what --help prints."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest

from logdex.cli.commands import app
from logdex.cli.reference import reference
from tests.cli.helpers import run
from tests.golden import kafka as golden_kafka
from tests.golden import rocketmq as golden

COMMANDS = sorted(
    str(command.name or command.callback.__name__) for command in app.registered_commands if command.callback
)


def examples(command: str) -> list[str]:
    lines = run(command, "--help").stdout.splitlines()
    return [line.strip() for line in lines if line.startswith(f"    logdex {command}")]


EXAMPLES = [example for command in COMMANDS for example in examples(command)]
RUN_ELSEWHERE = ("logdex doctor", "logdex doctor --json", *examples("follow"), *examples("import"))
RUN_ELSEWHERE += tuple(examples("completion"))
"""`test_doctor.py` runs the first ones, each of which starts a Spark of its own,
`rocketmq/test_follow.py` those that need a master, `test_import.py` those that need a Parquet file,
and `test_completion.py` those about the running shell."""


def test_commands() -> None:
    expected = {"bench", "cat", "doctor", "get", "info", "message", "query", "rebuild", "verify"}
    assert set(COMMANDS) >= expected


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_examples_on_lines_of_their_own(command: str) -> None:
    assert examples(command)
    assert run(command, "-h").stdout == run(command, "--help").stdout


@pytest.fixture(scope="session")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the demo's store in `store` and a Kafka log directory in `logs`."""
    folder = tmp_path_factory.mktemp("demo")
    golden.unpack_demo(folder)
    golden_kafka.unpack("tiny-broker", folder / "logs")
    return folder


def example_of(text: str) -> Any:
    """Of the examples on Spark the default run takes those of `rebuild`."""
    marks = [pytest.mark.spark, *([] if "rebuild" in text else [pytest.mark.slow])] if "spark" in text else []
    return pytest.param(text, marks=marks)


@pytest.mark.parametrize("example", [example_of(text) for text in EXAMPLES if text not in RUN_ELSEWHERE])
def test_examples_run(
    example: str, demo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    for name in ("store", "logs"):
        (tmp_path / name).symlink_to(demo / name)
    monkeypatch.chdir(tmp_path)
    if "spark" in example:
        request.getfixturevalue("spark")  # the command takes the session that runs
    result = run(*shlex.split(example)[1:])
    is_lossy = "convert logs" in example or "filter logs" in example  # the log directory has a transaction that is open
    assert result.exit_code == (3 if is_lossy else 0), result
    assert result.stdout


def test_the_reference_is_up_to_date() -> None:
    page = Path(__file__).resolve().parents[2] / "docs" / "guide" / "command-line.md"
    assert page.read_text("utf-8") == reference(), "python -m logdex.cli.reference > docs/guide/command-line.md"
