"""How a `MessageStore` works: flushing, limits, hosts, threads. None of it shows in the files.

Source: MessageStoreConfig.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, TypedDict

from logdex.errors import UsageError
from logdex.primitives.host import Host
from logdex.rocketmq.settings.store_settings import StoreSettings

_INT_MAX = (1 << 31) - 1
_LOOPBACK = bytes((127, 0, 0, 1))


def never() -> bool:
    """False, always."""
    return False


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreOptions:
    """The options of one open store, with the broker's names and defaults where it has them."""

    flush: Literal["async", "sync"] = "async"
    """With ``sync`` a put returns when its bytes are on disk."""
    store_host: Host = field(default_factory=lambda: Host(_LOOPBACK, 10911))
    """The broker's address in messages and MessageIDs."""
    born_host: Host = field(default_factory=lambda: Host(_LOOPBACK, 0))
    """The producer's address in messages that state none."""
    unique_keys: bool = True
    """Whether a message without UNIQ_KEY gets one, as a client gives it."""
    max_message_size: int = 4 << 20
    """The largest body in bytes (maxMessageSize)."""
    default_topic_queue_nums: int = 4
    """The number of queues of a topic that is made by its first message."""
    sync_flush_timeout_ms: int = 5_000
    """How long a put waits for another thread's fsync before it returns FLUSH_DISK_TIMEOUT."""
    is_slave: bool = False
    """A slave refuses puts."""
    first_offset: int = 0
    """The physical offset at which the log of a new store begins: the start of a file."""
    page_cache_busy: Callable[[], bool] = never
    """Whether puts are refused for now (isOSPageCacheBusy)."""
    disk_space_warning_level_ratio: float = 0.90
    """Above this part of the disk in use, puts are refused (diskSpaceWarningLevelRatio); 1 sets no
    limit. A thread looks at the disk, first a second after the opening as in the engine, and
    `delete_expired` does; without threads only that."""
    clean_resource_interval_ms: int = 10_000
    """How often the thread looks at the disk (cleanResourceInterval)."""
    warm_mapped_file_enable: bool = False
    """Whether the disk space of the next file of the log is reserved when it is made ahead, so that
    no put meets a full disk in the middle of it (warmMapedFileEnable)."""
    background: bool = True
    """Whether threads flush and dispatch. Without them, `flush` and `dispatch` do it when
    called."""
    flush_interval_commit_log_ms: int = 500
    flush_commit_log_least_pages: int = 4
    flush_commit_log_thorough_interval_ms: int = 10_000
    flush_interval_consume_queue_ms: int = 1_000
    flush_consume_queue_thorough_interval_ms: int = 10_000
    schedule_interval_ms: int = 100
    """The pause between two looks for delayed messages that are due."""
    flush_delay_offset_interval_ms: int = 100
    """How often delayOffset.json is written at most while delayed messages are delivered
    (flushDelayOffsetInterval, 10,000 in a broker). While many are due the pause is longer on a slow
    disk: 20 times what the write took."""
    reput_interval_ms: int = 1
    """The pause between two looks of the dispatch at the log."""

    def __post_init__(self) -> None:
        """Raises `UsageError` for values that no store can work with."""
        for name, declared in self.__dataclass_fields__.items():
            value = getattr(self, name)
            if declared.type == "int" and (not isinstance(value, int) or isinstance(value, bool)):
                raise UsageError(f"{name} is {value!r}", hint="give a whole number")
        if self.first_offset < 0:
            raise UsageError(f"first_offset must be 0 or more, got {self.first_offset}")
        if self.flush not in ("async", "sync"):
            raise UsageError(f"flush is {self.flush!r}", hint="use 'async' or 'sync'")
        if not 0 < self.disk_space_warning_level_ratio <= 1:
            found = self.disk_space_warning_level_ratio
            raise UsageError(f"disk_space_warning_level_ratio must be above 0 and at most 1, got {found}")
        for name in ("max_message_size", "default_topic_queue_nums"):
            if not 1 <= getattr(self, name) <= _INT_MAX:
                raise UsageError(f"{name} must be from 1 to {_INT_MAX}, got {getattr(self, name)}")


# The base TypedDict is named again because pdoc finds inherited keys only then.
class MessageStoreSettings(StoreSettings, TypedDict, total=False):
    """The settings of `MessageStore.open`: the fields of `StoreOptions` but the hosts, and what no
    file of a store states."""

    flush: Literal["async", "sync"]
    unique_keys: bool
    max_message_size: int
    default_topic_queue_nums: int
    sync_flush_timeout_ms: int
    is_slave: bool
    first_offset: int
    page_cache_busy: Callable[[], bool]
    disk_space_warning_level_ratio: float
    clean_resource_interval_ms: int
    warm_mapped_file_enable: bool
    background: bool
    flush_interval_commit_log_ms: int
    flush_commit_log_least_pages: int
    flush_commit_log_thorough_interval_ms: int
    flush_interval_consume_queue_ms: int
    flush_consume_queue_thorough_interval_ms: int
    schedule_interval_ms: int
    flush_delay_offset_interval_ms: int
    reput_interval_ms: int
