"""Many short ranges of one file, read into one buffer."""

from __future__ import annotations

import errno
from collections.abc import Iterable

from logdex.errors import StorageError, located
from logdex.io.files import ReadFile
from logdex.io.mapped.byte_array import ByteArray


def read_runs(file: ReadFile, runs: Iterable[tuple[int, int, int]], out: ByteArray) -> bool:
    """Reads the ranges (position in `file`, size in bytes, place in `out`). Returns False where the
    file ends within one; what follows is not read then."""
    view = memoryview(out)  # type: ignore[arg-type]  # arrays are buffers; the stubs do not say so
    runs = [*runs]
    position, size, _ = runs[0] if runs else (0, 0, 0)
    try:
        with file._env.operation("read_at", file.path):
            for position, size, place in runs:
                end = place + size
                while place < end:
                    done = file.read_into(position + size - (end - place), view[place:end])
                    if not done:
                        return False
                    place += done
    except StorageError as error:
        if error.errno != errno.EIO:
            raise
        raise located(error, position, size) from None
    return True
