"""Many short ranges of one file, read into one buffer."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable

from logdex.errors import StorageError, located
from logdex.io.env import ByteArray, ReadFile


def read_runs(file: ReadFile, runs: Iterable[tuple[int, int, int]], out: ByteArray) -> bool:
    """Reads the ranges (position in `file`, size in bytes, place in `out`). Returns False where the
    file ends within one; what follows is not read then."""
    view = memoryview(out)  # type: ignore[arg-type]  # arrays are buffers; the stubs do not say so
    env = file._env
    runs = [*runs]
    position, size, _ = runs[0] if runs else (0, 0, 0)
    try:
        with env.operation("read_at", file.path):
            for position, size, place in runs:
                end = place + size
                while place < end:
                    done = os.preadv(file._fd, [view[place:end]], position + size - (end - place))
                    if not done:
                        return False
                    place += done
                    env.counters.read_bytes += done
    except StorageError as error:
        if error.errno != errno.EIO:
            raise
        raise located(error, position, size) from None
    return True
