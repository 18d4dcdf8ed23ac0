"""The sizes of a store and its delay levels, under the broker's own names. No file of a store
states them.

Source: ``docs/formats/store-directory.md``; MessageStoreConfig.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from logdex import limits
from logdex.errors import UsageError
from logdex.layout.rocketmq import CONSUME_QUEUE_ENTRY, INDEX_ENTRY, INDEX_HEADER, INDEX_SLOT
from logdex.rocketmq.settings.dialect import DEFAULT_VERSION, Dialect

DEFAULT_DELAY_LEVELS = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"
"""The broker's default messageDelayLevel. The first level is 1."""
_UNIT_MS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def parse_delay_levels(text: str) -> tuple[int, ...]:
    """The milliseconds of each delay level of a messageDelayLevel setting, level 1 first.

    Raises `UsageError` for a malformed setting, and for one without a level.
    """
    levels = []
    for part in text.split():
        if not re.fullmatch(r"[0-9]{1,10}[smhd]", part):
            raise UsageError(
                f"messageDelayLevel: {part[:40]!r} is not a number of at most ten digits with s, m, h or d"
            )
        levels.append(int(part[:-1]) * _UNIT_MS[part[-1]])
    if not levels:
        raise UsageError("messageDelayLevel: there is no level")
    return tuple(levels)


def is_delay(delay_ms: int) -> bool:
    """Whether a level of messageDelayLevel can be this long: whole seconds, at most a year. No
    single changed bit of a delivery time gives whole seconds."""
    return 0 <= delay_ms <= 366 * _UNIT_MS["d"] and delay_ms % _UNIT_MS["s"] == 0


def delay_text(delay_ms: int) -> str:
    """Returns a delay as messageDelayLevel states it: in the largest unit that divides it."""
    unit = next((unit for unit in reversed(_UNIT_MS) if delay_ms and delay_ms % _UNIT_MS[unit] == 0), "s")
    return f"{delay_ms // _UNIT_MS[unit]}{unit}"


_SIZE_BOUNDS = {
    "mapped_file_size_commit_log": (8, limits.COMMIT_LOG_FILE_SIZE_BYTES_MAX),
    "mapped_file_size_consume_queue": (CONSUME_QUEUE_ENTRY.size_bytes, limits.COMMIT_LOG_FILE_SIZE_BYTES_MAX),
    "max_hash_slot_num": (1, limits.HASH_SLOT_NUM_MAX),
    "max_index_num": (2, limits.INDEX_NUM_MAX),
}
"""The smallest and the largest value of each size."""


def require_possible_size(name: str, value: int, shown_name: str | None = None) -> None:
    """Raises `UsageError` if no store can have this value of a size, given by its field's name."""
    low, high = _SIZE_BOUNDS[name]
    if not isinstance(value, int) or isinstance(value, bool):
        raise UsageError(f"{name} is {value!r}", hint="give a whole number")
    if not low <= value <= high:
        raise UsageError(f"{shown_name or name} must be from {low} to {high}, got {value!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreConfig:
    """Sizes in bytes, with the broker's names and defaults (MessageStoreConfig).

    `max_index_num` counts the unused entry 0 too, so a file has at most `max_index_num` - 1
    entries.
    """

    mapped_file_size_commit_log: int = 1 << 30
    mapped_file_size_consume_queue: int = 300_000 * CONSUME_QUEUE_ENTRY.size_bytes
    max_hash_slot_num: int = 5_000_000
    max_index_num: int = 20_000_000
    dialect: Dialect = field(default_factory=lambda: Dialect.of(DEFAULT_VERSION))
    delay_levels_ms: tuple[int, ...] = field(default_factory=lambda: parse_delay_levels(DEFAULT_DELAY_LEVELS))
    delay_levels_shown: tuple[int, ...] | None = field(default=None, compare=False)
    """The delay levels that the store shows, if nobody stated messageDelayLevel. The delays of the
    others are guesses. None if all delays were stated."""
    evidence: tuple[str, ...] = field(default=(), compare=False)
    """The source of each value, one line each, if `geometry.resolve_config` made the config."""
    store_path_commit_log: str | None = None
    """The directory of the CommitLog, None if it is ``commitlog/`` in the store."""
    more_store_paths_commit_log: tuple[str, ...] = ()
    """The further directories of the CommitLog, where the broker has several store paths."""
    contradicted: tuple[str, ...] = field(default=(), compare=False)
    """Values that the caller stated and the files contradict, one line each."""
    assumed: tuple[str, ...] = field(default=(), compare=False)
    """Values that are guesses, one line each: neither the caller nor the store determines them."""
    has_guessed_sizes: bool = field(default=False, compare=False)
    """Whether sizes are among the guesses, because no file shows them yet."""

    def __post_init__(self) -> None:
        for name in _SIZE_BOUNDS:
            require_possible_size(name, getattr(self, name))

    @property
    def commit_log_directories(self) -> tuple[str, ...]:
        """The directories of the CommitLog, empty if it is ``commitlog/`` in the store."""
        return (
            ()
            if self.store_path_commit_log is None
            else (self.store_path_commit_log, *self.more_store_paths_commit_log)
        )

    @property
    def consume_queue_file_size_bytes(self) -> int:
        """The ConsumeQueue file size as the broker rounds it: up to a multiple of 20 bytes."""
        unit = CONSUME_QUEUE_ENTRY.size_bytes
        return -(-self.mapped_file_size_consume_queue // unit) * unit

    @property
    def index_file_size_bytes(self) -> int:
        """The size of an IndexFile: header, slots, entries."""
        slots = self.max_hash_slot_num * INDEX_SLOT.size_bytes
        return INDEX_HEADER.size_bytes + slots + self.max_index_num * INDEX_ENTRY.size_bytes


def shown_log_size(size_bytes: int) -> str:
    """Returns the line of `StoreConfig.evidence` for a size that only the CommitLog files show."""
    return f"mappedFileSizeCommitLog: {size_bytes}, as the files are"
