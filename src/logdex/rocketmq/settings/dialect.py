"""The differences between RocketMQ versions: a `Dialect` determines the bytes to derive.

No file of a store states the version. Source: ``docs/formats/index-file.md``; IndexFile,
IndexService, MessageStoreConfig.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from logdex.errors import UsageError

DEFAULT_VERSION = "5.5.0"
_OLDEST, _NEWEST = (4, 0), (5, 5)
"""The first and the last version (major, minor) whose rules are known."""


@dataclass(frozen=True, slots=True)
class Dialect:
    """The rules of one engine version."""

    version: str
    slot_count_every_put: bool
    """hashSlotCount counts every put (up to 4.7.0) instead of used slots."""
    tags_in_index: bool
    """The IndexFile has entries for `topic#T#tags` too (from 5.4.0)."""
    prepared_in_index: bool
    """PREPARED messages get index entries (not before 4.0)."""
    empty_index_count: int
    """index_count on disk of an IndexFile without entries, after a clean shutdown: 1 from 5.0, else
    0."""
    time_has_boundaries: bool
    """getOffsetInQueueByTime uses store times and has lower and upper boundaries (from 5.1.1).

    Before, it uses modification times of files and returns the nearest entry.
    """
    time_is_clipped: bool
    """getOffsetInQueueByTime returns offsets within the queue's minimum and maximum only (from
    5.0)."""
    separator_at_end: bool
    """A separator follows the last property too (not from 4.9.1 to 5.1.4)."""
    long_topics: bool
    """Topics of more than 127 characters are stored, in messages of version 2 (from 5.1.0)."""
    abort_has_process_id: bool
    """The file `abort` holds the broker's process id (from 5.0)."""
    has_rocksdb_store: bool
    """Every store has a directory `rocksdbstore` (from 5.4.0). It holds entries only if the queues
    are in RocksDB."""
    topics_have_attributes: bool
    """Topics in topics.json have attributes, and its version a state (from 5.0)."""
    has_timer: bool
    """Messages with a delivery time of their own go to the timer wheel (from 5.0)."""
    property_map_capacity: int
    """The buckets of the map into which stored properties are parsed, and which decides their order
    when they are stored again: 128 from 5.1.0, else 16."""
    half_has_transaction_id: bool
    """A half message has its unique key as a second property too (from 5.1.0)."""
    transaction_ops_are_lists: bool
    """An op message names half messages as a list with commas, and may name several (from
    5.1.0)."""
    commit_drops_place: bool
    """A committed message no longer has REAL_TOPIC and REAL_QID (from 5.4.0)."""
    waits_for_slaves: bool
    """A put that no slave is there for waits until its timeout (from 5.0), instead of returning
    SLAVE_NOT_AVAILABLE."""
    number_keys_share_a_line: bool
    """In config/*.json, the entries of a map with numbers as keys stand on one line (before
    5.1.0)."""
    checkpoint_has_logics_offset: bool
    """The checkpoint has logicsPhysicalOffset (from 5.5.0)."""

    @property
    def number(self) -> tuple[int, ...]:
        """The version as (major, minor, patch), to compare."""
        return _number(self.version)

    @staticmethod
    def of(version: str) -> Dialect:
        """The dialect of a version such as ``5.5.0``. Raises `UsageError` for text that is no
        version, and for a version whose rules are not known."""
        number = _number(version)
        if not _OLDEST <= number[:2] <= _NEWEST:
            known = f"{'.'.join(map(str, _OLDEST))} to {'.'.join(map(str, _NEWEST))}"
            raise UsageError(
                f"rocketmq version {version!r}: the rules of this version are not known",
                hint=f"state one of {known}, or leave it out to have it inferred from the files",
            )
        return Dialect(
            version=version,
            slot_count_every_put=number <= (4, 7, 0),
            tags_in_index=number >= (5, 4, 0),
            prepared_in_index=number >= (4, 0, 0),
            empty_index_count=1 if number >= (5, 0, 0) else 0,
            time_has_boundaries=number >= (5, 1, 1),
            time_is_clipped=number >= (5, 0, 0),
            separator_at_end=not (4, 9, 1) <= number < (5, 2, 0),
            long_topics=number >= (5, 1, 0),
            abort_has_process_id=number >= (5, 0, 0),
            has_rocksdb_store=number >= (5, 4, 0),
            topics_have_attributes=number >= (5, 0, 0),
            has_timer=number >= (5, 0, 0),
            property_map_capacity=128 if number >= (5, 1, 0) else 16,
            half_has_transaction_id=number >= (5, 1, 0),
            transaction_ops_are_lists=number >= (5, 1, 0),
            commit_drops_place=number >= (5, 4, 0),
            waits_for_slaves=number >= (5, 0, 0),
            number_keys_share_a_line=number < (5, 1, 0),
            checkpoint_has_logics_offset=number >= (5, 5, 0),
        )


def _number(version: str) -> tuple[int, ...]:
    if not isinstance(version, str):
        raise UsageError(f"rocketmq_version is {version!r}", hint=f"give it as text: {DEFAULT_VERSION!r}")
    parts = re.match(r"v?(\d+)\.(\d+)(?:\.(\d+))?", version.lower().replace("_", "."))
    if not parts:
        raise UsageError(f"rocketmq version {version!r} does not look like {DEFAULT_VERSION}")
    return tuple(int(part or 0) for part in parts.groups())
