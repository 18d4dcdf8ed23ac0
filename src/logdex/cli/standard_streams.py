"""Standard streams that take nothing: a shell closed them, their disk is full, or their reader has
ended."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import Literal, TextIO


def open_closed_streams() -> None:
    """Opens /dev/null in the place of each stream that the shell closed (`logdex cat logs >&-`), as
    the next file that is opened would take its descriptor.

    Messages on a closed stderr are dropped. Each write to a closed stdout is an error, as the
    output would be lost without a word.
    """
    for descriptor in range(3):
        with suppress(OSError):
            os.fstat(descriptor)
            continue
        os.open(os.devnull, os.O_WRONLY if descriptor == 2 else os.O_RDONLY)  # the lowest free descriptor
    sys.stdin = sys.stdin or _stream(0, "r")
    sys.stdout = sys.stdout or _stream(1, "w")
    sys.stderr = sys.stderr or _stream(2, "w")


def _stream(descriptor: int, mode: Literal["r", "w"]) -> TextIO:
    return open(descriptor, mode, encoding="utf-8", closefd=False)


def flush_or_drop_output() -> None:
    """Flushes stdout, and drops what cannot be written."""
    try:
        sys.stdout.flush()
    except OSError:
        drop_output()


def drop_output() -> None:
    """Drops what stdout still buffers and cannot write. Python flushes it again at exit."""
    with suppress(OSError):  # stdout may be no file
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
