"""Running the command line in this process."""

from __future__ import annotations

import io
import json
from contextlib import redirect_stderr, redirect_stdout
from functools import cache
from typing import Any, NamedTuple

import typer

from logdex.cli.commands import app
from logdex.cli.rows.printer import END_OF


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
    """`logdex ARGUMENTS` in this process; fails the test where an exception would have been a
    traceback."""
    streams = [io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2)]
    code: Any = 0
    with redirect_stdout(streams[0]), redirect_stderr(streams[1]):
        try:
            command_line().main(args=[str(argument) for argument in arguments], prog_name="logdex")
        except SystemExit as end:
            code = end.code or 0
    return Ended(code, *(stream.buffer.getvalue().decode() for stream in streams))


def run_json(*arguments: object, exit_code: int = 0) -> list[dict[str, Any]]:
    """The JSON lines of `logdex ARGUMENTS --json` that are rows."""
    result = run(*arguments, "--json")
    assert result.exit_code == exit_code, result
    return rows_of(result.stdout)


def rows_of(stdout: str) -> list[dict[str, Any]]:
    """The rows of JSON lines: all but the last object, which says what a program needs to know of
    the answer."""
    return [json.loads(line) for line in without_end(stdout).splitlines()]


def without_end(stdout: str) -> str:
    """JSON lines without the object that is no row."""
    return "".join(line for line in stdout.splitlines(keepends=True) if not line.startswith(f'{{"{END_OF}": '))


def end_of(*arguments: object, exit_code: int = 0) -> dict[str, Any]:
    """The last object of `logdex ARGUMENTS --json`, which is no row."""
    result = run(*arguments, "--json")
    assert result.exit_code == exit_code, result
    end: dict[str, Any] = json.loads(result.stdout.splitlines()[-1])
    assert next(iter(end)) == END_OF
    return end
