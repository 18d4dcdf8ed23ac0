"""The command line: one small module per command, which does not depend on formats."""

from __future__ import annotations

import gc
import signal
import sys
import threading

from logdex.cli.standard_streams import open_closed_streams

INTERRUPTED = 130
_OBJECTS_BETWEEN_COLLECTIONS = 50_000
"""Python's own 700 make a start a tenth longer: what is imported stays, and is looked at again and
again."""


def main() -> None:
    """Runs the console script `logdex`. Ends the process with the command's exit code.

    Ctrl-C is ignored once the command has ended. Python gives the signal its default action while
    it shuts down, so the process would end by the signal instead of with that code.
    """
    gc.set_threshold(_OBJECTS_BETWEEN_COLLECTIONS)
    open_closed_streams()
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")  # no errors on other terminals
    try:
        try:
            from logdex.cli import output  # imported here so that Ctrl-C is quiet meanwhile
            from logdex.cli.app import command_line_of
            from logdex.cli.commands import app
            from logdex.frames.extras import hide_pandas

            hide_pandas()
            output.program = command_line_of("logdex")
            app(prog_name="logdex")
        finally:
            _ignore_interrupts()
    except KeyboardInterrupt:
        _ignore_interrupts()  # the first call may be what was interrupted
        raise SystemExit(INTERRUPTED) from None


def _ignore_interrupts() -> None:
    if threading.current_thread() is threading.main_thread():  # others cannot set signal handlers
        signal.signal(signal.SIGINT, signal.SIG_IGN)
