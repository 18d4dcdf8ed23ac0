"""The hashes of keys in an IndexFile, one at a time and in bulk.

The keys are `topic#key` for UNIQ_KEY and each of KEYS, and from 5.4.0 `topic#T#tags`; only the hash
is stored. Source: ``docs/formats/index-file.md``; IndexService.buildKey,
IndexFile.indexKeyHashMethod.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from logdex.layout.rocketmq import SYS_FLAG_PREPARED, SYS_FLAG_ROLLBACK
from logdex.primitives.java_hash import index_key_hash, java_hash
from logdex.primitives.text import to_bytes
from logdex.rocketmq.message.stored_message import StoredMessage
from logdex.rocketmq.settings.dialect import Dialect

TAG_INDEX_TYPE = "T"
"""The index type of tags (MessageConst.INDEX_TAG_TYPE). Keys have none in an IndexFile."""


class KeyBatch(NamedTuple):
    """Many keys without an object per key: key i ends at byte `ends[i]` (int64) of `data`
    (uint8)."""

    data: npt.NDArray[np.uint8]
    ends: npt.NDArray[np.int64]


Keys = Sequence[bytes | str] | KeyBatch | npt.NDArray[np.int32]
"""Keys for bulk calls: texts, a `KeyBatch`, or their index hashes (int32, 0 to 2^31 - 1)."""


def key_prefix(topic: bytes | str, index_type: str | None = None) -> bytes:
    """Returns the prefix of a key that is hashed: `topic#`, or `topic#T#` for tags."""
    return to_bytes(topic) + b"#" + (to_bytes(index_type) + b"#" if index_type else b"")


def key_hash_of(topic: bytes | str, key: bytes | str, index_type: str | None = None) -> int:
    """Returns the index hash of one key of a topic, 0 to 2^31 - 1."""
    return index_key_hash(to_bytes(key), _prefix_hash(topic, index_type))


@lru_cache(1024)
def _prefix_hash(topic: bytes | str, index_type: str | None) -> int:
    return java_hash(key_prefix(topic, index_type))


def message_key_hashes(message: StoredMessage, dialect: Dialect) -> list[int]:
    """Returns the index hashes of a message's entries, in the engine's order.

    Empty for ROLLBACK messages, and for PREPARED ones before 4.0.
    """
    kind = message.transaction_type
    if kind == SYS_FLAG_ROLLBACK or (kind == SYS_FLAG_PREPARED and not dialect.prepared_in_index):
        return []
    keys = [message.unique_key] if message.unique_key else []
    seed = java_hash(key_prefix(message.topic))
    hashes = [index_key_hash(key, seed) for key in keys + message.keys]
    if dialect.tags_in_index and message.tags:
        hashes.append(index_key_hash(message.tags, java_hash(key_prefix(message.topic, TAG_INDEX_TYPE))))
    return hashes


def batch_of(keys: Sequence[bytes | str]) -> KeyBatch:
    """Returns the keys as one `KeyBatch`."""
    parts = [to_bytes(key) for key in keys]
    ends = np.cumsum(np.fromiter((len(part) for part in parts), np.int64, len(parts)), dtype=np.int64)
    return KeyBatch(np.frombuffer(b"".join(parts), np.uint8), ends)


def hash_keys(keys: Keys, prefix: bytes = b"", *, plain: bool = False) -> npt.NDArray[np.int32]:
    """Returns the index hashes of `prefix + key` for many keys. Hashes (int32) are returned
    unchanged.

    `plain` uses the plain twin instead of the kernel. Raises `ValueError` if a batch's ends do not
    fit its data.
    """
    if isinstance(keys, np.ndarray):
        return np.ascontiguousarray(keys, np.int32)
    batch = keys if isinstance(keys, KeyBatch) else batch_of(keys)
    data, ends = np.ascontiguousarray(batch.data, np.uint8), np.ascontiguousarray(batch.ends, np.int64)
    disordered = ValueError(f"key ends must increase from 0 to {len(data)}, the size of the data")
    seed = java_hash(prefix)
    if plain:
        raw = data.tobytes()
        if any(not start <= end <= len(raw) for start, end in pairwise([0, *ends.tolist()])):
            raise disordered
        hashes = [index_key_hash(raw[start:end], seed) for start, end in pairwise([0, *ends.tolist()])]
        return np.array(hashes, np.int32)
    from logdex.kernels.rocketmq.java_hash import index_key_hashes

    out = np.empty(len(ends), np.int32)
    if not index_key_hashes(data.ctypes.data, len(data), ends, seed, out):
        raise disordered
    return out
