"""The command line: one small module a command; no format knowledge here."""

from __future__ import annotations

import sys

from logdex.cli import bench as bench
from logdex.cli import cat as cat
from logdex.cli import doctor as doctor
from logdex.cli import get as get
from logdex.cli import info as info
from logdex.cli import message as message
from logdex.cli import query as query
from logdex.cli import rebuild as rebuild
from logdex.cli import recover as recover
from logdex.cli import verify as verify
from logdex.cli.app import app as app


def main() -> None:
    """The console script `logdex`; ends the process with the command's exit code."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")  # a terminal that is not UTF-8 gets escapes, not an error
    app(prog_name="logdex")
