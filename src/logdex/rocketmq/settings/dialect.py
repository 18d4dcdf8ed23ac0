"""What differs between RocketMQ versions: a `Dialect` says which engine's bytes to derive, a `StoreConfig` which sizes.

No file of a store states either. Source: ``docs/formats/index-file.md``; IndexFile, IndexService, MessageStoreConfig.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from logdex.errors import UsageError

DEFAULT_VERSION = "5.5.0"


@dataclass(frozen=True, slots=True)
class Dialect:
    """The rules of one engine version."""

    version: str
    slot_count_every_put: bool
    """hashSlotCount counts every put (up to 4.7.0) instead of slots in use."""
    tags_in_index: bool
    """The IndexFile holds `topic#T#tags` too (from 5.4.0 on)."""
    prepared_in_index: bool
    """PREPARED messages get index entries (not before 4.0)."""
    empty_index_count: int
    """index_count on disk of an IndexFile without entries after a clean shutdown: 1 from 5.0 on, 0 before."""
    time_has_boundaries: bool
    """getOffsetInQueueByTime goes by store times and knows lower and upper (from 5.1.1 on); before, it goes by
    modification times of files and takes the nearest entry."""
    time_is_clipped: bool
    """getOffsetInQueueByTime answers within the queue's minimum and maximum (from 5.0 on)."""

    @staticmethod
    def of(version: str) -> Dialect:
        """The dialect of a version like ``5.5.0``; `UsageError` for text that is none."""
        parts = re.match(r"v?(\d+)\.(\d+)(?:\.(\d+))?", version.upper().replace("_", ".").lower())
        if not parts:
            raise UsageError(f"rocketmq version {version!r} is not like {DEFAULT_VERSION}")
        number = tuple(int(part or 0) for part in parts.groups())
        return Dialect(
            version=version,
            slot_count_every_put=number <= (4, 7, 0),
            tags_in_index=number >= (5, 4, 0),
            prepared_in_index=number >= (4, 0, 0),
            empty_index_count=1 if number >= (5, 0, 0) else 0,
            time_has_boundaries=number >= (5, 1, 1),
            time_is_clipped=number >= (5, 0, 0),
        )
