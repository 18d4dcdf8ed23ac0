"""The blocks of remote files that were read last."""

from __future__ import annotations

import threading
from collections import OrderedDict

BLOCK_BYTES = 32 << 10
"""What one read asks a remote file system for at least."""
AHEAD_BYTES = 256 << 10
"""What it asks for where the bytes before were read as well, so that whoever reads on needs few
requests. A request takes tens of milliseconds, in which about as much could be transferred."""
CACHE_BYTES_MAX = 64 << 20

Key = tuple[str, object, int]
"""A path, what identifies its file, and the number of a block."""


class BlockCache:
    """At most so many bytes of blocks, of which the least recently used ones are dropped.
    Thread-safe."""

    def __init__(self, size_bytes_max: int = CACHE_BYTES_MAX) -> None:
        self._size_bytes_max = size_bytes_max
        self._size_bytes = 0
        self._blocks: OrderedDict[Key, bytes] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: Key) -> bytes | None:
        """Returns a block, or None if it is not there."""
        with self._lock:
            block = self._blocks.get(key)
            if block is not None:
                self._blocks.move_to_end(key)
        return block

    def put(self, key: Key, block: bytes) -> None:
        """Keeps a block, and drops others if there are too many."""
        with self._lock:
            before = self._blocks.pop(key, b"")
            self._blocks[key] = block
            self._size_bytes += len(block) - len(before)
            while self._size_bytes > self._size_bytes_max:
                _, dropped = self._blocks.popitem(last=False)
                self._size_bytes -= len(dropped)
