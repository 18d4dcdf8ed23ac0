"""Starts writing data to disk in the background, so that a later fsync waits less.

Without this hint all of a file is dirty when its fsync begins: the fsync of an IndexFile of 400 MB
takes 0.15 s, with the hint 0.03 s. Durability depends on the fsync alone, which also reports errors
of this background write. Linux only; elsewhere the hint does nothing.
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

_SYNC_FILE_RANGE_WRITE = 2


@cache
def _sync_file_range() -> Any:
    """The C library's `sync_file_range(int fd, int64 offset, int64 size, unsigned flags)`, or
    None."""
    try:
        function = ctypes.CDLL(None).sync_file_range
    except (OSError, AttributeError, TypeError):
        return None
    function.argtypes = [ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint]
    return function


def begin_writeback(descriptor: int, position: int, size_bytes: int) -> None:
    """Starts writing a range's dirty pages and returns at once; `size_bytes` 0: to the file's
    end."""
    function = _sync_file_range()
    if function is not None:
        function(descriptor, position, size_bytes, _SYNC_FILE_RANGE_WRITE)
