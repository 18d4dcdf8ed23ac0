"""The command line: one small module a command; no format knowledge here."""

from __future__ import annotations

import sys


def main() -> None:
    """The console script `logdex`; ends the process with the command's exit code."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")  # a terminal that is not UTF-8 gets escapes, not an error
    try:
        from logdex.cli.commands import app  # here: Ctrl-C while all this loads is as quiet as later

        app(prog_name="logdex")
    except KeyboardInterrupt:
        raise SystemExit(130) from None
