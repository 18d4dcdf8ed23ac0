"""The cleaner's map: the last offset of every key in the part of a log that is not clean yet.

Source: Kafka's SkimpyOffsetMap, Cleaner.buildOffsetMapForSegment. Kafka keeps an MD5 of each key; here keys are kept as
they are, longer ones as their BLAKE2b, so no two keys can be taken for one.
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
"""log.cleaner.dedupe.buffer.size by default."""
ENTRY_SIZE_BYTES = 200
"""What an entry takes at most: the key's object, the offset's, their places in a dictionary that has just grown."""
_KEY_SIZE_MAX = 32
_DIGEST_SIZE = _KEY_SIZE_MAX + 1  # so that no short key is another one's digest


class OffsetMap:
    """At most `buffer_bytes` of memory, one entry a key. `latest_offset`: up to there every record was taken in.

    Raises `UsageError` for a buffer that holds no entry. One thread.
    """

    def __init__(self, buffer_bytes: int = DEDUPE_BUFFER_BYTES) -> None:
        self.slots = buffer_bytes // ENTRY_SIZE_BYTES
        if self.slots < 1:
            raise UsageError(f"a dedupe buffer of {buffer_bytes} bytes", hint=f"say {ENTRY_SIZE_BYTES} or more")
        self.latest_offset = -1
        self._offsets: dict[bytes, int] = {}

    def __len__(self) -> int:
        return len(self._offsets)

    def put_many(self, keys: pa.Array, offsets: Int64s) -> bool:
        """Takes in keys (binary, none of them null) with their offsets, which rise; False once the map is full, and
        then `latest_offset` is before the first record that found no room."""
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
        """The offset of each key (null: of none), -1 where it is not in the map."""
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
