"""Writes the reference of the command line in Markdown, from the --help of every command: ``python
-m logdex.cli.reference``."""

from __future__ import annotations

import sys
from typing import Any

import typer
from typer.main import get_command

from logdex.cli.commands import app

WIDTH = 100


def help_text(command: Any, name: str, parent: Any = None) -> str:
    """Returns what `NAME --help` prints, at a fixed width."""
    context = command.make_context(
        name, [], parent=parent, resilient_parsing=True, terminal_width=WIDTH, max_content_width=WIDTH
    )
    return "\n".join(line.rstrip() for line in command.get_help(context).splitlines())


def reference() -> str:
    """Returns the whole page."""
    group: Any = get_command(app)
    context = typer.Context(group, info_name="logdex", terminal_width=WIDTH, max_content_width=WIDTH)
    parts = [
        "# The command line",
        "<!-- Made by `python -m logdex.cli.reference > docs/guide/command-line.md`; a test compares. -->",
        _block(help_text(group, "logdex")),
        "`python -m logdex` is the same as `logdex`. Errors are one line and what to type next;\n"
        "`LOGDEX_DEBUG=1` shows the Python traceback as well.",
    ]
    for name in sorted(group.commands):
        parts += [f"## logdex {name}", _block(help_text(group.commands[name], name, context))]
    return "\n\n".join(parts) + "\n"


def _block(text: str) -> str:
    return f"```text\n{text}\n```"


if __name__ == "__main__":
    sys.stdout.write(reference())
