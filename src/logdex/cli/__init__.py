"""The command line: one small module per command, which does not depend on formats."""

from __future__ import annotations

import sys


def main() -> None:
    """Runs the console script `logdex`. Ends the process with the command's exit code."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")  # no errors on other terminals
    try:
        from logdex.cli.commands import app  # imported here so that Ctrl-C is quiet meanwhile

        app(prog_name="logdex")
    except KeyboardInterrupt:
        raise SystemExit(130) from None
