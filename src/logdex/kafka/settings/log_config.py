"""The settings that a partition is written with, under the broker's names.

Source: Kafka's LogConfig, TopicConfig. No file of a partition states them.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Annotated, Literal, Self, TypedDict

from logdex import limits
from logdex.errors import UsageError
from logdex.jobs.settings import Flag, require_known

DAY_MS = 24 * 60 * 60 * 1000
_LONG_MAX = (1 << 63) - 1
_UNBOUNDED = (
    *("segment_ms", "retention_bytes", "retention_ms"),
    *("delete_retention_ms", "min_compaction_lag_ms", "producer_id_expiration_ms"),
)
_TIMESTAMP_BOUNDS = (
    *("message_timestamp_before_max_ms", "message_timestamp_after_max_ms"),
    "message_timestamp_difference_max_ms",
)
_AFTER_MAX_MS = 60 * 60 * 1000
"""The default of message.timestamp.after.max.ms from 4.0 on."""
_KNOWN_VERSIONS = (0, 8), (5,)  # from, to (exclusive)
_VERSION = re.compile(r"v?(\d{1,4}(?:\.\d{1,4}){0,3})(?:-[\w.-]+)?", re.ASCII)


def parse_kafka_version(text: str) -> tuple[int, ...]:
    """Parses a broker version such as ``3.9.2``, ``0.10.2.1``, ``4.0`` or ``3.9.2-rc1``.

    Raises `UsageError` for other text and for versions whose files Logdex does not know.
    """
    found = _VERSION.fullmatch(text) if isinstance(text, str) else None
    numbers = tuple(map(int, found[1].split("."))) if found else ()
    if not numbers or not _KNOWN_VERSIONS[0] <= numbers < _KNOWN_VERSIONS[1]:
        raise UsageError(f"kafka version {text!r} is not known", hint="use 0.8 to 4.x, such as 3.9.2")
    return numbers


@dataclass(frozen=True, slots=True)
class LogConfig:
    """A topic's settings: sizes in bytes, times in milliseconds, -1 for "no bound".

    The defaults are the broker's.
    """

    index_interval_bytes: Annotated[int, Flag("index.interval.bytes of the topic (Kafka).", "BYTES")] = 4096
    segment_bytes: Annotated[int, Flag("segment.bytes of the topic (Kafka).", "BYTES")] = 1 << 30
    segment_ms: int = 7 * DAY_MS
    segment_index_bytes: int = 10 << 20
    retention_bytes: int = -1
    retention_ms: int = 7 * DAY_MS
    cleanup_policy: tuple[str, ...] = ("delete",)
    """``delete`` and ``compact``. A string, as in the broker's configuration, is split at its
    commas."""
    delete_retention_ms: int = DAY_MS
    min_compaction_lag_ms: int = 0
    max_message_bytes: int = 1_048_588
    message_timestamp_type: str = "CreateTime"
    message_timestamp_before_max_ms: int | None = None
    """How much earlier than the log's clock a record's time may be. None: as the broker of
    `kafka_version` by default, which is no bound."""
    message_timestamp_after_max_ms: int | None = None
    """How much later than the log's clock a record's time may be. None: as the broker of
    `kafka_version` by default, which is an hour from 4.0 on, and no bound before."""
    message_timestamp_difference_max_ms: int | None = None
    """Both bounds at once, where they are not stated themselves, before 4.0."""
    producer_id_expiration_ms: int = DAY_MS
    flush: str = "async"
    """``sync``: `append` returns when the bytes are on disk; ``async``: `flush` writes them to
    disk."""
    kafka_version: Annotated[str, Flag("Version of the broker that wrote the log (Kafka).", "VERSION")] = "4.4.0"
    """The broker that wrote the log, 0.8 to 4.x."""

    @property
    def has_entry_per_batch(self) -> bool:
        """Whether an append of several batches may make several index entries (KAFKA-806, in 3.9.1
        and 4.0.1), and not one at most."""
        version = parse_kafka_version(self.kafka_version)
        return version >= (3, 9, 1) and (*version, 0, 0)[:3] != (4, 0, 0)

    @property
    def timestamp_bounds_ms(self) -> tuple[int | None, int | None]:
        """How much earlier and how much later than the log's clock the time of a record may be that
        is appended, None without a bound. With LogAppendTime there are none: the clock's time is
        stored."""
        if self.message_timestamp_type == "LogAppendTime":
            return None, None
        by_version = _AFTER_MAX_MS if parse_kafka_version(self.kafka_version) >= (4,) else None
        before = _bound(self.message_timestamp_before_max_ms, self.message_timestamp_difference_max_ms, None)
        return before, _bound(self.message_timestamp_after_max_ms, self.message_timestamp_difference_max_ms, by_version)

    @property
    def is_compacted(self) -> bool:
        """Whether only the last record per key is kept, so that each record must have a key."""
        return "compact" in self.cleanup_policy

    def __new__(cls, *_: object, **settings: object) -> Self:
        """Raises `UsageError`, with the nearest name, for an unknown setting."""
        require_known(settings, cls)
        return object.__new__(cls)

    def __post_init__(self) -> None:
        """Raises `UsageError` for values that no log can have."""
        bounds = {
            "segment_bytes": (1, limits.SEGMENT_SIZE_BYTES_MAX),
            "segment_index_bytes": (24, limits.INDEX_SIZE_BYTES_MAX),
            "index_interval_bytes": (0, limits.SEGMENT_SIZE_BYTES_MAX),
            "max_message_bytes": (0, limits.BATCH_SIZE_BYTES_MAX),
            **dict.fromkeys(_UNBOUNDED, (-1, _LONG_MAX)),
            **dict.fromkeys(_TIMESTAMP_BOUNDS, (-1, _LONG_MAX)),
        }
        for name, (low, high) in bounds.items():
            value: object = getattr(self, name)
            if value is None and name in _TIMESTAMP_BOUNDS:
                continue
            if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
                raise UsageError(f"{name} is {value!r}", hint=f"use {low} to {high}")
        version = parse_kafka_version(self.kafka_version)
        if self.message_timestamp_difference_max_ms is not None and version >= (4,):
            raise UsageError(
                f"message_timestamp_difference_max_ms is no setting of Kafka {self.kafka_version}",
                hint="use message_timestamp_before_max_ms and message_timestamp_after_max_ms",
            )
        policy: object = self.cleanup_policy
        if isinstance(policy, str):
            object.__setattr__(self, "cleanup_policy", tuple(filter(None, map(str.strip, policy.split(",")))))
        if self.flush not in ("sync", "async"):
            raise UsageError(f"flush is {self.flush!r}", hint="use 'sync' or 'async'")
        if not isinstance(self.cleanup_policy, Collection) or not set(self.cleanup_policy) <= {"delete", "compact"}:
            raise UsageError(f"cleanup_policy is {self.cleanup_policy!r}", hint="use 'delete', 'compact' or both")
        if self.message_timestamp_type not in ("CreateTime", "LogAppendTime"):
            raise UsageError(
                f"message_timestamp_type is {self.message_timestamp_type!r}", hint="use CreateTime or LogAppendTime"
            )


class LogSettings(TypedDict, total=False):
    """The fields of `LogConfig` as keyword arguments, as callers give them."""

    index_interval_bytes: int
    segment_bytes: int
    segment_ms: int
    segment_index_bytes: int
    retention_bytes: int
    retention_ms: int
    cleanup_policy: str | Collection[str]
    delete_retention_ms: int
    min_compaction_lag_ms: int
    max_message_bytes: int
    message_timestamp_type: Literal["CreateTime", "LogAppendTime"]
    message_timestamp_before_max_ms: int | None
    message_timestamp_after_max_ms: int | None
    message_timestamp_difference_max_ms: int | None
    producer_id_expiration_ms: int
    flush: Literal["sync", "async"]
    kafka_version: str


def _bound(stated: int | None, both: int | None, default: int | None) -> int | None:
    """A bound of record times, as LogConfig of 3.9 decides: the stated one, unless it is no bound,
    else the one for both."""
    if stated in (None, -1, _LONG_MAX) and both is not None:
        stated = both
    if stated is None:
        return default
    return None if stated in (-1, _LONG_MAX) else stated


def make_config(config: LogConfig | None, settings: LogSettings) -> LogConfig:
    """Returns `config`, or a config of single settings.

    Raises `UsageError` if both are given, or a setting is unknown.
    """
    if not isinstance(config, (LogConfig, type(None))):
        raise UsageError(
            f"a config is a LogConfig, not {type(config).__name__}", hint="LogConfig(segment_bytes=1 << 20)"
        )
    if config is not None and settings:
        raise UsageError("a config and single settings exclude each other", hint="give only one of them")
    require_known(settings, LogConfig)
    return config if config is not None else LogConfig(**settings)  # type: ignore[arg-type]
