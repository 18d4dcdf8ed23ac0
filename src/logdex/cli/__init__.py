"""The command line: one small module a command; no format knowledge here."""

from __future__ import annotations

from logdex.cli import doctor as doctor
from logdex.cli.app import app


def main() -> None:
    """The console script `logdex`; ends the process with the command's exit code."""
    app(prog_name="logdex")
