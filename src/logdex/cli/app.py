"""The Typer application that every command joins, and how commands end.

Exit codes: 0 good (or a closed pipe), 1 problems found, 2 cannot run (usage, bad input), 3 done but lossy, 130 Ctrl-C.
"""

from __future__ import annotations

import os
import sys
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

import logdex
from logdex.errors import LogdexError


class _Commands(TyperGroup):
    """Turns what a command raises into one line on stderr and an exit code, for every command alike."""

    def invoke(self, ctx: Any) -> Any:
        """Runs the command line."""
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
        except LogdexError as error:
            typer.echo(f"logdex: {error.message}", err=True)
            if error.hint:
                typer.echo(f"        {error.hint}", err=True)
            raise typer.Exit(error.exit_code) from error
        except BrokenPipeError as error:
            # Whoever read our output has enough. Python would flush once more at exit: into nothing.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(0) from error
        return result


app = typer.Typer(
    name="logdex",
    cls=_Commands,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"logdex {logdex.__version__}")
        raise typer.Exit


@app.callback()
def logdex_command(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """RocketMQ's and Kafka's storage engines: look into a store, check it, rebuild its indexes, query it."""
