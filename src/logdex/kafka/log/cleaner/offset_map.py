"""The cleaner's map: the last offset of every key in the part of a log that is not clean yet.

Source: Kafka's SkimpyOffsetMap, Cleaner.buildOffsetMapForSegment. Kafka stores an MD5 of each key.
This map stores the key itself, or the BLAKE2b of a long key, so that two keys are never confused.
"""

from __future__ import annotations

from hashlib import blake2b
from itertools import repeat

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from logdex.errors import UsageError
from logdex.kernels.kafka.batch_columns import Int64s

DEDUPE_BUFFER_BYTES = 128 << 20
"""The default of log.cleaner.dedupe.buffer.size."""
ENTRY_SIZE_BYTES = 200
"""The most memory per entry: the objects for key and offset, and their places in a newly grown
dictionary."""
_KEY_SIZE_MAX = 32
_DIGEST_SIZE = _KEY_SIZE_MAX + 1  # longer than any short key, so that none equals a digest


class OffsetMap:
    """At most `buffer_bytes` of memory, one entry per key. For one thread.

    Every record up to `latest_offset` was added. Raises `UsageError` for a buffer without room for
    an entry.
    """

    def __init__(self, buffer_bytes: int = DEDUPE_BUFFER_BYTES) -> None:
        self.slots = buffer_bytes // ENTRY_SIZE_BYTES
        if self.slots < 1:
            raise UsageError(
                f"a dedupe buffer of {buffer_bytes} bytes is too small", hint=f"use {ENTRY_SIZE_BYTES} or more"
            )
        self.latest_offset = -1
        self._offsets: dict[bytes, int] = {}

    def __len__(self) -> int:
        return len(self._offsets)

    def put_many(self, keys: pa.Array, offsets: Int64s) -> bool:
        """Adds keys (binary, not null) with their increasing offsets. Returns False when the map is
        full.

        `latest_offset` is then before the first record that did not fit.
        """
        entries = zip(_shortened(keys), offsets.tolist(), strict=True)
        if len(self._offsets) + len(keys) <= self.slots:
            self._offsets.update(entries)
            return True
        for key, offset in entries:
            if len(self._offsets) >= self.slots and key not in self._offsets:
                self.latest_offset = offset - 1
                return False
            self._offsets[key] = offset
        return True

    def get_many(self, keys: pa.Array) -> Int64s:
        """The offset of each key, or -1 for a key that is null or not in the map."""
        found: npt.NDArray[np.int64] = np.fromiter(
            map(self._offsets.get, _shortened(keys), repeat(-1)), np.int64, len(keys)
        )
        return found


def _shortened(keys: pa.Array) -> list[bytes]:
    values: list[bytes] = keys.to_pylist()
    if len(values) and max(len(key) if key is not None else 0 for key in values) > _KEY_SIZE_MAX:
        return [
            key if key is None or len(key) <= _KEY_SIZE_MAX else blake2b(key, digest_size=_DIGEST_SIZE).digest()
            for key in values
        ]
    return values
