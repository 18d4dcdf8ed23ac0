"""The Typer application to which every command is added, and how commands end.

Exit codes: 0 good, 1 problems found, 2 cannot run (usage, bad input), 3 done but lossy, 130 Ctrl-C.
Where the reader of the output closes the pipe, it is the code that is known by then.
"""

from __future__ import annotations

import os
import shlex
import shutil
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

import logdex
from logdex.cli.completing import COMPLETE_VARIABLE
from logdex.cli.output import begin, fail
from logdex.cli.standard_streams import drop_output, flush_or_drop_output
from logdex.errors import LogdexError

DEBUG_VARIABLE = "LOGDEX_DEBUG"
PROBLEMS_FOUND = 1
CANNOT_RUN = 2
DONE_BUT_LOSSY = 3
_known = [0]
"""The exit code of what a command has found, before it prints that."""


class _Commands(TyperGroup):
    """Prints the error of any command as one line on stderr, and maps it to an exit code."""

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        """Parses the command line. `--help` and `--version` are printed here."""
        with errors_told():
            return super().make_context(info_name, args, parent, **extra)

    def invoke(self, ctx: Any) -> Any:
        """Runs the command line."""
        begin()
        ends_with(0)
        with errors_told():
            try:
                result = super().invoke(ctx)
            except typer.Exit as ended:
                ends_with(ended.exit_code)
                sys.stdout.flush()
                raise
            sys.stdout.flush()
            return result


@contextmanager
def errors_told() -> Iterator[None]:
    """Prints what is raised inside, and raises `typer.Exit` with the exit code of it."""
    try:
        yield
    except LogdexError as error:
        _show_traceback()
        flush_or_drop_output()
        fail(error.message, error.hint)
        raise typer.Exit(error.exit_code) from error
    except BrokenPipeError as error:
        drop_output()  # its reader closed the pipe
        raise typer.Exit(_known[0]) from error
    except OSError as error:
        _show_traceback()
        flush_or_drop_output()
        fail(f"{error.filename or 'output'}: {(error.strerror or str(error)).lower()}", None)
        raise typer.Exit(CANNOT_RUN) from error
    except Exception as error:
        if type(error).__module__.startswith(("typer.", "click.")):  # their own exceptions
            raise
        _show_traceback()
        flush_or_drop_output()
        fail(
            f"unexpected {type(error).__name__}: {error}",
            f"this is a bug: please report it with what {DEBUG_VARIABLE}=1 shows",
        )
        raise typer.Exit(CANNOT_RUN) from error


def ends_with(exit_code: int) -> None:
    """States with which code a command ends that prints what it has found, even if nobody reads the
    output to its end."""
    _known[0] = exit_code


def _show_traceback() -> None:
    if os.environ.get(DEBUG_VARIABLE):
        traceback.print_exc()


def command_line_of(program: str) -> str:
    """Returns what to type for a program of this installation: its name, if the shell finds it,
    else how it was started."""
    if shutil.which(program) is not None:
        return program
    started = sys.argv[0]
    if os.path.basename(started) == program:
        return shlex.quote(started)
    return f"{shlex.quote(sys.executable)} -m {program}"


app = typer.Typer(
    name="logdex",
    cls=_Commands,
    no_args_is_help=True,
    add_completion=COMPLETE_VARIABLE in os.environ,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"logdex {logdex.__version__}")
        raise typer.Exit


def epilog(*examples: str, notes: str = "") -> str:
    """Returns the end of a command's --help: examples that can be run next to a store in `store`
    and a Kafka log directory in `logs`, then `notes`, which is not wrapped."""
    lines = [
        "\b",
        "Examples, beside a RocketMQ store in `store` and a Kafka log directory in `logs`:",
        *(f"  {example}" for example in examples),
    ]
    return "\n".join(lines) + (f"\n\n{notes}" if notes else "")


@app.callback()
def logdex_command(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """RocketMQ's and Kafka's storage engines: look into a store, check it, rebuild its indexes,
    query it.

    Data goes to stdout, progress and messages to stderr. Exit codes: 0 good, 1 problems found, 2
    cannot run, 3 done but lossy.
    """
    if sys.stderr.isatty():
        from logdex.cli.progress_bars import show_compiling

        show_compiling()
