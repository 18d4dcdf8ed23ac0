"""Replaces the bytes behind a place of a file by zeros, in place: the file never has another size.

Cutting the file off and extending it again would be two changes of its size, and a power cut
between them would leave a short file. Written zeros leave each page as it was or zero.
"""

from __future__ import annotations

import numpy as np

from logdex.io.env import Env, WriteFile

_BLOCK_BYTES = 1 << 20


def write_zeros_from(file: WriteFile, position: int, env: Env) -> None:
    """Replaces all bytes of `file` from `position` on by zeros, which are not synced. What is zero
    already is not written, and holes are not read."""
    with env.open_read(file.path) as reader:
        at = reader.next_data(position)
        while at is not None:
            data = np.frombuffer(reader.read_at(at, _BLOCK_BYTES), np.uint8)
            if data.any():
                file.write_at(at, np.zeros_like(data))
            at = reader.next_data(at + len(data))
