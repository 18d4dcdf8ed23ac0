"""Running the command line in this process."""

from __future__ import annotations

import io
import json
from contextlib import redirect_stderr, redirect_stdout
from functools import cache
from typing import Any, NamedTuple

import typer

from logdex.cli.commands import app


class Ended(NamedTuple):
    """How a command ended, and what it said."""

    exit_code: int
    stdout: str
    stderr: str


@cache
def command_line() -> Any:
    """The command line as Typer makes it, which takes longer than most commands here."""
    return typer.main.get_command(app)


def run(*arguments: object) -> Ended:
    """`logdex ARGUMENTS` in this process; fails the test where an exception would have been a traceback."""
    streams = [io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2)]
    code: Any = 0
    with redirect_stdout(streams[0]), redirect_stderr(streams[1]):
        try:
            command_line().main(args=[str(argument) for argument in arguments], prog_name="logdex")
        except SystemExit as end:
            code = end.code or 0
    return Ended(code, *(stream.buffer.getvalue().decode() for stream in streams))


def run_json(*arguments: object, exit_code: int = 0) -> list[dict[str, Any]]:
    """The JSON lines of `logdex ARGUMENTS --json`."""
    result = run(*arguments, "--json")
    assert result.exit_code == exit_code, result
    return [json.loads(line) for line in result.stdout.splitlines()]
